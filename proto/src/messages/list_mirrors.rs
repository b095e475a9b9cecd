//! pure: the mirrors of a cluster. Layout: `schemas/list_mirrors.json`.

include!(concat!(env!("OUT_DIR"), "/list_mirrors.rs"));
