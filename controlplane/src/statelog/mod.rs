//! The state log: what is promised is in it before anyone is told.

pub mod batch;
pub mod durable;
pub mod load;
pub mod record;
pub mod recovery_point;
pub mod replay;
pub mod snapshot;
pub mod writer;
