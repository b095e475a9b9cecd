//! pure: changes single settings. Layout: `schemas/incremental_alter_configs.json`.

include!(concat!(env!("OUT_DIR"), "/incremental_alter_configs.rs"));
