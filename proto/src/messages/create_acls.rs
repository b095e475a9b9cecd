//! pure: more access control entries. Layout: `schemas/create_acls.json`.

include!(concat!(env!("OUT_DIR"), "/create_acls.rs"));
