//! pure: picks the mechanism of an authentication. Layout: `schemas/sasl_handshake.json`.

include!(concat!(env!("OUT_DIR"), "/sasl_handshake.rs"));
