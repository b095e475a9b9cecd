//! Progress -> board, event -> ring. The only writer of this core's slots; never waits.

use super::desk::Desk;
use crate::metrics::{Counter, Metrics};
use std::fmt::Display;
use std::sync::Arc;
use twinlog_proto::channel::board::{BoardReader, BoardWriter, NoSuchSlot, Seen};
use twinlog_proto::channel::damage::{Damage, Part};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::message::Event;
use twinlog_proto::channel::page::PageShow;
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::channel::region::{Region, Window};
use twinlog_proto::channel::ring::{Producer, PushError};

/// What one core tells.
#[derive(Debug)]
pub struct Outbox {
    core: u32,
    desk: Arc<Desk>,
    /// The memory of this process alone.
    own: Region,
    kept: BoardWriter<Window>,
    published: BoardReader<Window>,
    shared: SharedEnds,
    bell: Doorbell,
    metrics: Metrics,
    ring_due: bool,
    /// Events are being dropped: said once, not for each.
    said_dropped: bool,
}

/// The core's ends of the region that others have too.
#[derive(Debug)]
struct SharedEnds {
    number: u64,
    region: Region,
    board: BoardWriter<Window>,
    shown: BoardReader<Window>,
    page: PageShow<Window, Window>,
    ring: Producer<Window>,
}

impl SharedEnds {
    fn take(desk: &Desk, own: &Region, core: u32) -> Self {
        let (number, region) = desk.region();
        let (board, shown) = (region.board_writer(), region.board());
        let (page, ring) = (region.page_show(own, core), region.event_producer(core));
        Self { number, region, board, shown, page, ring }
    }
}

impl Outbox {
    pub(super) fn new(core: u32, desk: Arc<Desk>, own: Region, bell: Doorbell, metrics: Metrics) -> Self {
        let (kept, published) = (own.board_writer(), own.board());
        let shared = SharedEnds::take(&desk, &own, core);
        desk.moved(shared.number);
        Self { core, desk, own, kept, published, shared, bell, metrics, ring_due: false, said_dropped: false }
    }

    /// Moves to the present region, if that is another one by now: it shows what was published in `slots` and what was counted.
    /// Some hundred nanoseconds for each slot; when there is nothing to do, one.
    pub fn move_over(&mut self, slots: impl Iterator<Item = u32>) {
        if self.desk.number() == self.shared.number {
            return;
        }
        self.shared = SharedEnds::take(&self.desk, &self.own, self.core);
        for slot in slots {
            if let Ok(Seen::Value(progress)) = self.published.read(slot) {
                // Both boards have the same slots.
                self.shared.board.publish(slot, &progress).ok();
            }
        }
        self.shared.page.show();
        self.desk.moved(self.shared.number);
    }

    /// Slots of the board.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.kept.slots()
    }

    /// Shows the newest progress of a partition of this core. Some ten nanoseconds; call it whenever the LEO moved.
    ///
    /// # Errors
    /// When the board has no such slot (slot numbers come from assignment files).
    pub fn publish(&self, slot: u32, progress: &PartitionProgress) -> Result<(), NoSuchSlot> {
        self.kept.publish(slot, progress)?;
        self.shared.board.publish(slot, progress)
    }

    /// Puts right what others wrote over in the slot, and reports it.
    pub fn repair(&self, slot: u32) {
        let (Ok(published), Ok(shown)) = (self.published.read(slot), self.shared.shown.read(slot)) else { return };
        let Seen::Value(progress) = published else { return };
        if shown != published {
            self.shared.board.publish(slot, &progress).ok();
            self.repaired(Damage::of(Part::Slot, slot), &"it does not show what was published");
        }
    }

    /// The same for the header, without which no control plane attaches.
    pub fn repair_header(&self) {
        if self.shared.region.mend() {
            self.repaired(Damage::HEADER, &"it is not what it was made as");
        }
    }

    /// Shows the counters, and the same for those and for the event ring, as far as it is ours.
    pub fn show_counters(&mut self) {
        if !self.shared.page.show() {
            self.repaired(Damage::of(Part::Page, self.core), &"they are not what was shown");
        }
        if let Err(broken) = self.shared.ring.check() {
            self.ring_broke(&broken);
        }
    }

    fn repaired(&self, damage: Damage, detail: &dyn Display) {
        self.metrics.add(Counter::BoardRepairs, 1);
        self.desk.report(self.shared.number, damage, detail);
    }

    fn ring_broke(&self, detail: &dyn Display) {
        self.metrics.add(Counter::RingsBroken, 1);
        self.desk.report(self.shared.number, Damage::of(Part::EventRing, self.core), detail);
    }

    /// Shows that the partition is gone.
    ///
    /// # Errors
    /// When the board has no such slot.
    pub fn clear(&self, slot: u32) -> Result<(), NoSuchSlot> {
        self.kept.clear(slot)?;
        self.shared.board.clear(slot)
    }

    /// Hints at something that changed; the slot was published before. Dropped and counted when the control plane is not there.
    pub fn event(&mut self, event: Event) {
        match self.shared.ring.push(&event.to_words()) {
            Ok(()) => {
                self.said_dropped = false;
                self.metrics.add(Counter::EventsSent, 1);
            }
            Err(why) => {
                self.metrics.add(Counter::EventsDropped, 1);
                if let PushError::Broken(broken) = why {
                    self.ring_broke(&broken);
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
