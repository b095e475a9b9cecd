//! pure: who has a SCRAM password. Layout: `schemas/describe_user_scram_credentials.json`.

include!(concat!(env!("OUT_DIR"), "/describe_user_scram_credentials.rs"));
