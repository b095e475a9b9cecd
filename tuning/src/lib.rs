//! Checks a host against what the data plane needs. Reads /proc and /sys; changes nothing.

pub mod facts;
pub mod report;
pub mod root;
pub mod rules;
