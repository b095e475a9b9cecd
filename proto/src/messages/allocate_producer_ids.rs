//! pure: a block of producer ids is taken from the controller. Layout: `schemas/allocate_producer_ids.json`.

include!(concat!(env!("OUT_DIR"), "/allocate_producer_ids.rs"));
