//! pure: topics begin to be mirrored. Layout: `schemas/start_mirror_topics.json`.

include!(concat!(env!("OUT_DIR"), "/start_mirror_topics.rs"));
