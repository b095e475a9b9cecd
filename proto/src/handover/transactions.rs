//! pure: how open transactions end, by what `__transaction_state` says, read once from front to back.
//!
//! With `transaction.version` 2 each end of a transaction raises the producer's epoch, so that the epoch of its records says which
//! decision is meant. With older clients many transactions share an epoch. They are told apart by time then: a transaction's records
//! are written after it began and before it was decided. Mirrored partitions do not end at one moment, so both are needed: the newest
//! decision may be about a later transaction than the one that is open here, or about an earlier one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::resolve::{CompletedId, PartitionEnd, ResolveError};
use crate::error::{DecodeError, EncodeError};
use crate::records::batch::BatchHeader;
use crate::records::record::records;
use crate::storage::coordinator::transactions::{self, TransactionLogValue, TransactionState};
use crate::storage::producer_snapshot::ProducerEntry;

/// Open transactions of all partitions that are resolved at once.
const OPEN_MAX: usize = 1_000_000;
/// Transactional ids that are kept at once.
const IDS_MAX: usize = 2_000_000;

/// Why a transaction ends as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The coordinator had decided; this is the state that it noted.
    Decided(TransactionState),
    /// The coordinator had decided about the transaction that was open at the time of these records, by this state.
    DecidedThen(TransactionState),
    /// The coordinator knew it as open.
    Ongoing,
    /// It began after the last decision that was mirrored.
    AfterLastDecision,
    /// No transactional id with this producer and epoch was mirrored.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(state) => write!(f, "__transaction_state says {}", state.name()),
            Self::DecidedThen(state) => {
                write!(f, "__transaction_state says {} of the transaction that was open then", state.name())
            }
            Self::Ongoing => f.write_str("nothing was decided: __transaction_state says Ongoing"),
            Self::AfterLastDecision => f.write_str("it began after the last decision that was mirrored"),
            Self::Unknown => f.write_str("__transaction_state does not know this producer at this epoch"),
        }
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) commit: bool,
    pub(super) marker_epoch: i16,
    pub(super) why: Why,
}

/// A transaction that shares its epoch with others.
#[derive(Debug, Clone, Copy)]
struct Timed {
    start_ms: i64,
    decided: Option<Decided>,
}

#[derive(Debug, Clone, Copy)]
struct Decided {
    commit: bool,
    marker_epoch: i16,
    at_ms: i64,
    state: TransactionState,
}

/// An open transaction and what was learnt about it.
#[derive(Debug, Clone)]
pub(super) struct OpenTxn {
    /// Index of its partition.
    pub(super) place: usize,
    pub(super) producer: ProducerEntry,
    pub(super) transactional_id: Option<String>,
    /// By its epoch alone.
    decided: Option<Decided>,
    /// The first transaction of its epoch.
    first: Option<Timed>,
    /// The last one that began before its newest records.
    last: Option<Timed>,
    /// A transaction of its epoch began after its newest records.
    later: bool,
    ongoing: bool,
}

impl OpenTxn {
    pub(super) fn new(place: usize, producer: ProducerEntry) -> Self {
        Self {
            place,
            producer,
            transactional_id: None,
            decided: None,
            first: None,
            last: None,
            later: false,
            ongoing: false,
        }
    }

    fn note(&mut self, id: &str, value: &TransactionLogValue, end: &PartitionEnd) {
        let state = value.state();
        let is_here = value.producer_id == self.producer.producer_id;
        let epoch = self.producer.epoch;
        if is_here {
            self.transactional_id = Some(id.to_owned());
        }
        self.ongoing = is_here && state == TransactionState::Ongoing && value.producer_epoch == epoch;
        let commit = matches!(state, TransactionState::PrepareCommit | TransactionState::CompleteCommit);
        let abort = matches!(state, TransactionState::PrepareAbort | TransactionState::CompleteAbort);
        let decided =
            |marker_epoch| Decided { commit, marker_epoch, at_ms: value.transaction_last_update_timestamp_ms, state };
        if value.raises_epochs() && (commit || abort) {
            // The epochs of this producer id may be used up by this end: its last one is the largest there is.
            let ended_by = if is_here { value.producer_epoch } else { i16::MAX };
            let ends = if commit { Some(ended_by) == epoch.checked_add(1) } else { ended_by > epoch };
            if ends && self.decided.is_none() {
                self.decided = Some(decided(ended_by));
            }
            return;
        }
        let ends = (commit && value.producer_epoch == epoch)
            || (abort && (value.producer_epoch == epoch || Some(value.producer_epoch) == epoch.checked_add(1)));
        // A complete transaction names no partitions any more.
        let concerns = value.transaction_partitions.as_ref().is_some_and(Vec::is_empty)
            || value.has_partition(&end.topic, end.partition);
        if is_here && concerns && (ends || self.ongoing) {
            self.note_timed(value.transaction_start_timestamp_ms, ends.then(|| decided(value.producer_epoch)));
        }
    }

    fn note_timed(&mut self, start_ms: i64, decided: Option<Decided>) {
        for known in [&mut self.first, &mut self.last].into_iter().flatten().filter(|txn| txn.start_ms == start_ms) {
            // The first word is the decision's time, the later ones that of its markers.
            known.decided = known.decided.or(decided);
        }
        let new = Timed { start_ms, decided };
        let first = *self.first.get_or_insert(new);
        if start_ms > self.producer.timestamp && start_ms != first.start_ms {
            self.later = true;
        } else if self.last.is_none_or(|last| last.start_ms != start_ms) {
            self.last = Some(new);
        }
    }

    pub(super) fn decide(&self) -> Decision {
        if let Some(Decided { commit, marker_epoch, state, .. }) = self.decided {
            return Decision { commit, marker_epoch, why: Why::Decided(state) };
        }
        let timed = self.last.or(self.first).and_then(|txn| txn.decided);
        if let Some(decided) = timed {
            if self.later || self.producer.timestamp <= decided.at_ms {
                let Decided { commit, marker_epoch, state, .. } = decided;
                return Decision { commit, marker_epoch, why: Why::DecidedThen(state) };
            }
            return self.abort(Why::AfterLastDecision);
        }
        self.abort(if self.ongoing { Why::Ongoing } else { Why::Unknown })
    }

    /// As a coordinator aborts by itself: the producer is fenced by the next epoch.
    fn abort(&self, why: Why) -> Decision {
        Decision { commit: false, marker_epoch: self.producer.epoch.saturating_add(1), why }
    }
}

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
    ids: BTreeMap<String, Latest>,
    highest_producer_id: i64,
}

impl Transactions {
    pub(super) fn new(open: Vec<OpenTxn>) -> Result<Self, ResolveError> {
        if open.len() > OPEN_MAX {
            return Err(ResolveError::TooMuch { what: "open transactions", max: OPEN_MAX });
        }
        let mut by_producer: HashMap<i64, Vec<usize>> = HashMap::new();
        for (index, each) in open.iter().enumerate() {
            by_producer.entry(each.producer.producer_id).or_default().push(index);
        }
        Ok(Self { open, by_producer, ids: BTreeMap::new(), highest_producer_id: -1 })
    }

    pub(super) fn open(&self) -> &[OpenTxn] {
        &self.open
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
    pub(super) fn complete(&self, now_ms: i64) -> Result<Vec<Completion>, EncodeError> {
        let mut out = Vec::new();
        for (id, latest) in &self.ids {
            let from = latest.value.state();
            let Some(value) = completed(&latest.value, now_ms) else { continue };
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
fn completed(value: &TransactionLogValue, now_ms: i64) -> Option<TransactionLogValue> {
    let (to, epoch) = match value.state() {
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
