//! pure: what the board shows, as events of the machine.
//!
//! Called at every look at the board. The slot is the truth and ring events are only a reason to look, so the same look
//! twice gives the same events, and none once they were taken.

use crate::mirror::catalog::{Catalog, Partition};
use crate::mirror::decide::ended_at;
use crate::mirror::event::{Detail, MirrorEvent};
use crate::mirror::machine::Event;
use crate::plane::view::{View, is_current};
use std::collections::HashMap;
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState};
use twinlog_proto::mirror_state::MirrorState;

/// Remembers where partitions stood when they came back from a failure, to see that records flow again.
#[derive(Debug, Default)]
pub struct Watcher {
    came_back_at: HashMap<u32, i64>,
}

impl Watcher {
    /// The events that the board calls for.
    pub fn look(&mut self, catalog: &Catalog, view: &View<'_>) -> Vec<MirrorEvent> {
        let mut events = Vec::new();
        for (mirror, name, topic, index, partition) in catalog.partitions() {
            let Some(placement) = &partition.placement else { continue };
            if is_settled(partition) {
                self.came_back_at.remove(&placement.slot);
                continue;
            }
            let Some(seen) = view.progress(topic, index) else { continue };
            if !is_current(&seen, placement) {
                continue;
            }
            if let Some((event, detail)) = self.event(placement.slot, partition, &seen) {
                events.push(MirrorEvent::detailed(mirror, name, index, event, detail));
            }
        }
        events
    }

    fn event(&mut self, slot: u32, partition: &Partition, seen: &PartitionProgress) -> Option<(Event, Detail)> {
        use MirrorState as S;
        let flows = matches!(seen.state, SlotState::Mirroring | SlotState::Fencing);
        if seen.state == SlotState::Failed {
            return (partition.standing.state != S::Failed).then(|| (Event::Failed, failure(seen)));
        }
        // A failed partition may come back by itself, when the data plane was started again.
        let awaited = match partition.standing.state {
            S::Failed => partition.standing.previous,
            state => state,
        };
        let came_back = partition.standing.retry_attempt != 0 && partition.standing.state == S::Mirroring;
        match awaited {
            S::Mirroring if came_back && flows && self.progressed(slot, seen) => {
                Some((Event::SlotProgressed, Detail::None))
            }
            S::Mirroring if partition.standing.state == S::Mirroring => None,
            S::Preparing | S::Mirroring | S::EpochFencing if flows => Some((Event::SlotMirroring, Detail::None)),
            S::Pausing | S::Paused if seen.state == SlotState::Paused && partition.standing.state != S::Paused => {
                Some((Event::SlotPaused, Detail::None))
            }
            S::Stopping if seen.state == SlotState::Stopped => {
                Some((Event::SlotStopped, Detail::Ended(ended_at(seen.leo, seen.last_epoch))))
            }
            _ => None,
        }
    }

    fn progressed(&mut self, slot: u32, seen: &PartitionProgress) -> bool {
        let came_back_at = *self.came_back_at.entry(slot).or_insert(seen.leo);
        let caught_up = seen.source_high_watermark >= 0 && seen.leo >= seen.source_high_watermark;
        let moved = seen.leo > came_back_at || caught_up;
        if moved {
            self.came_back_at.remove(&slot);
        }
        moved
    }
}

/// Whether the board cannot say anything new about a partition in this state.
fn is_settled(partition: &Partition) -> bool {
    matches!(partition.standing.state, MirrorState::Stopped | MirrorState::Unknown | MirrorState::Initializing)
}

fn failure(seen: &PartitionProgress) -> Detail {
    let code = seen.fault;
    let range = match (seen.fault_from, seen.fault_to) {
        (from, to) if from >= 0 && to >= 0 => format!(", offsets {from} to {to} (exclusive)"),
        (from, _) if from >= 0 => format!(", from offset {from} on"),
        _ => String::new(),
    };
    let message = format!("{}: {}{range}", code.name(), code.meaning());
    Detail::Failure { message, retryable: is_retryable(code) }
}

/// Whether trying again may help without a person.
#[must_use]
pub fn is_retryable(code: FaultCode) -> bool {
    !matches!(
        code,
        FaultCode::GAP
            | FaultCode::RECREATED
            | FaultCode::DIVERGED
            | FaultCode::OLD_FORMAT
            | FaultCode::BATCH_TOO_LARGE
            | FaultCode::DIRECTORY
            | FaultCode::LOG_CORRUPT
            | FaultCode::CLUSTER
            | FaultCode::UNSUPPORTED
            | FaultCode::UNKNOWN_TOPIC
    )
}
