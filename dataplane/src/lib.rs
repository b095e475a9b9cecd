//! The data plane: fetches record batches from source leaders and writes them into Kafka segment files.
//!
//! One pinned thread per core; a core owns its partitions, sockets, files, buffers, ring pair and board slots.

// JUSTIFICATION: an allocator is an unsafe trait.
#[allow(unsafe_code)]
pub mod allocator;
// JUSTIFICATION: one mapping for all buffers, shared with the kernel, has no safe form.
#[allow(unsafe_code)]
pub mod buffers;
pub mod checkpoints;
pub mod config;
pub mod control;
pub mod core;
pub mod disk;
pub mod fault;
pub mod housekeeping;
pub mod instance_lock;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod mirror;
pub mod node;
pub mod steps;
pub mod surgery;
pub mod wire;
