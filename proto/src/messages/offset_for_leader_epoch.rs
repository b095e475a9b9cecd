//! pure: where a leader epoch ends. Layout: `schemas/offset_for_leader_epoch.json`.

include!(concat!(env!("OUT_DIR"), "/offset_for_leader_epoch.rs"));
