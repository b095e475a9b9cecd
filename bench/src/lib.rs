//! The embedded source, the floor, and measured runs of the two planes.

pub mod args;
pub mod serve;
pub mod source;
pub mod units;
