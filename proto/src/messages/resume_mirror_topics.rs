//! pure: paused topics go on. Layout: `schemas/resume_mirror_topics.json`.

include!(concat!(env!("OUT_DIR"), "/resume_mirror_topics.rs"));
