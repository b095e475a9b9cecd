//! pure: what the batches near the end of a partition tell about transactions: how those of some producers ended there, and between
//! which times an open one was there, by the brokers' clocks.
//!
//! A producer stamps its records with any time it likes, often that of an event long ago. Markers are stamped by the broker that appends
//! them, and so are all batches of a topic with `message.timestamp.type=LogAppendTime`.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::records::batch::BatchHeader;
use crate::records::batches::EndMarker;
use crate::storage::producer_snapshot::ProducerEntry;

/// A transaction that ended in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its producer.
    pub producer_id: i64,
    /// The epoch of its records.
    pub epoch: i16,
    /// The epoch of its marker.
    pub marker_epoch: i16,
    /// Committed, else aborted.
    pub commit: bool,
    /// When the marker was appended, ms since 1970.
    pub at_ms: i64,
}

/// Times around the beginning of an open transaction in its partition; none where nothing tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The transaction of its producer before this one ended then.
    pub previous_end_ms: Option<i64>,
    /// Its first record there was appended then, or later.
    pub after_ms: Option<i64>,
    /// Its first record there was appended then, or before.
    pub before_ms: Option<i64>,
}

/// What was found in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trail {
    /// In the order of their ends.
    pub ended: Vec<Ended>,
    /// All ends after this time are there; none when that cannot be told.
    pub complete_after_ms: Option<i64>,
    /// By the producer that has a transaction open there.
    pub bounds: BTreeMap<i64, Bounds>,
}

/// Follows the batches of a partition.
#[derive(Debug)]
pub struct Follower<'a> {
    wanted: &'a HashSet<i64>,
    /// First offset of each open transaction.
    open: HashMap<i64, i64>,
    /// Epoch of the transaction that each producer has open as of now.
    epochs: HashMap<i64, i16>,
    last_end_ms: HashMap<i64, i64>,
    last_stamp_ms: Option<i64>,
    /// Open transactions behind whose beginning nothing was stamped yet.
    waiting: Vec<i64>,
    trail: Trail,
}

impl<'a> Follower<'a> {
    /// Looks for ends of the transactions of producers in `wanted`; `producers` as they are at the partition's end. `is_all`: the first batch
    /// that comes is the first that there ever was.
    #[must_use]
    pub fn new(wanted: &'a HashSet<i64>, producers: &[ProducerEntry], is_all: bool) -> Self {
        let open = producers.iter().filter(|producer| producer.has_open_txn());
        let trail = Trail { complete_after_ms: is_all.then_some(i64::MIN), ..Trail::default() };
        Self {
            wanted,
            open: open.map(|producer| (producer.producer_id, producer.txn_first_offset)).collect(),
            epochs: HashMap::new(),
            last_end_ms: HashMap::new(),
            last_stamp_ms: None,
            waiting: Vec::new(),
            trail,
        }
    }

    /// Takes the next batch, from anywhere in the log on, without leaving one out.
    pub fn take(&mut self, header: &BatchHeader, marker: Option<EndMarker>) {
        let id = header.producer_id;
        if header.is_control() || header.is_log_append_time() {
            let at_ms = header.max_timestamp;
            self.last_stamp_ms = Some(at_ms);
            self.trail.complete_after_ms.get_or_insert(at_ms);
            // The batch that begins a transaction is stamped itself.
            self.begins(header);
            for waiting in self.waiting.drain(..) {
                self.trail.bounds.entry(waiting).or_default().before_ms = Some(at_ms);
            }
        } else {
            self.begins(header);
        }
        if !self.wanted.contains(&id) {
            return;
        }
        match marker {
            Some(EndMarker { commit, .. }) => {
                let at_ms = header.max_timestamp;
                self.last_end_ms.insert(id, at_ms);
                match self.epochs.remove(&id) {
                    Some(epoch) => {
                        let marker_epoch = header.producer_epoch;
                        self.trail.ended.push(Ended { producer_id: id, epoch, marker_epoch, commit, at_ms });
                    }
                    // Its records lie before what is looked at.
                    None => self.trail.complete_after_ms = self.trail.complete_after_ms.max(Some(at_ms)),
                }
            }
            None if header.is_transactional() && !header.is_control() => {
                self.epochs.insert(id, header.producer_epoch);
            }
            None => {}
        }
    }

    fn begins(&mut self, header: &BatchHeader) {
        let id = header.producer_id;
        if self.open.get(&id) == Some(&header.base_offset) && !header.is_control() {
            let bounds = self.trail.bounds.entry(id).or_default();
            bounds.previous_end_ms = self.last_end_ms.get(&id).copied();
            bounds.after_ms = self.last_stamp_ms;
            self.waiting.push(id);
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Trail {
        self.trail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::plain;
    use crate::storage::producer_snapshot::NONE;

    const TRANSACTIONAL: i16 = 0x10;
    const MARKER: i16 = 0x30;
    const LOG_APPEND_TIME: i16 = 0x08;

    fn batch(offset: i64, producer_id: i64, producer_epoch: i16, attributes: i16, at_ms: i64) -> BatchHeader {
        BatchHeader { producer_id, producer_epoch, ..plain::header(offset, 1, attributes, at_ms) }
    }

    fn open(producer_id: i64, first_offset: i64) -> ProducerEntry {
        ProducerEntry {
            producer_id,
            epoch: 7,
            last_sequence: 0,
            last_offset: first_offset,
            offset_delta: 0,
            timestamp: 1,
            coordinator_epoch: NONE,
            txn_first_offset: first_offset,
        }
    }

    fn follow(producers: &[ProducerEntry], batches: &[(BatchHeader, Option<bool>)]) -> Trail {
        let wanted = HashSet::from([1000, 1001]);
        let mut follower = Follower::new(&wanted, producers, false);
        for (header, end) in batches {
            follower.take(header, end.map(|commit| EndMarker { commit, coordinator_epoch: 0 }));
        }
        follower.finish()
    }

    #[test]
    fn an_end_is_told_with_the_epoch_of_the_records_that_it_ends() {
        let trail = follow(
            &[],
            &[
                // What this one ends lies before what is looked at.
                (batch(0, 1000, 4, MARKER, 50), Some(true)),
                (batch(1, 1000, 4, TRANSACTIONAL, 7), None),
                (batch(2, 1001, 9, TRANSACTIONAL, 8), None),
                (batch(3, 5, 0, TRANSACTIONAL, 8), None),
                (batch(4, 1000, 5, MARKER, 60), Some(true)),
                (batch(5, 1001, 9, MARKER, 61), Some(false)),
                (batch(6, 5, 0, MARKER, 62), Some(true)),
            ],
        );
        let ended =
            |producer_id, epoch, marker_epoch, commit, at_ms| Ended { producer_id, epoch, marker_epoch, commit, at_ms };
        assert_eq!(trail.ended, [ended(1000, 4, 5, true, 60), ended(1001, 9, 9, false, 61)]);
        assert_eq!((trail.bounds.len(), trail.complete_after_ms), (0, Some(50)));
        let ends = |at_ms| (batch(0, 1000, 4, MARKER, at_ms), Some(true));
        assert_eq!(follow(&[], &[(batch(0, 9, 4, MARKER, 40), None), ends(50)]).complete_after_ms, Some(50));
        assert_eq!(Follower::new(&HashSet::new(), &[], true).finish().complete_after_ms, Some(i64::MIN));
    }

    #[test]
    fn the_beginning_of_an_open_transaction_lies_between_stamps_of_brokers() {
        let before = [
            (batch(0, 1000, 7, TRANSACTIONAL, 9_000), None),
            (batch(1, 1000, 7, MARKER, 50), Some(true)),
            (batch(2, 1001, 7, MARKER, 60), Some(true)),
        ];
        let begins = |attributes, at_ms| (batch(3, 1000, 7, TRANSACTIONAL | attributes, at_ms), None);
        let after = [(batch(4, -1, -1, 0, 1), None), (batch(5, 5, 0, MARKER, 70), Some(false))];
        let found = |middle| follow(&[open(1000, 3)], &[&before[..], &[middle], &after[..]].concat()).bounds[&1000];
        let bounds =
            |after, before| Bounds { previous_end_ms: Some(50), after_ms: Some(after), before_ms: Some(before) };
        assert_eq!(found(begins(0, 2)), bounds(60, 70));
        assert_eq!(found(begins(LOG_APPEND_TIME, 65)), bounds(65, 65));
        let alone = follow(&[open(1000, 3)], &[begins(0, 2)]);
        assert_eq!(alone.bounds[&1000], Bounds::default());
    }
}
