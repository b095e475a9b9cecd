//! pure: records of topics wait. Layout: `schemas/pause_mirror_topics.json`.

include!(concat!(env!("OUT_DIR"), "/pause_mirror_topics.rs"));
