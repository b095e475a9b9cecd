//! Following the source: what changes there while it is mirrored, and topics that were started while it could not be asked.
//!
//! `task.rs` asks, each mirror at its own interval and at most once at a time; the other files decide and are pure. A source
//! that is slow or silent delays nobody but itself.

pub mod exclusion;
pub mod internal;
pub mod loops;
pub mod news;
pub mod question;
pub mod task;
pub mod verdict;
