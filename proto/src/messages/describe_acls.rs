//! pure: a listing of access control entries. Layout: `schemas/describe_acls.json`.

include!(concat!(env!("OUT_DIR"), "/describe_acls.rs"));
