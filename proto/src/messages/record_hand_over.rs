//! pure: stopped topics are a broker's now, or ours again. Layout: `schemas/record_hand_over.json`.

include!(concat!(env!("OUT_DIR"), "/record_hand_over.rs"));
