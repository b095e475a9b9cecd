//! pure: the log directories of a broker. Layout: `schemas/describe_log_dirs.json`.

include!(concat!(env!("OUT_DIR"), "/describe_log_dirs.rs"));
