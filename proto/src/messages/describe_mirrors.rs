//! pure: states and offsets of mirrored partitions. Layout: `schemas/describe_mirrors.json`.

include!(concat!(env!("OUT_DIR"), "/describe_mirrors.rs"));
