//! pure: which records a fetcher wants. Layout: `schemas/fetch_request.json`.

include!(concat!(env!("OUT_DIR"), "/fetch_request.rs"));
