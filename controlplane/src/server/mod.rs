//! The Kafka protocol listener, and the small HTTP one for metrics.

pub mod budget;
pub mod conn;
pub mod counters;
pub mod descriptors;
pub mod dispatch;
pub mod gate;
pub mod http;
mod judged;
pub mod listener;
pub mod pages;
