//! pure: which committed offsets in `__consumer_offsets` cannot stay as they are, as the group coordinator would load them: an offset
//! committed in a transaction counts from its marker on, and only if nothing was committed for the same partition after it.

use std::collections::{BTreeMap, HashMap};

use super::resolve::{Clamp, PartitionEnd, ResolveError};
use crate::error::{DecodeError, EncodeError};
use crate::records::batch::BatchHeader;
use crate::records::batches::EndMarker;
use crate::records::record::records;
use crate::storage::coordinator::offsets::{self, OffsetCommitKey, OffsetCommitValue, OffsetsKey};

/// Offsets beyond the end of their log, or pending in a transaction, that are kept at once.
const COMMITS_MAX: usize = 1_000_000;

/// Offsets that are told one by one, so that it can be asked afterwards whether they are there.
const TOLD_MAX: usize = 200_000;

/// A group's offset that is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClampedOffset {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// What was committed.
    pub from: i64,
    /// What it becomes: the end of the log; as it was when only its leader epoch is unknown here.
    pub to: i64,
    /// The leader epoch that was committed; it becomes -1, "unknown".
    pub leader_epoch: i32,
}

/// A group's offset as its coordinator will answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The leader epoch that was committed with it; -1 unknown.
    pub leader_epoch: i32,
    /// What the consumer noted with it.
    pub metadata: String,
}

/// An offset that a group committed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Commit {
    record_type: i16,
    pub(super) key: OffsetCommitKey,
    version: i16,
    value: OffsetCommitValue,
}

/// Group, topic, partition.
type Name = (String, String, i32);

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct OffsetsLog {
    /// By the partition of `__consumer_offsets`: committed, and not as it must be.
    candidates: BTreeMap<(usize, Name), Commit>,
    /// Committed in a transaction that has not ended, by partition and producer. What is as it must be is here too: it replaces
    /// what is not once it counts.
    pending: HashMap<(usize, i64), HashMap<Name, Commit>>,
    pending_count: usize,
    /// What every group would be answered, as long as that is not more than is told: offset, leader epoch and note.
    committed: BTreeMap<Name, (i64, i32, String)>,
    /// There was more.
    is_more: bool,
}

impl OffsetsLog {
    /// Takes a batch of the partition at `at`; `end_of` finds a partition that is handed over.
    pub(super) fn take_batch<'a>(
        &mut self,
        at: usize,
        header: &BatchHeader,
        marker: Option<EndMarker>,
        bytes: &[u8],
        end_of: impl Fn(&str, i32) -> Option<&'a PartitionEnd>,
    ) -> Result<(), DecodeError> {
        if let Some(marker) = marker {
            self.end_transaction(at, header.producer_id, marker.commit, &end_of);
            return Ok(());
        }
        if header.is_control() {
            return Ok(());
        }
        for record in records(bytes, header.record_count) {
            let record = record?;
            let Some(OffsetsKey::Offset { record_type, key }) = record.key.map(offsets::decode_key).transpose()? else {
                continue;
            };
            let Some(end) = end_of(&key.topic, key.partition) else { continue };
            let name = (key.group.clone(), key.topic.clone(), key.partition);
            let value = record.value.map(offsets::decode_value).transpose()?;
            let commit = value.map(|(version, value)| Commit { record_type, key, version, value });
            if header.is_transactional() {
                // A group's offset is never removed within a transaction.
                let Some(commit) = commit else { continue };
                let new = self.pending.entry((at, header.producer_id)).or_default().insert(name, commit).is_none();
                self.pending_count += usize::from(new);
                continue;
            }
            self.forget_pending(at, &name);
            self.commit(at, name, commit, end);
        }
        Ok(())
    }

    pub(super) fn check_bound(&self) -> Result<(), ResolveError> {
        if self.candidates.len() + self.pending_count > COMMITS_MAX {
            let what = "offsets of groups beyond the end of their logs, or in open transactions";
            return Err(ResolveError::TooMuch { what, max: COMMITS_MAX });
        }
        Ok(())
    }

    fn commit(&mut self, at: usize, name: Name, commit: Option<Commit>, end: &PartitionEnd) {
        match commit.as_ref().filter(|commit| !commit.is_of_another(end)) {
            Some(Commit { value, .. }) if self.committed.len() < TOLD_MAX || self.committed.contains_key(&name) => {
                self.committed.insert(name.clone(), (value.offset, value.leader_epoch, value.metadata.clone()));
            }
            Some(_) => self.is_more = true,
            None => drop(self.committed.remove(&name)),
        }
        match commit {
            Some(commit) if commit.is_beyond(end) => drop(self.candidates.insert((at, name), commit)),
            _ => drop(self.candidates.remove(&(at, name))),
        }
    }

    /// An offset that is committed later without a transaction wins over the pending one, whenever that is committed.
    fn forget_pending(&mut self, at: usize, name: &Name) {
        if self.pending_count == 0 {
            return;
        }
        for ((place, _), commits) in &mut self.pending {
            if *place == at && commits.remove(name).is_some() {
                self.pending_count -= 1;
            }
        }
    }

    /// The producer's transaction ends in the partition at `at`.
    pub(super) fn end_transaction<'a>(
        &mut self,
        at: usize,
        producer_id: i64,
        commit: bool,
        end_of: &impl Fn(&str, i32) -> Option<&'a PartitionEnd>,
    ) {
        let Some(pending) = self.pending.remove(&(at, producer_id)) else { return };
        self.pending_count -= pending.len();
        if !commit {
            return;
        }
        for (name, commit) in pending {
            if let Some(end) = end_of(&name.1, name.2) {
                self.commit(at, name, Some(commit), end);
            }
        }
    }

    /// What every group would be answered, once everything has ended, as far as it is told; and whether there is more.
    pub(super) fn committed(&mut self, clamped: &[ClampedOffset]) -> (Vec<CommittedOffset>, bool) {
        for changed in clamped {
            let name = (changed.group.clone(), changed.topic.clone(), changed.partition);
            if let Some(committed) = self.committed.get_mut(&name) {
                (committed.0, committed.1) = (changed.to, -1);
            }
        }
        let all = std::mem::take(&mut self.committed).into_iter();
        let told = |((group, topic, partition), (offset, leader_epoch, metadata))| CommittedOffset {
            group,
            topic,
            partition,
            offset,
            leader_epoch,
            metadata,
        };
        (all.map(told).collect(), self.is_more)
    }

    /// The offsets that are not as they must be, with the partition of `__consumer_offsets` that holds them.
    pub(super) fn candidates(&mut self) -> impl Iterator<Item = (usize, Commit)> + use<> {
        std::mem::take(&mut self.candidates).into_iter().map(|((at, _), commit)| (at, commit))
    }
}

impl Commit {
    /// An offset of another topic of the same name is none of ours: a broker does not give it out.
    fn is_of_another(&self, end: &PartitionEnd) -> bool {
        !self.value.topic_id.is_zero() && !end.topic_id.is_zero() && self.value.topic_id != end.topic_id
    }

    /// Whether the offset or its epoch is one that this log does not have.
    fn is_beyond(&self, end: &PartitionEnd) -> bool {
        !self.is_of_another(end) && (self.value.offset > end.end_offset || self.value.leader_epoch > end.leader_epoch)
    }

    /// The record that puts it right in a log that ends at `new_end` once everything is appended; none when nothing changes.
    pub(super) fn clamp(&self, new_end: i64) -> Result<Option<Clamp>, EncodeError> {
        let to = self.value.offset.min(new_end);
        // What was appended here has another epoch than what the source has there: by its epoch a consumer would be sent back.
        let leader_epoch = self.value.leader_epoch;
        if to == self.value.offset && leader_epoch < 0 {
            return Ok(None);
        }
        let value = OffsetCommitValue { offset: to, leader_epoch: -1, ..self.value.clone() };
        let record = (offsets::encode_key(self.record_type, &self.key)?, offsets::encode_value(self.version, &value)?);
        let OffsetCommitKey { group, topic, partition } = self.key.clone();
        Ok(Some((record, ClampedOffset { group, topic, partition, from: self.value.offset, to, leader_epoch })))
    }
}
