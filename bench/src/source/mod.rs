//! The embedded source: a Kafka broker whose topic is computed from a seed.

pub mod answers;
pub mod batches;
pub mod broker;
pub mod configs;
pub mod fetch;
mod layout;
pub mod outgoing;
pub mod pace;
pub mod read;
pub mod session;
pub mod store;
