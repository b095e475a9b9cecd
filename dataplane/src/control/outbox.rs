//! Progress -> board, event -> ring. The only writer of this core's slots; never waits.

use crate::metrics::{Counter, Metrics};
use twinlog_proto::channel::board::{BoardReader, BoardWriter, NoSuchSlot, Seen};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::message::Event;
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::channel::region::{Region, Window};
use twinlog_proto::channel::ring::{Producer, PushError};

/// What one core tells.
#[derive(Debug)]
pub struct Outbox {
    region: Region,
    board: BoardWriter<Window>,
    shown: BoardReader<Window>,
    /// The board of this process alone.
    own: BoardWriter<Window>,
    published: BoardReader<Window>,
    ring: Producer<Window>,
    bell: Doorbell,
    metrics: Metrics,
    ring_due: bool,
    /// Events are being dropped: said once, not for each.
    said_dropped: bool,
}

impl Outbox {
    pub(super) fn new(region: Region, own: &Region, ring: Producer<Window>, bell: Doorbell, metrics: Metrics) -> Self {
        let (board, shown) = (region.board_writer(), region.board());
        let (own, published) = (own.board_writer(), own.board());
        Self { region, board, shown, own, published, ring, bell, metrics, ring_due: false, said_dropped: false }
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
        self.own.publish(slot, progress)?;
        self.board.publish(slot, progress)
    }

    /// Puts right what the other plane wrote over in the slot; true when it had.
    pub fn repair(&self, slot: u32) -> bool {
        let (Ok(published), Ok(shown)) = (self.published.read(slot), self.shown.read(slot)) else { return false };
        let Seen::Value(progress) = published else { return false };
        if shown == published {
            return false;
        }
        self.metrics.add(Counter::BoardRepairs, 1);
        self.board.publish(slot, &progress).is_ok()
    }

    /// The same for the header, without which no control plane attaches.
    pub fn repair_header(&self) -> bool {
        let mended = self.region.mend();
        self.metrics.add(Counter::BoardRepairs, u64::from(mended));
        mended
    }

    /// Shows that the partition is gone.
    ///
    /// # Errors
    /// When the board has no such slot.
    pub fn clear(&self, slot: u32) -> Result<(), NoSuchSlot> {
        self.own.clear(slot)?;
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
