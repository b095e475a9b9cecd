//! Progress -> board, event -> ring. The only writer of this core's slots; never waits.

use crate::metrics::{Counter, Metrics};
use twinlog_proto::channel::board::{BoardWriter, NoSuchSlot};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::message::Event;
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::channel::region::Window;
use twinlog_proto::channel::ring::{Producer, PushError};

/// What one core tells.
#[derive(Debug)]
pub struct Outbox {
    board: BoardWriter<Window>,
    ring: Producer<Window>,
    bell: Doorbell,
    metrics: Metrics,
    ring_due: bool,
    /// Events are being dropped: said once, not for each.
    said_dropped: bool,
}

impl Outbox {
    pub(super) fn new(board: BoardWriter<Window>, ring: Producer<Window>, bell: Doorbell, metrics: Metrics) -> Self {
        Self { board, ring, bell, metrics, ring_due: false, said_dropped: false }
    }

    /// Slots of the board.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.board.slots()
    }

    /// Shows the newest progress of a partition of this core. Some ten nanoseconds; call it whenever the LEO moved.
    ///
    /// # Errors
    /// When the board has no such slot (slot numbers come from assignment files).
    pub fn publish(&self, slot: u32, progress: &PartitionProgress) -> Result<(), NoSuchSlot> {
        self.board.publish(slot, progress)
    }

    /// Shows that the partition is gone.
    ///
    /// # Errors
    /// When the board has no such slot.
    pub fn clear(&self, slot: u32) -> Result<(), NoSuchSlot> {
        self.board.clear(slot)
    }

    /// Hints at something that changed; the slot was published before. Dropped and counted when the control plane is not there.
    pub fn event(&mut self, event: Event) {
        match self.ring.push(&event.to_words()) {
            Ok(()) => {
                self.said_dropped = false;
                self.metrics.add(Counter::EventsSent, 1);
            }
            Err(why) => {
                self.metrics.add(Counter::EventsDropped, 1);
                if let PushError::Broken(_) = why {
                    self.metrics.add(Counter::RingsBroken, 1);
                }
                if !self.said_dropped {
                    self.said_dropped = true;
                    tracing::debug!(%why, "events are dropped; the board still tells all");
                }
            }
        }
        self.ring_due = true;
    }

    /// Wakes the control plane when there were events since the last call: at the end of a turn, one system call for all.
    pub fn ring(&mut self) {
        if core::mem::take(&mut self.ring_due) {
            // The bell only shortens the control plane's wait.
            self.bell.ring().ok();
        }
    }
}
