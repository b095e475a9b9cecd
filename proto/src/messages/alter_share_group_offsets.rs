//! pure: where a share group is to start to deliver. Layout: `schemas/alter_share_group_offsets.json`.

include!(concat!(env!("OUT_DIR"), "/alter_share_group_offsets.rs"));
