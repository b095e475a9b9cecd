//! pure: a producer asks for an id. Layout: `schemas/init_producer_id.json`.

include!(concat!(env!("OUT_DIR"), "/init_producer_id.rs"));
