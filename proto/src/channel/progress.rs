//! pure: what the data plane tells about one partition, as the 15 value words of its board slot.
//!
//! ```text
//!  0 identity                       8 lag bytes
//!  1 state 8 | flags 8 | fault 16 | attempt 32      9 caught up at, ms
//!  2 leader epoch 32 | last epoch 32                10, 11 fault from, to
//!  3 LEO     4 flushed   5 log start                12 batches   13 bytes
//!  6 source high watermark  7 source LSO            14 assignment version 32 | 0
//! ```

use super::layout::SLOT_VALUE_WORDS;
use crate::ids::Uuid;
use core::fmt;

/// The value that stands for "not known" in offsets, epochs, lags and times.
pub const UNKNOWN: i64 = -1;

/// What is known of one partition; every offset is exclusive (the next one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionProgress {
    /// [`identity`] of topic id and partition, never 0. A reader compares it with what it expects in the slot.
    pub identity: u64,
    /// What the data plane does with the partition.
    pub state: SlotState,
    /// Low bits of the version of the assignment that was applied last.
    pub assignment_version: u32,
    /// The attempt number of the assignment that was applied last.
    pub attempt: u32,
    /// Log end: everything below is written and verified.
    pub leo: i64,
    /// Everything below is on stable storage; `flushed <= leo`.
    pub flushed: i64,
    /// First offset of the log.
    pub log_start: i64,
    /// Whether the log starts above the base offset of its first segment, so that only a checkpoint file can tell its start.
    pub start_within_segment: bool,
    /// High watermark that the source reported last, -1 unknown.
    pub source_high_watermark: i64,
    /// Last stable offset that the source reported last, -1 unknown.
    pub source_lso: i64,
    /// Leader epoch of the source, -1 unknown.
    pub leader_epoch: i32,
    /// Leader epoch of the last mirrored batch, -1 when there is none.
    pub last_epoch: i32,
    /// Estimated bytes between our log end and the source's, -1 unknown.
    pub lag_bytes: i64,
    /// When our log end last was the source's high watermark, milliseconds since 1970, -1 never.
    pub caught_up_at_ms: i64,
    /// Why the state is [`SlotState::Failed`], or what was tolerated last.
    pub fault: FaultCode,
    /// First offset concerned by `fault`, -1 unknown.
    pub fault_from: i64,
    /// End (exclusive) of the offsets concerned by `fault`, -1 unknown.
    pub fault_to: i64,
    /// Batches mirrored since the data plane started.
    pub batches: u64,
    /// Bytes mirrored since the data plane started.
    pub bytes: u64,
}

/// What the data plane does with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotState {
    /// No partition has this slot.
    Absent = 0,
    /// The log is being opened, or the leader is being looked for.
    Preparing = 1,
    /// The leader changed; its epoch is being learned.
    Fencing = 2,
    /// Records flow, or would if there were any.
    Mirroring = 3,
    /// Not fetched, by order.
    Paused = 4,
    /// Not fetched any more, by order; the files are finished.
    Stopped = 5,
    /// Not fetched because of `fault`.
    Failed = 6,
}

impl SlotState {
    /// All states, in the order of their codes.
    pub const ALL: [Self; 7] =
        [Self::Absent, Self::Preparing, Self::Fencing, Self::Mirroring, Self::Paused, Self::Stopped, Self::Failed];

    /// The state with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Lower-case name, for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Preparing => "preparing",
            Self::Fencing => "fencing",
            Self::Mirroring => "mirroring",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// Why a partition, or a whole mirror, does not go on. Codes are stable within a layout version; unknown ones keep their number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct FaultCode(pub u16);

macro_rules! fault_codes {
    ($($name:ident = $code:literal, $text:literal, $meaning:literal;)*) => {
        impl FaultCode {
            $(#[doc = $meaning] pub const $name: Self = Self($code);)*

            /// All codes with a name, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Lower-case name, for logs and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self.0 { $($code => $text,)* _ => "unknown" }
            }

            /// What happened, for people.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self.0 { $($code => $meaning,)* _ => "a fault that this version has no words for" }
            }
        }
    };
}

fault_codes! {
    NONE = 0, "none", "nothing is wrong";
    GAP = 1, "gap", "the source deleted records that were not mirrored yet";
    RECREATED = 2, "recreated", "the topic was deleted and created again at the source, its id is another one";
    DIVERGED = 3, "diverged", "the local log and the source's differ below the local end";
    OLD_FORMAT = 4, "old_format", "the source holds batches of message format 0 or 1, which cannot be mirrored byte for byte";
    CHECKSUM = 5, "checksum", "a batch from the source fails its checksum again and again";
    MALFORMED_BATCH = 6, "malformed_batch", "a batch from the source breaks the record format";
    BATCH_TOO_LARGE = 7, "batch_too_large", "a batch from the source is larger than the limit for one batch";
    PROTOCOL = 8, "protocol", "the source's answer breaks the Kafka protocol";
    UNKNOWN_TOPIC = 9, "unknown_topic", "the source does not have the topic or partition any more";
    NOT_AUTHORIZED = 10, "not_authorized", "the source does not let this mirror read the topic";
    AUTHENTICATION = 11, "authentication", "the source refuses the mirror's credentials";
    UNREACHABLE = 12, "unreachable", "no broker of the source can be reached";
    NO_LEADER = 13, "no_leader", "the partition has no leader at the source";
    DISK_FULL = 14, "disk_full", "the destination's disk is full";
    DISK = 15, "disk", "the destination's disk refuses a read, a write or a sync";
    DIRECTORY = 16, "directory", "the partition's directory belongs to another topic id, or cannot be made or read";
    LOG_CORRUPT = 17, "log_corrupt", "the local log is damaged below its recovery point";
    ASSIGNMENT = 18, "assignment", "the assignment file cannot be read, or asks for something impossible";
    CLUSTER = 19, "cluster", "the servers that answer are another cluster than the mirror's source";
    TOO_MANY_OPEN_FILES = 20, "too_many_open_files", "the process may not open more files";
    UNSUPPORTED = 21, "unsupported", "the source lacks a request version that mirroring needs";
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}

impl fmt::Debug for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultCode({}, {})", self.0, self.name())
    }
}

/// Value words of a slot that do not follow the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSlot {
    /// The rule that is broken.
    pub what: &'static str,
    /// The word found.
    pub found: u64,
}

impl fmt::Display for BadSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a board slot breaks the rule that {}: found {:#018x}", self.what, self.found)
    }
}

impl core::error::Error for BadSlot {}

const FLAG_START_WITHIN_SEGMENT: u64 = 1 << 8;
const FLAGS_UNUSED: u64 = 0xfe << 8;

impl PartitionProgress {
    /// A partition of which nothing is known yet.
    #[must_use]
    pub fn unknown(identity: u64, state: SlotState) -> Self {
        Self {
            identity,
            state,
            assignment_version: 0,
            attempt: 0,
            leo: UNKNOWN,
            flushed: UNKNOWN,
            log_start: UNKNOWN,
            start_within_segment: false,
            source_high_watermark: UNKNOWN,
            source_lso: UNKNOWN,
            leader_epoch: -1,
            last_epoch: -1,
            lag_bytes: UNKNOWN,
            caught_up_at_ms: UNKNOWN,
            fault: FaultCode::NONE,
            fault_from: UNKNOWN,
            fault_to: UNKNOWN,
            batches: 0,
            bytes: 0,
        }
    }

    /// Records between our log end and the source's high watermark; `None` while either is unknown.
    #[must_use]
    pub fn lag_records(&self) -> Option<i64> {
        (self.leo >= 0 && self.source_high_watermark >= 0).then(|| (self.source_high_watermark - self.leo).max(0))
    }

    /// The value words.
    #[must_use]
    pub fn to_words(&self) -> [u64; SLOT_VALUE_WORDS] {
        let flags = if self.start_within_segment { FLAG_START_WITHIN_SEGMENT } else { 0 };
        [
            self.identity,
            self.state as u64 | flags | u64::from(self.fault.0) << 16 | u64::from(self.attempt) << 32,
            u64::from(self.leader_epoch.cast_unsigned()) | u64::from(self.last_epoch.cast_unsigned()) << 32,
            self.leo.cast_unsigned(),
            self.flushed.cast_unsigned(),
            self.log_start.cast_unsigned(),
            self.source_high_watermark.cast_unsigned(),
            self.source_lso.cast_unsigned(),
            self.lag_bytes.cast_unsigned(),
            self.caught_up_at_ms.cast_unsigned(),
            self.fault_from.cast_unsigned(),
            self.fault_to.cast_unsigned(),
            self.batches,
            self.bytes,
            u64::from(self.assignment_version),
        ]
    }

    /// Reads value words; `None` when no partition has the slot (identity 0).
    ///
    /// # Errors
    /// Words that no data plane of this layout version writes.
    pub fn from_words(words: &[u64; SLOT_VALUE_WORDS]) -> Result<Option<Self>, BadSlot> {
        if words[0] == 0 {
            return Ok(None);
        }
        let state = SlotState::from_code(words[1] as u8)
            .ok_or(BadSlot { what: "its state is one of those that exist", found: words[1] })?;
        if words[1] & FLAGS_UNUSED != 0 {
            return Err(BadSlot { what: "unused flags are zero", found: words[1] });
        }
        let value = Self {
            identity: words[0],
            state,
            assignment_version: low(words[14]),
            attempt: high(words[1]),
            leo: offset(words[3])?,
            flushed: offset(words[4])?,
            log_start: offset(words[5])?,
            start_within_segment: words[1] & FLAG_START_WITHIN_SEGMENT != 0,
            source_high_watermark: offset(words[6])?,
            source_lso: offset(words[7])?,
            leader_epoch: low(words[2]).cast_signed(),
            last_epoch: high(words[2]).cast_signed(),
            lag_bytes: offset(words[8])?,
            caught_up_at_ms: offset(words[9])?,
            fault: FaultCode((words[1] >> 16) as u16),
            fault_from: offset(words[10])?,
            fault_to: offset(words[11])?,
            batches: words[12],
            bytes: words[13],
        };
        if value.flushed > value.leo {
            return Err(BadSlot { what: "what is flushed was written before", found: words[4] });
        }
        Ok(Some(value))
    }
}

/// The number that stands for a partition in its slot: a hash of topic id and partition, never 0.
#[must_use]
pub fn identity(topic_id: Uuid, partition: i32) -> u64 {
    let hash = hash_more(hash_more(HASH_START, &topic_id.0), &partition.to_be_bytes());
    mix(hash).max(1)
}

/// The number that stands for a mirror in orders and events: a hash of its name, never 0.
#[must_use]
pub fn mirror_identity(name: &str) -> u64 {
    mix(hash_more(HASH_START, name.as_bytes())).max(1)
}

// FNV-1a, then a finalizer, for FNV alone leaves the high bits of short inputs alike.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0100_0000_01b3;

fn hash_more(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME))
}

fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

fn offset(word: u64) -> Result<i64, BadSlot> {
    let value = word.cast_signed();
    if value < UNKNOWN {
        return Err(BadSlot { what: "offsets, lags and times are -1 or more", found: word });
    }
    Ok(value)
}

#[cfg(all(test, not(loom)))]
mod tests;
