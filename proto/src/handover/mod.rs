//! Handing mirrored partitions over to a stock broker: what has to be appended so that no transaction stays open and no committed offset
//! lies beyond a log's end, and the plan by which the data plane does the work on the files.
//!
//! `twinlog promote` reads the files and asks [`resolve`]; [`batches`] makes bytes of the answer; they go into a [`plan`].

pub mod batches;
mod offsets;
mod open_txn;
pub mod plan;
pub mod resolve;
pub mod trail;
mod transactions;
