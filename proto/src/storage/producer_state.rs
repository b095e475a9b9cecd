//! pure: what the batches of a partition say about their producers, in the order of offsets.
//!
//! Stock Kafka uses it to recognise duplicates, to fence old producers and to know which transactions are open. A mirror only follows:
//! what a leader has accepted is taken, also when epochs or sequences go backwards.

use std::collections::HashMap;

use super::producer_snapshot::{self, NONE, ProducerEntry};
use super::txn_index::AbortedTxn;
use crate::error::DecodeError;
use crate::records::batch::BatchHeader;
use crate::records::batches::EndMarker;

/// When a producer is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The time, ms.
    pub now_ms: i64,
    /// `producer.id.expiration.ms`.
    pub expiration_ms: i64,
}

/// An open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTxn {
    /// Its first record in this partition.
    pub first_offset: i64,
    /// Its producer.
    pub producer_id: i64,
}

/// The producers of a partition. Once a producer is known, its batches and transactions allocate nothing.
#[derive(Debug, Clone, Default)]
pub struct ProducerState {
    producers: HashMap<i64, ProducerEntry>,
    /// By ascending first offset.
    open: Vec<OpenTxn>,
    oddities: u64,
}

impl ProducerState {
    /// No producers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The state that a snapshot file holds. With `expiry` the producers that stock Kafka would drop while loading are dropped.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn load(snapshot: &[u8], expiry: Option<Expiry>) -> Result<Self, DecodeError> {
        let mut state = Self::new();
        for entry in producer_snapshot::decode(snapshot)? {
            state.producers.insert(entry.producer_id, entry);
        }
        if let Some(expiry) = expiry {
            state.expire(expiry);
        }
        let open = state.producers.values().filter(|entry| entry.has_open_txn());
        state.open = open.map(|e| OpenTxn { first_offset: e.txn_first_offset, producer_id: e.producer_id }).collect();
        state.open.sort_unstable_by_key(|open| (open.first_offset, open.producer_id));
        Ok(state)
    }

    /// Takes a batch; an entry of the transaction index when it ended a transaction by abort.
    pub fn update(&mut self, header: &BatchHeader, marker: Option<EndMarker>) -> Option<AbortedTxn> {
        if !header.has_producer() {
            return None;
        }
        match marker {
            Some(marker) if header.is_control() => self.end_txn(header, marker),
            _ if header.is_control() => {
                // Compaction leaves control batches without a record; any other kind is not for a producer.
                self.oddities += u64::from(header.record_count != 0);
                None
            }
            _ => {
                self.data(header);
                None
            }
        }
    }

    /// The first offset of the earliest open transaction.
    #[must_use]
    pub fn first_undecided_offset(&self) -> Option<i64> {
        self.open.first().map(|open| open.first_offset)
    }

    /// The end of what a reader of committed data may see in a log that ends at `log_end`.
    #[must_use]
    pub fn last_stable_offset(&self, log_end: i64) -> i64 {
        self.first_undecided_offset().unwrap_or(log_end)
    }

    /// The open transactions, by first offset.
    #[must_use]
    pub fn open_txns(&self) -> &[OpenTxn] {
        &self.open
    }

    /// What is known about a producer.
    #[must_use]
    pub fn get(&self, producer_id: i64) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id)
    }

    /// How many producers are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Batches that stock Kafka would have refused: without transaction inside of one, or an unknown control record of a producer.
    #[must_use]
    pub fn oddities(&self) -> u64 {
        self.oddities
    }

    /// Forgets producers that wrote nothing for too long, unless a transaction of theirs is open.
    pub fn expire(&mut self, expiry: Expiry) {
        let old = |entry: &ProducerEntry| expiry.now_ms.saturating_sub(entry.timestamp) >= expiry.expiration_ms;
        self.producers.retain(|_, entry| entry.has_open_txn() || !old(entry));
    }

    /// Forgets everything, for a log that starts over.
    pub fn clear(&mut self) {
        self.producers.clear();
        self.open.clear();
    }

    /// The entries of a snapshot, by producer id.
    #[must_use]
    pub fn entries(&self) -> Vec<ProducerEntry> {
        let mut entries: Vec<_> = self.producers.values().copied().collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// The bytes of a snapshot file.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        producer_snapshot::encode(&self.entries())
    }

    fn data(&mut self, header: &BatchHeader) {
        let entry = entry_at_epoch(&mut self.producers, header);
        entry.last_sequence = header.last_sequence();
        entry.last_offset = header.last_offset();
        entry.offset_delta = header.last_offset_delta;
        entry.timestamp = header.max_timestamp;
        if entry.has_open_txn() {
            self.oddities += u64::from(!header.is_transactional());
        } else if header.is_transactional() {
            entry.txn_first_offset = header.base_offset;
            let open = OpenTxn { first_offset: header.base_offset, producer_id: header.producer_id };
            // Offsets ascend, so this is the end of the list.
            let at = self.open.partition_point(|other| other.first_offset <= open.first_offset);
            self.open.insert(at, open);
        }
    }

    fn end_txn(&mut self, header: &BatchHeader, marker: EndMarker) -> Option<AbortedTxn> {
        let entry = entry_at_epoch(&mut self.producers, header);
        let first_offset = entry.txn_first_offset;
        entry.timestamp = header.max_timestamp;
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.txn_first_offset = i64::from(NONE);
        if first_offset < 0 {
            return None;
        }
        self.open.retain(|open| open.producer_id != header.producer_id);
        let last_offset = header.last_offset();
        (!marker.commit).then(|| AbortedTxn {
            producer_id: header.producer_id,
            first_offset,
            last_offset,
            last_stable_offset: self.last_stable_offset(header.next_offset()),
        })
    }
}

/// The producer's entry, without its last batch when the epoch is another one.
fn entry_at_epoch<'a>(producers: &'a mut HashMap<i64, ProducerEntry>, header: &BatchHeader) -> &'a mut ProducerEntry {
    let forgotten = |entry: &ProducerEntry| ProducerEntry {
        epoch: header.producer_epoch,
        last_sequence: NONE,
        last_offset: NONE.into(),
        offset_delta: 0,
        ..*entry
    };
    let entry = producers.entry(header.producer_id).or_insert(ProducerEntry {
        producer_id: header.producer_id,
        epoch: header.producer_epoch,
        last_sequence: NONE,
        last_offset: NONE.into(),
        offset_delta: 0,
        timestamp: NONE.into(),
        coordinator_epoch: NONE,
        txn_first_offset: NONE.into(),
    });
    if entry.epoch != header.producer_epoch {
        *entry = forgotten(entry);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x30;

    fn batch(offset: i64, producer_id: i64, epoch: i16, sequence: i32, attributes: i16) -> BatchHeader {
        BatchHeader {
            base_offset: offset,
            batch_length: 100,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes,
            last_offset_delta: 4,
            base_timestamp: 1000,
            max_timestamp: 1000 + offset,
            producer_id,
            producer_epoch: epoch,
            base_sequence: sequence,
            record_count: 5,
        }
    }

    fn marker(offset: i64, producer_id: i64, epoch: i16) -> BatchHeader {
        let header = batch(offset, producer_id, epoch, -1, CONTROL);
        BatchHeader { last_offset_delta: 0, record_count: 1, ..header }
    }

    const ABORT: Option<EndMarker> = Some(EndMarker { commit: false, coordinator_epoch: 9 });
    const COMMIT: Option<EndMarker> = Some(EndMarker { commit: true, coordinator_epoch: 9 });

    #[test]
    fn batches_without_a_producer_leave_no_trace() {
        let mut state = ProducerState::new();
        assert_eq!(state.update(&batch(0, -1, -1, -1, 0), None), None);
        assert!(state.is_empty() && state.snapshot().len() == 10);
    }

    #[test]
    fn the_last_sequence_wraps() {
        let mut state = ProducerState::new();
        state.update(&batch(0, 7, 0, i32::MAX - 1, 0), None);
        assert_eq!(state.get(7).unwrap().last_sequence, 2);
    }

    #[test]
    fn a_new_epoch_forgets_the_last_batch_and_keeps_the_transaction() {
        let mut state = ProducerState::new();
        state.update(&batch(10, 7, 0, 0, TRANSACTIONAL), None);
        // Transactions of version 2: the marker has the next epoch.
        let aborted = state.update(&marker(15, 7, 1), ABORT).unwrap();
        assert_eq!((aborted.first_offset, aborted.last_offset, aborted.last_stable_offset), (10, 15, 16));
        let entry = state.get(7).unwrap();
        assert_eq!((entry.epoch, entry.last_sequence, entry.last_offset, entry.offset_delta), (1, -1, -1, 0));
        assert_eq!((entry.coordinator_epoch, entry.timestamp, entry.has_open_txn()), (9, 1015, false));
    }

    #[test]
    fn a_marker_of_the_same_epoch_keeps_the_last_batch() {
        let mut state = ProducerState::new();
        state.update(&batch(10, 7, 3, 20, TRANSACTIONAL), None);
        assert_eq!(state.update(&marker(15, 7, 3), COMMIT), None);
        let entry = state.get(7).unwrap();
        assert_eq!((entry.last_sequence, entry.last_offset, entry.offset_delta), (24, 14, 4));
        assert_eq!(state.first_undecided_offset(), None);
    }

    #[test]
    fn an_abort_is_stable_up_to_the_first_open_transaction_of_another_producer() {
        let mut state = ProducerState::new();
        for (offset, producer) in [(0, 1), (5, 2), (10, 3)] {
            state.update(&batch(offset, producer, 0, 0, TRANSACTIONAL), None);
        }
        assert_eq!(state.last_stable_offset(100), 0);
        assert_eq!(state.update(&marker(15, 1, 0), ABORT).unwrap().last_stable_offset, 5);
        assert_eq!(state.update(&marker(16, 3, 0), ABORT).unwrap().last_stable_offset, 5);
        assert_eq!(state.update(&marker(17, 2, 0), ABORT).unwrap().last_stable_offset, 18);
    }

    #[test]
    fn a_marker_without_a_transaction_is_remembered_but_not_indexed() {
        let mut state = ProducerState::new();
        assert_eq!(state.update(&marker(3, 7, 5), ABORT), None);
        assert_eq!((state.get(7).unwrap().epoch, state.oddities()), (5, 0));
    }

    #[test]
    fn what_stock_would_refuse_is_taken_and_counted() {
        let mut state = ProducerState::new();
        state.update(&batch(0, 7, 0, 0, TRANSACTIONAL), None);
        state.update(&batch(5, 7, 0, 5, 0), None);
        state.update(&marker(10, 8, 0), None);
        assert_eq!((state.oddities(), state.first_undecided_offset(), state.get(8)), (2, Some(0), None));
        let empty = BatchHeader { record_count: 0, ..marker(11, 7, 0) };
        state.update(&empty, None);
        assert_eq!((state.oddities(), state.open_txns().len()), (2, 1));
    }

    #[test]
    fn old_producers_expire_unless_their_transaction_is_open() {
        let mut state = ProducerState::new();
        state.update(&batch(0, 1, 0, 0, 0), None);
        state.update(&batch(5, 2, 0, 0, TRANSACTIONAL), None);
        state.update(&batch(5000, 3, 0, 0, 0), None);
        let snapshot = state.snapshot();
        let loaded = ProducerState::load(&snapshot, Some(Expiry { now_ms: 6999, expiration_ms: 1000 })).unwrap();
        assert_eq!(loaded.entries().iter().map(|e| e.producer_id).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(loaded.open_txns(), [OpenTxn { first_offset: 5, producer_id: 2 }]);
        let all = ProducerState::load(&snapshot, None).unwrap();
        assert_eq!(all.snapshot(), snapshot);
    }
}
