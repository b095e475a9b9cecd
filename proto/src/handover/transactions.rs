//! pure: how open transactions end, by what `__transaction_state` says, read once from front to back, and by the markers that other
//! partitions have of them.
//!
//! What is said of one open transaction is gathered in `open_txn.rs`.

use std::collections::{BTreeMap, HashMap};

use super::open_txn::{Decision, OpenTxn};
use super::resolve::{CompletedId, PartitionEnd, ResolveError};
use super::trail::Ended;
use crate::error::{DecodeError, EncodeError};
use crate::records::batch::BatchHeader;
use crate::records::record::records;
use crate::storage::coordinator::transactions::{self, TransactionLogValue, TransactionState};

/// Open transactions of all partitions that are resolved at once.
const OPEN_MAX: usize = 1_000_000;
/// Transactional ids that are kept at once.
const IDS_MAX: usize = 2_000_000;

/// The newest state of a transactional id.
#[derive(Debug)]
struct Latest {
    place: usize,
    version: i16,
    value: TransactionLogValue,
}

/// What was read so far.
#[derive(Debug)]
pub(super) struct Transactions {
    open: Vec<OpenTxn>,
    /// Indexes into `open`.
    by_producer: HashMap<i64, Vec<usize>>,
    ended: Ends,
    ids: BTreeMap<String, Latest>,
    highest_producer_id: i64,
}

/// Ends of transactions in all partitions, by the producer and the epoch of the records that they end.
#[derive(Debug, Default)]
struct Ends(HashMap<(i64, i16), Vec<(usize, Ended)>>);

impl Ends {
    fn of(ends: &[PartitionEnd]) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for (place, end) in ends.iter().enumerate() {
            for ended in &end.trail.ended {
                all.entry((ended.producer_id, ended.epoch)).or_default().push((place, *ended));
            }
        }
        Self(all)
    }

    fn get(&self, producer_id: i64, epoch: i16) -> &[(usize, Ended)] {
        self.0.get(&(producer_id, epoch)).map_or(&[], Vec::as_slice)
    }

    /// The end of the transaction that a coordinator noted as open, where one of its partitions has the marker.
    fn of_ongoing(&self, value: &TransactionLogValue, ends: &[PartitionEnd]) -> Option<Ended> {
        if value.state() != TransactionState::Ongoing {
            return None;
        }
        let all = self.get(value.producer_id, value.producer_epoch);
        if value.raises_epochs() {
            return all.iter().map(|(_, ended)| *ended).find(|ended| ended.marker_epoch > value.producer_epoch);
        }
        // In each of its partitions the first end after its beginning: those before it had all their markers by then.
        let mut firsts: BTreeMap<usize, Ended> = BTreeMap::new();
        for (place, ended) in all.iter().filter(|(_, ended)| ended.at_ms > value.transaction_start_timestamp_ms) {
            let end = &ends[*place];
            let is_complete =
                end.trail.complete_after_ms.is_some_and(|after| after <= value.transaction_start_timestamp_ms);
            if is_complete && value.has_partition(&end.topic, end.partition) {
                firsts.entry(*place).or_insert(*ended);
            }
        }
        let first = *firsts.values().next()?;
        // Where clocks are so far apart that they contradict each other, nothing is proven.
        firsts.values().all(|ended| ended.commit == first.commit).then_some(first)
    }
}

impl Transactions {
    pub(super) fn new(open: Vec<OpenTxn>, ends: &[PartitionEnd]) -> Result<Self, ResolveError> {
        if open.len() > OPEN_MAX {
            return Err(ResolveError::TooMuch { what: "open transactions", max: OPEN_MAX });
        }
        let mut by_producer: HashMap<i64, Vec<usize>> = HashMap::new();
        for (index, each) in open.iter().enumerate() {
            by_producer.entry(each.producer.producer_id).or_default().push(index);
        }
        Ok(Self { open, by_producer, ended: Ends::of(ends), ids: BTreeMap::new(), highest_producer_id: -1 })
    }

    pub(super) fn open(&self) -> &[OpenTxn] {
        &self.open
    }

    /// How one of [`Transactions::open`] ends.
    pub(super) fn decide(&self, open: &OpenTxn, ends: &[PartitionEnd]) -> Decision {
        let all: Vec<Ended> =
            self.ended.get(open.producer.producer_id, open.producer.epoch).iter().map(|(_, ended)| *ended).collect();
        let undecided = open.found().filter(|found| !found.is_decided());
        let of_found = undecided.and_then(|found| {
            let latest = &self.ids.get(open.transactional_id.as_deref()?)?.value;
            let is_it = latest.producer_id == open.producer.producer_id
                && latest.producer_epoch == open.producer.epoch
                && latest.transaction_start_timestamp_ms == found.start_ms;
            is_it.then(|| self.ended.of_ongoing(latest, ends)).flatten()
        });
        open.decide(&all, of_found)
    }

    pub(super) fn highest_producer_id(&self) -> i64 {
        self.highest_producer_id
    }

    /// Takes a batch of the partition at `place`.
    pub(super) fn take_batch(
        &mut self,
        place: usize,
        ends: &[PartitionEnd],
        header: &BatchHeader,
        bytes: &[u8],
    ) -> Result<(), DecodeError> {
        if header.is_control() {
            return Ok(());
        }
        for record in records(bytes, header.record_count) {
            let record = record?;
            let Some(id) = record.key.map(transactions::decode_key).transpose()? else { continue };
            let Some((version, value)) = record.value.map(transactions::decode_value).transpose()? else {
                self.ids.remove(&id);
                continue;
            };
            self.note(&id, &value, ends);
            self.ids.insert(id, Latest { place, version, value });
        }
        Ok(())
    }

    pub(super) fn check_bound(&self) -> Result<(), ResolveError> {
        if self.ids.len() > IDS_MAX {
            return Err(ResolveError::TooMuch { what: "transactional ids", max: IDS_MAX });
        }
        Ok(())
    }

    fn note(&mut self, id: &str, value: &TransactionLogValue, ends: &[PartitionEnd]) {
        self.highest_producer_id = self.highest_producer_id.max(value.producer_id).max(value.next_producer_id);
        let before = value.previous_producer_id;
        let producers = [Some(value.producer_id), (before != value.producer_id).then_some(before)];
        for producer in producers.into_iter().flatten() {
            for index in self.by_producer.get(&producer).into_iter().flatten() {
                let open = &mut self.open[*index];
                open.note(id, value, &ends[open.place]);
            }
        }
    }

    /// The records that complete every transactional id that is in the middle of a transaction, with their partitions.
    pub(super) fn complete(&self, ends: &[PartitionEnd], now_ms: i64) -> Result<Vec<Completion>, EncodeError> {
        let mut out = Vec::new();
        for (id, latest) in &self.ids {
            let from = latest.value.state();
            let ended = self.ended.of_ongoing(&latest.value, ends);
            let Some(value) = completed(&latest.value, ended, now_ms) else { continue };
            let evidence = CompletedId {
                transactional_id: id.clone(),
                from,
                to: value.state(),
                producer_id: value.producer_id,
                producer_epoch: value.producer_epoch,
            };
            let (key, value) = (transactions::encode_key(id)?, transactions::encode_value(latest.version, &value)?);
            out.push((latest.place, key, value, evidence));
        }
        Ok(out)
    }
}

/// Partition, key, value, and what they say.
pub(super) type Completion = (usize, Vec<u8>, Vec<u8>, CompletedId);

/// What the coordinator writes once all markers are written; none when there is nothing to complete.
fn completed(value: &TransactionLogValue, ended: Option<Ended>, now_ms: i64) -> Option<TransactionLogValue> {
    let (to, epoch) = match value.state() {
        TransactionState::Ongoing if ended.is_some_and(|ended| ended.commit) => {
            (TransactionState::CompleteCommit, ended.map_or(value.producer_epoch, |ended| ended.marker_epoch))
        }
        TransactionState::PrepareCommit => (TransactionState::CompleteCommit, value.producer_epoch),
        TransactionState::PrepareAbort => (TransactionState::CompleteAbort, value.producer_epoch),
        // Aborted here: the epoch is that of the markers.
        TransactionState::Ongoing | TransactionState::PrepareEpochFence => {
            (TransactionState::CompleteAbort, value.producer_epoch.saturating_add(1))
        }
        TransactionState::Empty
        | TransactionState::CompleteCommit
        | TransactionState::CompleteAbort
        | TransactionState::Dead => return None,
    };
    let next = (value.raises_epochs() && value.next_producer_id >= 0).then_some(value.next_producer_id);
    Some(TransactionLogValue {
        producer_id: next.unwrap_or(value.producer_id),
        producer_epoch: next.map_or(epoch, |_| value.next_producer_epoch.max(0)),
        previous_producer_id: value.producer_id,
        next_producer_id: -1,
        next_producer_epoch: -1,
        transaction_status: to.code(),
        transaction_partitions: Some(Vec::new()),
        transaction_last_update_timestamp_ms: now_ms,
        ..value.clone()
    })
}
