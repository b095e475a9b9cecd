//! Settings of topics: what the source has becomes what the mirrored topic is to have, and what a running destination gets.

pub mod apply;
pub mod destination;
pub mod plan;
