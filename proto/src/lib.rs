//! Everything that crosses a process border: Kafka frames, the files of a log directory, the shared-memory channel.
//!
//! No runtime, no clock, no files: bytes in, values out, and back. The one exception is `channel/region.rs`, which maps the
//! shared memory.

pub mod api;
pub mod assignment;
pub mod channel;
pub mod error;
pub mod error_code;
pub mod frame;
pub mod handover;
pub mod ids;
pub mod log_level;
pub mod messages;
pub mod mirror_state;
pub mod primitives;
pub mod properties;
pub mod reader;
pub mod records;
mod sealed;
pub mod security;
pub mod storage;
pub mod writer;
