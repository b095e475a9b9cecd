//! pure: what is mirrored besides records follows the source now. Layout: `schemas/sync_mirror.json`.

include!(concat!(env!("OUT_DIR"), "/sync_mirror.rs"));
