//! pure: the body of an assignment file. Layout: `schemas/assignment.json`.

include!(concat!(env!("OUT_DIR"), "/assignment.rs"));
