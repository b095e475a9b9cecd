//! pure: the plan of a hand-over and its result. Layout: `schemas/hand_over.json`.

include!(concat!(env!("OUT_DIR"), "/hand_over.rs"));
