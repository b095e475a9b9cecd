//! pure: names a source cluster and how to reach it. Layout: `schemas/create_mirror.json`.

include!(concat!(env!("OUT_DIR"), "/create_mirror.rs"));
