//! pure: settings of topics, brokers and mirrors. Layout: `schemas/describe_configs.json`.

include!(concat!(env!("OUT_DIR"), "/describe_configs.rs"));
