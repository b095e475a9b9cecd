//! pure: fewer access control entries. Layout: `schemas/delete_acls.json`.

include!(concat!(env!("OUT_DIR"), "/delete_acls.rs"));
