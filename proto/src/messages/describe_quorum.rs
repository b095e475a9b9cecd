//! pure: who leads the metadata quorum. Layout: `schemas/describe_quorum.json`.

include!(concat!(env!("OUT_DIR"), "/describe_quorum.rs"));
