//! pure: forgets a mirror. Layout: `schemas/delete_mirror.json`.

include!(concat!(env!("OUT_DIR"), "/delete_mirror.rs"));
