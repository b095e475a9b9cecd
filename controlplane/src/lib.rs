//! The control plane: mirror requests in, states into the state log, orders to the data plane. It never sees a record.

pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod driver;
pub mod error;
pub mod files;
pub mod follow;
pub mod frames;
pub mod health;
pub mod host;
pub mod limits;
pub mod memory;
pub mod metrics;
pub mod mirror;
pub mod node;
pub mod overview;
pub mod plane;
pub mod rpc;
pub mod server;
pub mod source;
pub mod statelog;
pub mod steps;
pub mod sync;
pub mod watch;
