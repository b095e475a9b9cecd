//! pure: what the board shows of a partition, as the handlers see it.
//!
//! A slot speaks for a partition only when it carries the partition's identity; a data plane that is not there, or has
//! been replaced by a newer generation, shows nothing, and unknown offsets are answered as -1.

use crate::mirror::catalog::{Placement, Topic};
use crate::plane::pace::Pace;
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::mirror_state::MirrorState;

/// Where slots are read from: the mapped board, or a map in tests.
pub trait Slots {
    /// The value of a slot; `None` when it is empty, being written, or there is no data plane.
    fn slot(&self, slot: u32) -> Option<PartitionProgress>;
    /// Slots of the board; of the last one that was seen when there is no data plane.
    fn slots_max(&self) -> u32;
    /// How the partition in a slot moves, as far as earlier looks tell.
    fn pace(&self, _slot: u32, seen: &PartitionProgress, now_ms: i64) -> Pace {
        Pace::of_board(seen, now_ms)
    }
}

/// What the handlers see of the data plane.
#[derive(Clone, Copy)]
pub struct View<'a> {
    slots: &'a dyn Slots,
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Slots of the board.
    pub slots_max: u32,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    /// A view over `slots`.
    #[must_use]
    pub fn new(slots: &'a dyn Slots, now_ms: i64) -> Self {
        Self { slots, now_ms, slots_max: slots.slots_max() }
    }

    /// What is known of a partition.
    #[must_use]
    pub fn progress(&self, topic: &Topic, partition: i32) -> Option<PartitionProgress> {
        let placement = topic.partitions.get(&partition)?.placement.as_ref()?;
        self.at(topic, partition, placement)
    }

    /// What is known of the partition that lives there.
    #[must_use]
    pub fn at(&self, topic: &Topic, partition: i32, placement: &Placement) -> Option<PartitionProgress> {
        self.slots.slot(placement.slot).filter(|seen| seen.identity == identity(topic.facts.id, partition))
    }

    /// What is known of a partition, and how it moves.
    #[must_use]
    pub fn moves(&self, topic: &Topic, partition: i32) -> Option<(PartitionProgress, Pace)> {
        let placement = topic.partitions.get(&partition)?.placement.as_ref()?;
        let seen =
            self.slots.slot(placement.slot).filter(|seen| seen.identity == identity(topic.facts.id, partition))?;
        Some((seen, self.slots.pace(placement.slot, &seen, self.now_ms)))
    }

    /// The state to report: the recorded one, except that the board knows of a fence first.
    #[must_use]
    pub fn state(&self, topic: &Topic, partition: i32) -> MirrorState {
        let Some(known) = topic.partitions.get(&partition) else { return MirrorState::Unknown };
        state(known.standing.state, self.progress(topic, partition).as_ref())
    }
}

/// The state to report when `recorded` is the recorded one and the board shows `seen`.
#[must_use]
pub fn state(recorded: MirrorState, seen: Option<&PartitionProgress>) -> MirrorState {
    match seen {
        Some(seen) if recorded == MirrorState::Mirroring && seen.state == SlotState::Fencing => {
            MirrorState::EpochFencing
        }
        _ => recorded,
    }
}

/// Whether the slot shows a partition that has taken over what was last asked of it.
#[must_use]
pub fn is_current(seen: &PartitionProgress, placement: &Placement) -> bool {
    // The slot has the low bits only; half of their range is further than a data plane can lag behind.
    let asked = placement.asked_version as u32;
    let reached = seen.assignment_version.wrapping_sub(asked).cast_signed() >= 0;
    reached && seen.attempt == placement.attempt.cast_unsigned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::HashMap;

    /// A board of the tests.
    #[derive(Default)]
    pub(crate) struct Board(pub(crate) HashMap<u32, PartitionProgress>);

    impl Slots for Board {
        fn slot(&self, slot: u32) -> Option<PartitionProgress> {
            self.0.get(&slot).copied()
        }

        fn slots_max(&self) -> u32 {
            8
        }
    }

    #[test]
    fn a_slot_is_current_when_its_version_has_reached_what_was_asked_also_across_the_wrap() {
        let placement =
            |asked_version| Placement { slot: 0, directory: "/d".into(), attempt: 2, asked_version, discard: false };
        let seen = |assignment_version, attempt| PartitionProgress {
            assignment_version,
            attempt,
            ..PartitionProgress::unknown(1, SlotState::Mirroring)
        };
        assert!(is_current(&seen(7, 2), &placement(7)) && is_current(&seen(9, 2), &placement(7)));
        assert!(!is_current(&seen(6, 2), &placement(7)), "an older assignment");
        assert!(!is_current(&seen(7, 1), &placement(7)), "an earlier attempt");
        assert!(is_current(&seen(1, 2), &placement((1 << 32) - 1)));
    }
}
