//! pure: what the state log says. Layout: `schemas/read_mirror_states.json`.

include!(concat!(env!("OUT_DIR"), "/read_mirror_states.rs"));
