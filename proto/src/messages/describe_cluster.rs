//! pure: the nodes of a cluster. Layout: `schemas/describe_cluster.json`.

include!(concat!(env!("OUT_DIR"), "/describe_cluster.rs"));
