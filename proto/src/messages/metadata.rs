//! pure: brokers, topics, partitions and their leaders. Layout: `schemas/metadata.json`.

include!(concat!(env!("OUT_DIR"), "/metadata.rs"));
