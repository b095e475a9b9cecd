//! Quotas of clients: what the source allows its clients at most is kept for whoever takes the mirror over, with the names of users whose
//! passwords cannot come along.

pub mod apply;
pub mod plan;
