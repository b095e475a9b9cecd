//! Ring -> order. The core calls [`Inbox::take`] each turn, and waits on the bell when it has nothing else to do.

use super::desk::Desk;
use crate::metrics::{Counter, Metrics};
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use twinlog_proto::channel::damage::{Damage, Part};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::message::{Order, Words};
use twinlog_proto::channel::region::Window;
use twinlog_proto::channel::ring::{Broken, Consumer};

/// The orders of one core.
#[derive(Debug)]
pub struct Inbox {
    core: u32,
    desk: Arc<Desk>,
    /// Of the region that `ring` lies in.
    number: u64,
    ring: Consumer<Window>,
    bell: Doorbell,
    metrics: Metrics,
}

impl Inbox {
    pub(super) fn new(core: u32, desk: Arc<Desk>, bell: Doorbell, metrics: Metrics) -> Self {
        let (number, region) = desk.region();
        Self { core, desk, number, ring: region.order_consumer(core), bell, metrics }
    }

    /// The next order, if there is one. Words that are no order are counted, reported and skipped; of a broken ring nothing is
    /// taken until the region was made anew: the control plane sends all its orders again then.
    pub fn take(&mut self) -> Option<Order> {
        if self.desk.number() != self.number {
            let (number, region) = self.desk.region();
            (self.number, self.ring) = (number, region.order_consumer(self.core));
        }
        loop {
            let words = match self.pop() {
                Ok(words) => words?,
                Err(broken) => {
                    self.metrics.add(Counter::RingsBroken, 1);
                    self.report(Part::OrderRing, &broken);
                    return None;
                }
            };
            match Order::from_words(&words) {
                Ok(order) => {
                    self.metrics.add(Counter::OrdersTaken, 1);
                    return Some(order);
                }
                Err(bad) => {
                    self.metrics.add(Counter::OrdersRefused, 1);
                    self.report(Part::Order, &bad);
                }
            }
        }
    }

    fn pop(&mut self) -> Result<Option<Words>, Broken> {
        self.ring.check()?;
        self.ring.pop()
    }

    fn report(&self, part: Part, detail: &dyn Display) {
        self.desk.report(self.number, Damage::of(part, self.core), detail);
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
