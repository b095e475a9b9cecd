//! pure: changes states in the state log. Layout: `schemas/write_mirror_states.json`.

include!(concat!(env!("OUT_DIR"), "/write_mirror_states.rs"));
