//! pure: where share groups start to deliver. Layout: `schemas/describe_share_group_offsets.json`.

include!(concat!(env!("OUT_DIR"), "/describe_share_group_offsets.rs"));
