//! pure: topics are made, with their partitions placed by hand. Layout: `schemas/create_topics.json`.

include!(concat!(env!("OUT_DIR"), "/create_topics.rs"));
