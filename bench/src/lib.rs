//! The embedded source, the floor, and measured runs of the two planes.

pub mod source;
