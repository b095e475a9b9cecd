//! pure: committed offsets of groups. Layout: `schemas/offset_fetch.json`.

include!(concat!(env!("OUT_DIR"), "/offset_fetch.rs"));
