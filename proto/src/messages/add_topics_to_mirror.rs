//! pure: the February draft's way to start topics. Layout: `schemas/add_topics_to_mirror.json`.

include!(concat!(env!("OUT_DIR"), "/add_topics_to_mirror.rs"));
