//! KRaft metadata as a controller stores it: records, the batches around them, and snapshot files.
//!
//! The control plane writes a node's first snapshot by this, and `dump` reads logs and snapshots. Values in, values out.

pub mod batch;
pub mod control;
pub mod records;
pub mod snapshot;

/// The topic of the metadata log.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
/// Folder of the metadata log in the metadata log directory.
pub const METADATA_LOG: &str = "__cluster_metadata-0";
/// The snapshot of an empty metadata log, in [`METADATA_LOG`]: where `kafka-storage format` puts its records since 4.4, and the voters of
/// a dynamic quorum before.
pub const FIRST_SNAPSHOT: &str = "00000000000000000000-0000000000.checkpoint";
/// Where `kafka-storage format` puts its records up to 4.3, in the metadata log directory.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
/// Suffix of every snapshot.
pub const SNAPSHOT_SUFFIX: &str = ".checkpoint";
