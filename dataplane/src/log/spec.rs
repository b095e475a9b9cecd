//! pure: what a log is told, and what it tells: the values at the door of `PartitionLog`.

use std::fmt;
use std::path::PathBuf;

use twinlog_proto::ids::Uuid;
use twinlog_proto::records::batches::BatchError;
use twinlog_proto::storage::roll::RollRules;
use twinlog_proto::storage::segment_indexer::IndexRules;

use crate::disk::Alignment;
use crate::fault::Fault;

/// What a log is opened with.
#[derive(Debug, Clone)]
pub struct LogSpec {
    /// A number of the caller's choice by which the changed queue names this log.
    pub token: u32,
    /// The data directory (a broker's `log.dirs` entry) that holds the partition's directory.
    pub data_dir: PathBuf,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The topic's id. `Uuid::ZERO` means: take what `partition.metadata` says (offline work).
    pub topic_id: Uuid,
    /// When to roll and what to index.
    pub rules: LogRules,
    /// Everything below is durable and was checked before: recovery scans from the segment that holds it. 0 = nothing.
    pub recovery_point: i64,
    /// Log start known from the checkpoint; -1 = the base of the first segment. For a new log: where it begins.
    pub log_start: i64,
    /// What writes to the files of the data directory must look like, when that is known already: then a log that is only
    /// looked at opens no file for writing.
    pub alignment: Option<Alignment>,
}

/// The topic settings that decide the shape of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRules {
    /// `segment.bytes`.
    pub segment_bytes: i32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i32,
    /// Whether `cleanup.policy` contains `compact`.
    pub compacted: bool,
    /// `max.compaction.lag.ms`; counts only for compacted topics.
    pub max_compaction_lag_ms: i64,
    /// `producer.id.expiration.ms` of the broker.
    pub producer_expiration_ms: i64,
    /// Bytes of the largest batch taken.
    pub batch_bytes_max: usize,
}

impl LogRules {
    /// The part that decides when to roll. Negative sizes count as 0.
    #[must_use]
    pub fn roll_rules(&self) -> RollRules {
        RollRules {
            segment_bytes: self.segment_bytes.try_into().unwrap_or(0),
            segment_ms: self.segment_ms,
            index_bytes: self.segment_index_bytes.try_into().unwrap_or(0),
            max_compaction_lag_ms: self.compacted.then_some(self.max_compaction_lag_ms),
        }
    }

    /// The part that decides what is indexed. Negative sizes count as 0.
    #[must_use]
    pub fn index_rules(&self) -> IndexRules {
        IndexRules {
            interval_bytes: self.index_interval_bytes.try_into().unwrap_or(0),
            index_bytes: self.segment_index_bytes.try_into().unwrap_or(0),
        }
    }
}

impl Default for LogRules {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            compacted: false,
            max_compaction_lag_ms: i64::MAX,
            producer_expiration_ms: 24 * 60 * 60 * 1000,
            batch_bytes_max: crate::limits::BATCH_BYTES_MAX,
        }
    }
}

/// The conditions of one region (the records of one partition in one Fetch response).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionRules {
    /// Leader epoch of the fetch request. A batch of a newer epoch ends the region before it. `i32::MAX` = any.
    pub epoch_max: i32,
    /// Wall clock, in ms since 1970: used only to roll segments whose batches carry no timestamp.
    pub now_ms: i64,
}

/// What became of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionEnd {
    /// What to fetch next.
    pub next_offset: i64,
    /// Whole batches accepted.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes after the last whole batch that were dropped (a batch cut off by the response, or whatever a stop left).
    pub cut_off_bytes: u64,
    /// Declared size of the batch that was cut off, once its header was seen: ask for at least as much.
    pub cut_off_batch_bytes: Option<u32>,
    /// First and last offset of the first batch that was left out because it ends below the log end; its bytes are among
    /// `cut_off_bytes`.
    pub left_out: Option<(i64, i64)>,
    /// The epoch of the batch that was not taken because it is above `epoch_max`.
    pub newer_epoch: Option<i32>,
    /// The size of every accepted batch, if all had the same (the last may be cut off): what to align fetches to.
    pub uniform_batch_bytes: Option<u32>,
}

/// Where a log stands. `log_start <= flushed <= leo`, except that `flushed` may be below `log_start` after a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogProgress {
    /// The end of what is written and verified. Moves on completion, never on submission.
    pub leo: i64,
    /// The end of what is durable.
    pub flushed: i64,
    /// The first offset.
    pub log_start: i64,
    /// Leader epoch of the last batch below `leo`; -1 when there is none.
    pub last_epoch: i32,
}

/// Why a region ended early. The batches before it are accepted; everything after it is dropped.
#[derive(Debug)]
pub enum AppendStop {
    /// The batch's epoch is above `epoch_max`: refresh the metadata, fetch again.
    NewerEpoch {
        /// Base offset of the batch.
        offset: i64,
        /// Its epoch.
        epoch: i32,
    },
    /// The batch has no leader epoch (-1).
    NoEpoch {
        /// Base offset of the batch.
        offset: i64,
    },
    /// The batch's epoch is below that of the batch before it: this log is not a prefix of the source's.
    EpochWentBack {
        /// Base offset of the batch.
        offset: i64,
        /// Its epoch.
        epoch: i32,
        /// The epoch of the batch before.
        last: i32,
    },
    /// The batch begins below the end of the log and ends above it, or a region held nothing but batches below it.
    Overlap {
        /// Base offset of the batch.
        offset: i64,
        /// Its last offset.
        last_offset: i64,
        /// The end of the log.
        next_offset: i64,
    },
    /// Bytes that are no batch, an old or unknown format, impossible offsets, or a wrong checksum. A checksum is worth a
    /// refetch or two; the rest says what the source holds.
    Corrupt {
        /// The end of the log: what to fetch again.
        next_offset: i64,
        /// What is wrong.
        why: BatchError,
    },
    /// The log itself failed (it could not make the next segment).
    Fault(Fault),
    /// The region had ended before; these bytes were dropped.
    Over,
}

impl fmt::Display for AppendStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerEpoch { offset, epoch } => {
                write!(f, "the batch at offset {offset} has leader epoch {epoch}, newer than the one asked with")
            }
            Self::NoEpoch { offset } => write!(f, "the batch at offset {offset} carries no leader epoch"),
            Self::EpochWentBack { offset, epoch, last } => write!(
                f,
                "the batch at offset {offset} has leader epoch {epoch} after a batch of epoch {last}: the local log is \
                 not a prefix of the source's"
            ),
            Self::Overlap { offset, last_offset, next_offset } => {
                write!(f, "the batch of offsets {offset} to {last_offset} begins below the local log end {next_offset}")
            }
            Self::Corrupt { next_offset, why } => write!(f, "no valid batch at the local log end {next_offset}: {why}"),
            Self::Fault(fault) => fault.fmt(f),
            Self::Over => f.write_str("the region is over"),
        }
    }
}

impl std::error::Error for AppendStop {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Corrupt { why, .. } => Some(why),
            Self::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
