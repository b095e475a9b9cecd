//! pure: offsets of a group are set. Layout: `schemas/offset_commit.json`.

include!(concat!(env!("OUT_DIR"), "/offset_commit.rs"));
