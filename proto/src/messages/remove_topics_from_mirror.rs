//! pure: the February draft's way to stop topics. Layout: `schemas/remove_topics_from_mirror.json`.

include!(concat!(env!("OUT_DIR"), "/remove_topics_from_mirror.rs"));
