//! The files of a Kafka log directory: their bytes both ways, and the rules by which a stock broker writes them.
//!
//! Everything here is values in, values out. Who opens, writes and syncs the files is the data plane.

pub mod checkpoint;
pub mod clean_shutdown;
pub mod coordinator;
pub mod kraft;
pub mod leader_epochs;
pub mod meta_properties;
pub mod names;
pub mod offset_index;
pub mod partition_metadata;
pub mod producer_snapshot;
pub mod producer_state;
pub mod roll;
pub mod segment_indexer;
mod text;
pub mod time_index;
pub mod truncation;
pub mod txn_index;
