//! pure: records for partitions, to be refused. Layout: `schemas/produce.json`.

include!(concat!(env!("OUT_DIR"), "/produce.rs"));
