//! pure: what the board shows, as events of the machine.
//!
//! Called at every look at the board. The slot is the truth and ring events are only a reason to look, so the same look
//! twice gives the same events, and none once they were taken.

use crate::mirror::catalog::{Catalog, Partition, Placement};
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
            let Some(seen) = view.at(topic, index, placement) else { continue };
            if !is_current(&seen, placement) {
                continue;
            }
            if let Some((event, detail)) = self.event(placement, partition, &seen) {
                events.push(MirrorEvent::detailed(mirror, name, index, event, detail));
            }
        }
        events
    }

    fn event(
        &mut self,
        placement: &Placement,
        partition: &Partition,
        seen: &PartitionProgress,
    ) -> Option<(Event, Detail)> {
        use MirrorState as S;
        let slot = placement.slot;
        // Records that are still on their way say nothing against the source's own word.
        if partition.standing.by_source {
            return None;
        }
        let flows = matches!(seen.state, SlotState::Mirroring | SlotState::Fencing);
        if seen.state == SlotState::Failed {
            return (partition.standing.state != S::Failed).then(|| (Event::Failed, failure(seen)));
        }
        // A stop that came after the order waits for it too.
        if placement.discard {
            return (seen.state == SlotState::Stopped).then_some((Event::SlotDiscarded, Detail::None));
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
    let range = match (seen.fault_from, seen.fault_to) {
        (from, to) if from >= 0 && to >= 0 => format!(", offsets {from} to {to} (exclusive)"),
        (from, _) if from >= 0 => format!(", from offset {from} on"),
        _ => String::new(),
    };
    Detail::Failure { message: told(seen.fault) + &range, retryable: is_retryable(seen.fault) }
}

/// A fault in words.
#[must_use]
pub fn told(code: FaultCode) -> String {
    format!("{}: {}", code.name(), code.meaning())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::Standing;

    fn partition(state: MirrorState, previous: MirrorState, retry_attempt: i16) -> Partition {
        let standing = Standing { state, previous, retry_attempt, ..Standing::default() };
        Partition { standing, placement: Some(placed(0, false)), last_mirrored: None }
    }

    fn placed(slot: u32, discard: bool) -> Placement {
        Placement { slot, directory: "/d".into(), attempt: 0, asked_version: 1, discard }
    }

    #[test]
    fn every_state_awaits_what_the_board_can_show_of_it_and_nothing_else() {
        use MirrorState as S;
        use SlotState as B;
        let none = S::Unknown;
        for (state, previous, shown, event) in [
            (S::Preparing, none, B::Preparing, None),
            (S::Preparing, none, B::Stopped, None),
            (S::Preparing, none, B::Fencing, Some(Event::SlotMirroring)),
            (S::Mirroring, none, B::Mirroring, None),
            (S::Mirroring, none, B::Preparing, None),
            (S::Mirroring, none, B::Failed, Some(Event::Failed)),
            (S::Pausing, none, B::Mirroring, None),
            (S::Pausing, none, B::Paused, Some(Event::SlotPaused)),
            (S::Paused, none, B::Paused, None),
            (S::Stopping, none, B::Paused, None),
            (S::Stopping, none, B::Stopped, Some(Event::SlotStopped)),
            (S::Stopping, none, B::Failed, Some(Event::Failed)),
            (S::Failed, S::Mirroring, B::Failed, None),
            (S::Failed, S::Mirroring, B::Mirroring, Some(Event::SlotMirroring)),
            (S::Failed, S::Pausing, B::Paused, Some(Event::SlotPaused)),
            (S::Failed, S::Stopping, B::Stopped, Some(Event::SlotStopped)),
            (S::Failed, S::Stopping, B::Mirroring, None),
        ] {
            let seen = PartitionProgress::unknown(1, shown);
            let found = Watcher::default().event(&placed(0, false), &partition(state, previous, 0), &seen);
            assert_eq!(found.map(|(event, _)| event), event, "{state:?} after {previous:?} shows {shown:?}");
        }
    }

    #[test]
    fn while_files_are_to_be_thrown_away_only_their_end_or_a_failure_counts() {
        use MirrorState as S;
        use SlotState as B;
        for (state, previous, shown, event) in [
            (S::Preparing, S::Unknown, B::Mirroring, None),
            (S::Preparing, S::Unknown, B::Stopped, Some(Event::SlotDiscarded)),
            (S::Preparing, S::Unknown, B::Failed, Some(Event::Failed)),
            (S::Stopping, S::Unknown, B::Stopped, Some(Event::SlotDiscarded)),
            (S::Failed, S::Preparing, B::Stopped, Some(Event::SlotDiscarded)),
            (S::Failed, S::Preparing, B::Failed, None),
        ] {
            let seen = PartitionProgress::unknown(1, shown);
            let found = Watcher::default().event(&placed(0, true), &partition(state, previous, 0), &seen);
            assert_eq!(found.map(|(event, _)| event), event, "{state:?} after {previous:?} shows {shown:?}");
        }
    }

    #[test]
    fn failures_are_forgotten_when_records_flow_again_and_not_before() {
        let partition = partition(MirrorState::Mirroring, MirrorState::Unknown, 3);
        let mut seen = PartitionProgress {
            leo: 10,
            source_high_watermark: 20,
            ..PartitionProgress::unknown(1, SlotState::Mirroring)
        };
        let mut watcher = Watcher::default();
        assert_eq!(watcher.event(&placed(0, false), &partition, &seen), None);
        assert_eq!(watcher.event(&placed(0, false), &partition, &seen), None);
        seen.leo = 11;
        assert_eq!(watcher.event(&placed(0, false), &partition, &seen), Some((Event::SlotProgressed, Detail::None)));
        seen.leo = 20;
        assert_eq!(
            watcher.event(&placed(1, false), &partition, &seen),
            Some((Event::SlotProgressed, Detail::None)),
            "caught up"
        );
    }

    #[test]
    fn a_failure_is_told_with_its_offsets_as_far_as_they_are_known() {
        let failed = |from, to| {
            let seen = PartitionProgress {
                fault: FaultCode::GAP,
                fault_from: from,
                fault_to: to,
                ..PartitionProgress::unknown(1, SlotState::Failed)
            };
            match failure(&seen) {
                Detail::Failure { message, retryable } => (message, retryable),
                other => panic!("{other:?}"),
            }
        };
        assert!(failed(5, 9).0.ends_with(", offsets 5 to 9 (exclusive)") && !failed(5, 9).1);
        assert!(failed(5, -1).0.ends_with(", from offset 5 on"));
        assert!(failed(-1, -1).0.ends_with("yet"));
    }
}
