//! pure: who keeps the state of a group or a mirror. Layout: `schemas/find_coordinator.json`.

include!(concat!(env!("OUT_DIR"), "/find_coordinator.rs"));
