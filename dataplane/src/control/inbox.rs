//! Ring -> order. The core calls [`Inbox::take`] each turn, and waits on the bell when it has nothing else to do.

use crate::metrics::{Counter, Metrics};
use std::os::fd::{AsFd, BorrowedFd};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::message::Order;
use twinlog_proto::channel::region::Window;
use twinlog_proto::channel::ring::Consumer;

/// The orders of one core.
#[derive(Debug)]
pub struct Inbox {
    ring: Consumer<Window>,
    bell: Doorbell,
    metrics: Metrics,
    /// The ring was found broken at the last look: said once, not at each turn.
    said_broken: bool,
}

impl Inbox {
    pub(super) fn new(ring: Consumer<Window>, bell: Doorbell, metrics: Metrics) -> Self {
        Self { ring, bell, metrics, said_broken: false }
    }

    /// The next order, if there is one. Words that are no order are counted, reported and skipped; of a broken ring nothing is
    /// taken until a new control plane has mended it.
    pub fn take(&mut self) -> Option<Order> {
        loop {
            let words = match self.ring.pop() {
                Ok(words) => words,
                Err(broken) => {
                    self.metrics.add(Counter::RingsBroken, 1);
                    if !self.said_broken {
                        self.said_broken = true;
                        tracing::error!(%broken, "orders cannot be taken; records flow on");
                    }
                    return None;
                }
            };
            self.said_broken = false;
            match Order::from_words(&words?) {
                Ok(order) => {
                    self.metrics.add(Counter::OrdersTaken, 1);
                    return Some(order);
                }
                Err(bad) => {
                    self.metrics.add(Counter::OrdersRefused, 1);
                    tracing::error!(%bad, "an order is ignored");
                }
            }
        }
    }

    /// Forgets rings of the bell so far; before looking at the ring for the last time and going to sleep.
    pub fn drain_bell(&self) {
        // It fails for a descriptor that is no eventfd only; then the core merely wakes for nothing.
        self.bell.drain().ok();
    }

    /// The bell: an eventfd whose read waits until an order may be there.
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
