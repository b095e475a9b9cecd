//! pure: topics become the destination's own. Layout: `schemas/stop_mirror_topics.json`.

include!(concat!(env!("OUT_DIR"), "/stop_mirror_topics.rs"));
