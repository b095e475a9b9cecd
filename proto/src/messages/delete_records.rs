//! pure: log starts of partitions are raised. Layout: `schemas/delete_records.json`.

include!(concat!(env!("OUT_DIR"), "/delete_records.rs"));
