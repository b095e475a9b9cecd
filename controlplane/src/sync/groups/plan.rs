//! pure: where a group stands at the source, how far the mirror is, and what the destination has: what is to be committed there.
//!
//! An offset at the destination belongs to whoever moved it. We move what we wrote ourselves, in both directions; everything else is kept.

use crate::mirror::group_offsets::Written;
use std::collections::BTreeMap;

/// Offsets of one group by topic and partition.
pub type Offsets = BTreeMap<String, BTreeMap<i32, Committed>>;

/// One committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record that was read; -1 when it is not known.
    pub epoch: i32,
    /// What the consumer noted with it.
    pub metadata: Option<String>,
}

/// What bounds a committed offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// First offset of the mirror's log.
    pub log_start: i64,
    /// The offset after its last record.
    pub end: i64,
    /// Leader epoch of its last batch; -1 when there is none.
    pub last_epoch: i32,
    /// The newest leader epoch that the destination knows of the partition.
    pub epoch_there: i32,
}

/// What is done about one partition of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is there already.
    Same,
    /// It is to be committed.
    Write(Committed),
    /// What the destination has stays.
    Keep(&'static str),
}

/// Decides about one partition: `here` is what the destination has, `last` what we wrote there last.
#[must_use]
pub fn decide(source: &Committed, bounds: &Bounds, here: Option<i64>, last: Option<Written>) -> Verdict {
    let target = clamped(source, bounds);
    match (here, last) {
        (Some(here), _) if here == target.offset => Verdict::Same,
        (None, _) => Verdict::Write(target),
        (Some(here), Some(last)) if last.explains(here) => Verdict::Write(target),
        (Some(_), Some(_)) => Verdict::Keep("somebody moved it at the destination"),
        (Some(_), None) => Verdict::Keep("it was there, and not by us; delete it there and it follows the source"),
    }
}

/// The source's offset within the mirror's log. A consumer waits for an epoch that the destination does not know, so such a one is
/// left out; the note of the consumer is about its own offset and goes with it only.
#[must_use]
pub fn clamped(source: &Committed, bounds: &Bounds) -> Committed {
    let offset = source.offset.min(bounds.end).max(bounds.log_start);
    let (epoch, metadata) = if offset == source.offset {
        (source.epoch, source.metadata.clone())
    } else {
        // Below the log start nothing is known of epochs; at the end the last batch tells.
        (if offset == bounds.end { bounds.last_epoch } else { -1 }, Some(String::new()))
    };
    Committed { offset, epoch: if epoch > bounds.epoch_there { -1 } else { epoch }, metadata }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { log_start: 10, end: 100, last_epoch: 3, epoch_there: 5 };

    fn at(offset: i64) -> Committed {
        Committed { offset, epoch: 2, metadata: Some("note".into()) }
    }

    fn written(verdict: Verdict) -> Committed {
        match verdict {
            Verdict::Write(committed) => committed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_offset_within_the_mirror_is_committed_as_it_is() {
        assert_eq!(written(decide(&at(50), &BOUNDS, None, None)), at(50));
        let from_0 = Bounds { log_start: 0, ..BOUNDS };
        assert_eq!(written(decide(&at(0), &from_0, None, None)), at(0), "0 is a value");
    }

    #[test]
    fn an_offset_outside_the_mirror_is_clamped_with_the_epoch_that_is_known_there() {
        let ahead = Committed { offset: 100, epoch: 3, metadata: Some(String::new()) };
        assert_eq!(clamped(&at(250), &BOUNDS), ahead);
        let below = Committed { offset: 10, epoch: -1, metadata: Some(String::new()) };
        assert_eq!(clamped(&at(4), &BOUNDS), below);
        let emptied = Bounds { log_start: 100, ..BOUNDS };
        assert_eq!(clamped(&at(4), &emptied).offset, 100);
    }

    #[test]
    fn an_epoch_that_the_destination_does_not_know_is_left_out() {
        let young = Bounds { epoch_there: 1, ..BOUNDS };
        assert_eq!(clamped(&at(50), &young), Committed { epoch: -1, ..at(50) });
    }

    #[test]
    fn what_we_wrote_is_moved_in_both_directions_and_what_somebody_else_moved_stays() {
        assert_eq!(decide(&at(50), &BOUNDS, Some(50), None), Verdict::Same);
        let last = Some(Written::at(50));
        assert_eq!(written(decide(&at(60), &BOUNDS, Some(50), last)).offset, 60);
        assert_eq!(written(decide(&at(20), &BOUNDS, Some(50), last)).offset, 20, "the source was rewound");
        for moved in [40, 55, 70] {
            assert!(matches!(decide(&at(60), &BOUNDS, Some(moved), last), Verdict::Keep(_)), "{moved}");
        }
        let unsure = Some(Written { offset: 55, before: Some(50) });
        for ours in [50, 55] {
            assert_eq!(written(decide(&at(60), &BOUNDS, Some(ours), unsure)).offset, 60, "it may not have come there");
        }
        assert!(matches!(decide(&at(60), &BOUNDS, Some(53), unsure), Verdict::Keep(_)));
    }

    #[test]
    fn what_is_there_and_not_by_us_is_moved_neither_back_nor_forward() {
        for theirs in [0, 50, 61] {
            assert!(matches!(decide(&at(60), &BOUNDS, Some(theirs), None), Verdict::Keep(_)), "{theirs}");
        }
        assert_eq!(decide(&at(60), &BOUNDS, Some(60), None), Verdict::Same);
    }
}
