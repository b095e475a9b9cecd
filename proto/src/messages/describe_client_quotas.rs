//! pure: quotas of clients. Layout: `schemas/describe_client_quotas.json`.

include!(concat!(env!("OUT_DIR"), "/describe_client_quotas.rs"));
