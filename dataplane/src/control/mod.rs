//! This process's end of the channel to the control plane.
//!
//! ```text
//! main:         let (channel, seats) = Channel::open(&config)?;           // one seat per core
//!               let server = ChannelServer::start(&channel, state)?;      // a plain thread
//! core thread:  let CoreEnds { inbox, outbox, metrics } = seat.take();
//!   each turn:  while let Some(order) = inbox.take() {..}   outbox.publish(..)   outbox.event(..)   outbox.ring()
//! ```
//! Nothing here ever waits for the control plane: a ring that it does not empty costs events, which are hints.

pub mod channel_server;
pub mod inbox;
pub mod outbox;
