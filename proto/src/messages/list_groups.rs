//! pure: the groups that a broker coordinates. Layout: `schemas/list_groups.json`.

include!(concat!(env!("OUT_DIR"), "/list_groups.rs"));
