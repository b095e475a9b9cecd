//! This process's end of the channel to the control plane.
//!
//! ```text
//! main:         let locks = InstanceLocks::take(state, &data)?;            // first of all; kept to the end
//!               let (channel, seats) = Channel::open(cores, SLOTS)?;       // one seat per core
//!               let view = channel.own().view().clone();                   // housekeeping reads the board through it
//!               let server = ChannelServer::start(channel, state)?;        // a plain thread; when all is ready to take orders
//! core thread:  let CoreEnds { inbox, outbox, metrics } = seat.take();
//!   each tick:  outbox.move_over(..)   outbox.repair(..)               // the region may be another one from here on
//!   each turn:  while let Some(order) = inbox.take() {..}   outbox.publish(..)   outbox.event(..)   outbox.ring()
//!   idle:       drain_bell, inbox.take() a last time, then an io_uring read of 8 bytes from inbox.bell()
//! ```
//! Nothing here ever waits for the control plane: a ring that it does not empty costs events, which are hints.

pub mod channel;
pub mod channel_server;
pub mod desk;
pub mod inbox;
pub mod outbox;
pub mod renewals;
