//! The embedded source: a Kafka broker whose topic is computed from a seed.

pub mod batches;
pub mod read;
pub mod session;
pub mod store;
