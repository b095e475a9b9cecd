//! pure: partitions are moved to a log directory of the broker. Layout: `schemas/alter_replica_log_dirs.json`.

include!(concat!(env!("OUT_DIR"), "/alter_replica_log_dirs.rs"));
