//! The kit of the integration tests: stock brokers, real twinlog processes, a reader of segment folders of its own, and the house
//! rules that a machine can check. Ships nothing. A kit function that meets a broken environment panics and says what is wrong: the
//! test that asked for it has failed.

pub mod command;
pub mod copy;
pub mod embedded;
pub mod genesis;
pub mod house;
pub mod kafka;
pub mod kafka_log;
pub mod librdkafka;
pub mod oracle;
pub mod place;
pub mod process;
pub mod prometheus;
pub mod relay;
pub mod standby;
pub mod terminal;
pub mod tidy;
pub mod wild;
