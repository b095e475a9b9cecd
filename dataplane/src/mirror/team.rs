//! The port of a pump: how the rest of the core talks to it, and where a partition sits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use super::partition::Partition;
use crate::disk::Disk;
use crate::wire::watch::Watch;

/// A partition's seat is the port of the pump that fetches for it.
pub type Seat<D> = Rc<Port<D>>;

/// One per pump, that is per connection to a source broker.
pub struct Port<D: Disk> {
    /// The source broker.
    pub broker: i32,
    /// Which of the connections to it.
    pub number: u32,
    touched: RefCell<Vec<Rc<Partition<D>>>>,
    bell: Notify,
    closed: Cell<bool>,
    watch: RefCell<Option<Rc<Watch>>>,
}

impl<D: Disk> std::fmt::Debug for Port<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("broker", &self.broker).field("number", &self.number).finish_non_exhaustive()
    }
}

impl<D: Disk> Port<D> {
    /// A port without pump or partitions.
    #[must_use]
    pub fn new(broker: i32, number: u32) -> Self {
        Self {
            broker,
            number,
            touched: RefCell::new(Vec::with_capacity(TOUCHED)),
            bell: Notify::new(),
            closed: Cell::new(false),
            watch: RefCell::new(None),
        }
    }

    /// Something about the partition changed: the pump looks at it before its next request.
    pub fn touch(&self, partition: &Rc<Partition<D>>) {
        self.touched.borrow_mut().push(Rc::clone(partition));
        self.bell.notify_one();
    }

    /// Takes one touched partition.
    #[must_use]
    pub fn next_touched(&self) -> Option<Rc<Partition<D>>> {
        self.touched.borrow_mut().pop()
    }

    /// Ends the pump: its connection is shut, and its task returns as soon as its receive did.
    pub fn close(&self) {
        self.closed.set(true);
        if let Some(watch) = self.watch.borrow().as_ref() {
            watch.end();
        }
        self.bell.notify_one();
    }

    /// Whether the pump is to end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The pump's connection, or none.
    pub fn set_watch(&self, watch: Option<Rc<Watch>>) {
        *self.watch.borrow_mut() = watch;
    }

    /// Waits for a touch or the end, `longest` at most.
    pub async fn rung(&self, longest: Duration) {
        if !self.is_closed() {
            // Both endings of the wait mean the same: look again.
            drop(tokio::time::timeout(longest, self.bell.notified()).await);
        }
    }

    /// Waits `pause` whatever is touched meanwhile, unless the pump is to end.
    pub async fn pause(&self, pause: Duration) {
        let until = tokio::time::Instant::now() + pause;
        while !self.is_closed() && tokio::time::Instant::now() < until {
            drop(tokio::time::timeout_at(until, self.bell.notified()).await);
        }
        // A ring that came during the pause is not lost: whoever waits next looks at once.
        self.bell.notify_one();
    }
}

/// Touches that fit without the list growing.
const TOUCHED: usize = 64;
