//! pure: the producers that a leader knows. Layout: `schemas/describe_producers.json`.

include!(concat!(env!("OUT_DIR"), "/describe_producers.rs"));
