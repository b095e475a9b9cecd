//! pure: records of `__transaction_state` and `__consumer_offsets`. Layout: `schemas/coordinator_records.json`.

include!(concat!(env!("OUT_DIR"), "/coordinator_records.rs"));
