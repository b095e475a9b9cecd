//! pure: what is appended to mirrored partitions before a broker starts on them: the end of every open transaction, what the transaction
//! coordinators would have written then, and offsets of groups that lie beyond the end of a log.
//!
//! ```text
//! new(partitions as they end)   take(pieces of `__transaction_state` and `__consumer_offsets`) ...   resolve()
//! ```
//! A transaction that the source's coordinator has decided is ended as decided; one that it has not, or of which nothing is known, is
//! aborted. With that no coordinator finds work to do at its start, the last stable offset of every partition is its end, and a
//! transactional id goes on as after any other end of a transaction.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::offsets::OffsetsLog;
pub use super::offsets::{ClampedOffset, CommittedOffset};
pub use super::open_txn::Why;
use super::open_txn::{Decision, OpenTxn};
pub use super::trail::{Bounds, Ended, Trail};
use super::transactions::Transactions;
use crate::error::{DecodeError, EncodeError};
use crate::ids::Uuid;
use crate::records::batch::{BatchHeader, Codec, HEADER_BYTES};
use crate::records::batches::{BatchError, BatchEvent, BatchLimits, BatchWalker, EndMarker};
use crate::storage::coordinator::transactions::TransactionState;
use crate::storage::coordinator::{CONSUMER_OFFSETS, TRANSACTION_STATE};
use crate::storage::producer_snapshot::ProducerEntry;

/// A partition that is handed over, as it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEnd {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Its topic's id.
    pub topic_id: Uuid,
    /// The offset after its last record.
    pub end_offset: i64,
    /// Leader epoch of what is appended: above every mirrored one, below the broker's.
    pub leader_epoch: i32,
    /// The state of its producers at the end (its producer snapshot).
    pub producers: Vec<ProducerEntry>,
    /// What its batches tell of the transactions that are open in any partition.
    pub trail: Trail,
}

/// The end of a producer's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The producer.
    pub producer_id: i64,
    /// The epoch in whose name it ends.
    pub producer_epoch: i16,
    /// Committed, else aborted.
    pub commit: bool,
    /// Epoch of the transaction coordinator: the last that wrote a marker for this producer here, 0 when none did.
    pub coordinator_epoch: i32,
}

/// What is appended to a partition: markers first, then records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Where it is appended.
    pub end_offset: i64,
    /// Leader epoch of the batches.
    pub leader_epoch: i32,
    /// Ends of transactions, in the order of their beginnings.
    pub markers: Vec<Marker>,
    /// Keys and values.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Appended {
    /// The end of the log once everything is appended.
    #[must_use]
    pub fn new_end(&self) -> i64 {
        self.end_offset.saturating_add((self.markers.len() + self.records.len()) as i64)
    }
}

/// An open transaction of a partition and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTransaction {
    /// The transactional id, if `__transaction_state` has it.
    pub transactional_id: Option<String>,
    /// The producer.
    pub producer_id: i64,
    /// Epoch of the transaction's records.
    pub producer_epoch: i16,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// Its first record there.
    pub first_offset: i64,
    /// Committed, else aborted.
    pub commit: bool,
    /// Why.
    pub why: Why,
}

/// A transactional id whose state is completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedId {
    /// The transactional id.
    pub transactional_id: String,
    /// The state that was mirrored.
    pub from: TransactionState,
    /// `CompleteCommit` or `CompleteAbort`.
    pub to: TransactionState,
    /// The producer id from now on.
    pub producer_id: i64,
    /// Its epoch from now on; the next producer gets the one after it.
    pub producer_epoch: i16,
}

/// Everything that is decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolution {
    /// Partitions to which something is appended, by name.
    pub appended: Vec<Appended>,
    /// The transactions that were open.
    pub transactions: Vec<ResolvedTransaction>,
    /// The transactional ids that were in the middle of one.
    pub completed: Vec<CompletedId>,
    /// The offsets that are changed.
    pub clamped: Vec<ClampedOffset>,
    /// Offsets of groups in these partitions, those that are changed as they become.
    pub committed: Vec<CommittedOffset>,
    /// There are more of them than are told one by one.
    pub is_more_committed: bool,
    /// The highest producer id that was seen; -1 none.
    pub highest_producer_id: i64,
}

/// Why the state of the coordinators cannot be read or written.
#[derive(Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// A batch is compressed; Kafka writes these topics without unless it is told to.
    Compressed {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The batch.
        offset: i64,
        /// How.
        codec: Codec,
    },
    /// No valid batch.
    Batch {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// What is wrong.
        why: BatchError,
    },
    /// A record that this release does not understand.
    Record {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The batch that holds it.
        offset: i64,
        /// What is wrong.
        why: DecodeError,
    },
    /// More state than is kept at once.
    TooMuch {
        /// Of what.
        what: &'static str,
        /// The bound.
        max: usize,
    },
    /// A record cannot be written.
    Encode(EncodeError),
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compressed { topic, partition, offset, codec } => write!(
                f,
                "the batch at offset {offset} of {topic}-{partition} is compressed ({}), so that what it says about transactions or \
                 offsets cannot be read; unset offsets.topic.compression.codec at the source and let it compact, or hand over without \
                 internal topics",
                codec.name()
            ),
            Self::Batch { topic, partition, why } => {
                write!(f, "{topic}-{partition} holds no valid batch: {why}; mirror the topic from scratch")
            }
            Self::Record { topic, partition, offset, why } => write!(
                f,
                "a record of the batch at offset {offset} of {topic}-{partition} is not understood: {why}; a source newer than this \
                 release needs a newer twinlog"
            ),
            Self::TooMuch { what, max } => write!(f, "there are more than {max} {what}; end some at the source first"),
            Self::Encode(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Record { why, .. } => Some(why),
            Self::Batch { why, .. } => Some(why),
            Self::Encode(why) => Some(why),
            _ => None,
        }
    }
}

impl From<EncodeError> for ResolveError {
    fn from(why: EncodeError) -> Self {
        Self::Encode(why)
    }
}

/// Gathers what the coordinators' topics say, and decides.
#[derive(Debug)]
pub struct Resolver {
    ends: Vec<PartitionEnd>,
    /// Index of each partition, by topic.
    places: HashMap<String, HashMap<i32, usize>>,
    transactions: Transactions,
    offsets: OffsetsLog,
}

impl Resolver {
    /// For these partitions.
    ///
    /// # Errors
    /// When more transactions are open than are resolved at once.
    pub fn new(mut ends: Vec<PartitionEnd>) -> Result<Self, ResolveError> {
        ends.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
        let mut places: HashMap<String, HashMap<i32, usize>> = HashMap::new();
        let mut open = Vec::new();
        for (at, end) in ends.iter().enumerate() {
            places.entry(end.topic.clone()).or_default().insert(end.partition, at);
            let mut here: Vec<_> = end.producers.iter().filter(|producer| producer.has_open_txn()).collect();
            here.sort_unstable_by_key(|producer| producer.txn_first_offset);
            let bounds = |id| end.trail.bounds.get(&id).copied().unwrap_or_default();
            open.extend(here.into_iter().map(|producer| OpenTxn::new(at, *producer, bounds(producer.producer_id))));
        }
        let transactions = Transactions::new(open, &ends)?;
        Ok(Self { ends, places, transactions, offsets: OffsetsLog::default() })
    }

    /// Takes the next piece of the log of a partition of `__transaction_state` or `__consumer_offsets`, in order and from its start;
    /// gives how many bytes were taken. The rest is the beginning of a batch that is not whole: it must come first in the next piece.
    /// Records at or above the partition's end are left out; other topics have nothing to say.
    ///
    /// # Errors
    /// When the log is damaged or not understood.
    pub fn take(&mut self, topic: &str, partition: i32, piece: &[u8]) -> Result<usize, ResolveError> {
        let Some(at) = self.place(topic, partition) else { return Ok(piece.len()) };
        let is_transactions = topic == TRANSACTION_STATE;
        if !is_transactions && topic != CONSUMER_OFFSETS {
            return Ok(piece.len());
        }
        let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: i32::MAX as usize });
        let (mut taken, mut rest) = (0, piece);
        loop {
            let fed = walker.feed(rest);
            let fed = fed.map_err(|why| ResolveError::Batch { topic: topic.to_owned(), partition, why })?;
            rest = &rest[fed.consumed..];
            match fed.event {
                None => return Ok(taken),
                Some(BatchEvent::Header(_)) => {}
                Some(BatchEvent::Batch { header, marker }) => {
                    let records = &piece[taken + HEADER_BYTES..taken + header.size_bytes()];
                    taken += header.size_bytes();
                    if header.last_offset() < self.ends[at].end_offset {
                        self.take_batch(at, &header, marker, records)?;
                    }
                }
            }
        }
    }

    fn take_batch(
        &mut self,
        at: usize,
        header: &BatchHeader,
        marker: Option<EndMarker>,
        records: &[u8],
    ) -> Result<(), ResolveError> {
        let (topic, partition, offset) = (&self.ends[at].topic, self.ends[at].partition, header.base_offset);
        if header.codec() != Codec::None {
            return Err(ResolveError::Compressed { topic: topic.clone(), partition, offset, codec: header.codec() });
        }
        let taken = if topic == TRANSACTION_STATE {
            self.transactions.take_batch(at, &self.ends, header, records)
        } else {
            let (ends, places) = (&self.ends, &self.places);
            let end_of = |topic: &str, partition| places.get(topic)?.get(&partition).map(|at| &ends[*at]);
            self.offsets.take_batch(at, header, marker, records, end_of)
        };
        taken.map_err(|why| ResolveError::Record { topic: topic.clone(), partition, offset, why })?;
        self.transactions.check_bound()?;
        self.offsets.check_bound()
    }

    fn place(&self, topic: &str, partition: i32) -> Option<usize> {
        self.places.get(topic)?.get(&partition).copied()
    }

    /// Decides. `now_ms` is the time that records say they were written at (ms since 1970).
    ///
    /// # Errors
    /// When a record cannot be written.
    pub fn resolve(mut self, now_ms: i64) -> Result<Resolution, ResolveError> {
        let mut out = Resolution { highest_producer_id: self.highest_producer_id(), ..Resolution::default() };
        let mut appended: BTreeMap<usize, Appended> = BTreeMap::new();
        let mut offsets = std::mem::take(&mut self.offsets);
        for open in self.transactions.open() {
            let (decision, at) = (self.transactions.decide(open, &self.ends), open.place);
            let marker = marker_of(open, &decision);
            self.appended(&mut appended, at).markers.push(marker);
            let end_of = |topic: &str, partition| Some(&self.ends[self.place(topic, partition)?]);
            offsets.end_transaction(at, marker.producer_id, marker.commit, &end_of);
            out.transactions.push(self.evidence(open, decision));
        }
        for (at, key, value, completed) in self.transactions.complete(&self.ends, now_ms)? {
            self.appended(&mut appended, at).records.push((key, value));
            out.completed.push(completed);
        }
        for (at, commit) in offsets.candidates() {
            let Some(place) = self.place(&commit.key.topic, commit.key.partition) else { continue };
            let new_end = appended.get(&place).map_or(self.ends[place].end_offset, Appended::new_end);
            if let Some((record, clamped)) = commit.clamp(new_end)? {
                self.appended(&mut appended, at).records.push(record);
                out.clamped.push(clamped);
            }
        }
        (out.committed, out.is_more_committed) = offsets.committed(&out.clamped);
        out.appended = appended.into_values().collect();
        Ok(out)
    }

    fn appended<'a>(&self, all: &'a mut BTreeMap<usize, Appended>, at: usize) -> &'a mut Appended {
        let end = &self.ends[at];
        all.entry(at).or_insert_with(|| Appended {
            topic: end.topic.clone(),
            partition: end.partition,
            end_offset: end.end_offset,
            leader_epoch: end.leader_epoch,
            markers: Vec::new(),
            records: Vec::new(),
        })
    }

    fn evidence(&self, open: &OpenTxn, decision: Decision) -> ResolvedTransaction {
        let end = &self.ends[open.place];
        ResolvedTransaction {
            transactional_id: open.transactional_id.clone(),
            producer_id: open.producer.producer_id,
            producer_epoch: open.producer.epoch,
            topic: end.topic.clone(),
            partition: end.partition,
            first_offset: open.producer.txn_first_offset,
            commit: decision.commit,
            why: decision.why,
        }
    }

    fn highest_producer_id(&self) -> i64 {
        let of_logs = self.ends.iter().flat_map(|end| &end.producers).map(|producer| producer.producer_id);
        of_logs.max().unwrap_or(-1).max(self.transactions.highest_producer_id())
    }
}

fn marker_of(open: &OpenTxn, decision: &Decision) -> Marker {
    Marker {
        producer_id: open.producer.producer_id,
        producer_epoch: decision.marker_epoch.max(open.producer.epoch),
        commit: decision.commit,
        coordinator_epoch: open.producer.coordinator_epoch.max(0),
    }
}

/// A record to append, and what it changes.
pub(super) type Clamp = ((Vec<u8>, Vec<u8>), ClampedOffset);

#[cfg(test)]
mod tests;
