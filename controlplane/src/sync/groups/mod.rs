//! Committed offsets of groups, for a destination that runs: what a group has read at the source it has read there too.
//!
//! For a standby nothing is done here, for the offsets come with `__consumer_offsets`.

pub mod apply;
pub mod commit;
pub mod listing;
pub mod memory;
pub mod offsets;
pub mod plan;
pub mod share;
