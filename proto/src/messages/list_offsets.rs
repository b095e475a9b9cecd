//! pure: offsets by timestamp. Layout: `schemas/list_offsets.json`.

include!(concat!(env!("OUT_DIR"), "/list_offsets.rs"));
