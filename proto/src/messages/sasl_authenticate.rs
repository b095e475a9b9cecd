//! pure: one round of an authentication. Layout: `schemas/sasl_authenticate.json`.

include!(concat!(env!("OUT_DIR"), "/sasl_authenticate.rs"));
