//! The embedded source, the floor, and measured runs of the two planes.

pub mod args;
pub mod compare;
pub mod control;
pub mod floor;
pub mod limits;
pub mod proc;
pub mod run;
pub mod serve;
pub mod source;
pub mod spawn;
pub mod units;
