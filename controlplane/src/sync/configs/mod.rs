//! Settings of topics: what the source has becomes what the mirrored topic is to have.

pub mod apply;
pub mod plan;
