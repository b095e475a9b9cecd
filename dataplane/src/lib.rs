//! The data plane: fetches record batches from source leaders and writes them into Kafka segment files.
//!
//! One pinned thread per core; a core owns its partitions, sockets, files, buffers, ring pair and board slots.

// JUSTIFICATION: an allocator is an unsafe trait.
#[allow(unsafe_code)]
pub mod allocator;
pub mod checkpoints;
pub mod control;
pub mod housekeeping;
pub mod instance_lock;
pub mod metrics;
