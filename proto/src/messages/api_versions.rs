//! pure: what a broker speaks, and which features its cluster has finalized. Layout: `schemas/api_versions.json`.

include!(concat!(env!("OUT_DIR"), "/api_versions.rs"));
