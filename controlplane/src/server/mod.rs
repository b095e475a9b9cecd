//! The Kafka protocol listener, and the small HTTP one for metrics.

pub mod conn;
pub mod dispatch;
pub mod http;
pub mod listener;
pub mod pages;
