//! Following the source: what changes there while it is mirrored, and topics that were started while it could not be asked.
//!
//! `task.rs` says when each mirror is asked, `round.rs` asks, at most once at a time; the other files decide and are pure. A source
//! that is slow or silent delays nobody but itself.

pub mod changes;
pub mod exclusion;
pub mod internal_starts;
pub mod news;
pub mod question;
pub mod round;
pub mod rounds;
pub mod task;
pub mod verdict;
