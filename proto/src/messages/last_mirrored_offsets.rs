//! pure: where mirroring ended. Layout: `schemas/last_mirrored_offsets.json`.

include!(concat!(env!("OUT_DIR"), "/last_mirrored_offsets.rs"));
