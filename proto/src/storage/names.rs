//! pure: the names of files and folders in a log directory.
//!
//! ```text
//! DATA/<topic>-<partition>/00000000000000001109.log        20 digits: the first offset that the file may hold
//! DATA/<topic>-<partition>.<32 hex digits>-delete/         a partition that is going away
//! ```

use crate::ids::{Uuid, is_legal_name};

/// A partition's epochs and where they start.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// A partition's topic id.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// A log directory's identity.
pub const META_PROPERTIES: &str = "meta.properties";
/// Below it everything was synced, by partition.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Where logs start, when that is not their first segment.
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// High watermarks by partition.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// What compaction has reached, by partition.
pub const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// Says that the log directory was closed in order.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// Locked by the broker that uses the directory.
pub const LOCK: &str = ".lock";
/// The suffix of a checkpoint that is being written.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

const OFFSET_DIGITS: usize = 20;
const DIR_NAME_BYTES_MAX: usize = 255;
const HEX_DIGITS: usize = 32;

/// What a file that is named by an offset holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// Batches.
    Log,
    /// Offset index.
    OffsetIndex,
    /// Time index.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// Producers at the offset of the name.
    Snapshot,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];

    /// The suffix, with its dot.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// Why a file is not in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leftover {
    /// Waits for its removal.
    Deleted,
    /// Compaction output that is not valid yet.
    Cleaned,
    /// Compaction output that is valid: a rename completes it.
    Swap,
}

/// A file name of a partition folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileName {
    /// The offset of the name.
    pub offset: i64,
    /// What the file holds.
    pub kind: FileKind,
    /// Set when the file is not in use.
    pub leftover: Option<Leftover>,
}

/// The name of a file in use.
#[must_use]
pub fn file_name(offset: i64, kind: FileKind) -> String {
    let mut name = String::new();
    push_file_name(&mut name, offset, kind);
    name
}

/// Appends the name of a file in use.
pub fn push_file_name(text: &mut String, offset: i64, kind: FileKind) {
    use core::fmt::Write as _;
    write!(text, "{offset:0OFFSET_DIGITS$}{}", kind.suffix()).expect("a String takes everything");
}

/// Reads the name of a file that is named by an offset; none for any other file.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<FileName> {
    let (digits, rest) = name.split_at_checked(OFFSET_DIGITS)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let offset = digits.parse().ok()?;
    let (suffix, leftover) = [
        (rest.strip_suffix(".deleted"), Leftover::Deleted),
        (rest.strip_suffix(".cleaned"), Leftover::Cleaned),
        (rest.strip_suffix(".swap"), Leftover::Swap),
    ]
    .into_iter()
    .find_map(|(suffix, leftover)| Some((suffix?, Some(leftover))))
    .unwrap_or((rest, None));
    let kind = FileKind::ALL.into_iter().find(|kind| kind.suffix() == suffix)?;
    Some(FileName { offset, kind, leftover })
}

/// What a partition folder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DirUse {
    /// The partition.
    Live,
    /// Waits for its removal.
    Delete,
    /// A copy that is moving in from another log directory.
    Future,
    /// A broker found it and does not know the topic.
    Stray,
}

/// A folder name of a log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionDir<'a> {
    /// The topic; cut short in suffixed names that would be too long.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// What it is for.
    pub dir_use: DirUse,
}

/// The folder of a partition.
#[must_use]
pub fn partition_dir(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// The folder name of a partition that is going away or has gone astray. The topic is cut so that the name has at most 255 bytes.
#[must_use]
pub fn suffixed_partition_dir(topic: &str, partition: i32, unique: Uuid, dir_use: DirUse) -> String {
    let word = match dir_use {
        DirUse::Live => return partition_dir(topic, partition),
        DirUse::Delete => "delete",
        DirUse::Future => "future",
        DirUse::Stray => "stray",
    };
    let suffix = format!("-{partition}.{:0HEX_DIGITS$x}-{word}", u128::from_be_bytes(unique.0));
    let kept = topic.len().min(DIR_NAME_BYTES_MAX - suffix.len());
    format!("{}{suffix}", topic.get(..kept).unwrap_or(topic))
}

/// Reads the name of a partition's folder; none for any other folder. The partition is after the last dash.
#[must_use]
pub fn parse_partition_dir(name: &str) -> Option<PartitionDir<'_>> {
    let (base, dir_use) = [("-delete", DirUse::Delete), ("-future", DirUse::Future), ("-stray", DirUse::Stray)]
        .into_iter()
        .find_map(|(suffix, dir_use)| Some((strip_unique(name.strip_suffix(suffix)?)?, dir_use)))
        .unwrap_or((name, DirUse::Live));
    let (topic, digits) = base.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // "007" is not how the partition 7 is called.
    if !is_number || (digits.len() > 1 && digits.starts_with('0')) || !is_legal_name(topic) {
        return None;
    }
    Some(PartitionDir { topic, partition: digits.parse().ok()?, dir_use })
}

fn strip_unique(name: &str) -> Option<&str> {
    let (base, unique) = name.rsplit_once('.')?;
    (unique.len() == HEX_DIGITS && unique.bytes().all(|b| b.is_ascii_hexdigit())).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_named_by_20_digits() {
        assert_eq!(file_name(1109, FileKind::Log), "00000000000000001109.log");
        let parsed = parse_file_name("00000000000000001109.txnindex").unwrap();
        assert_eq!((parsed.offset, parsed.kind, parsed.leftover), (1109, FileKind::TxnIndex, None));
        let swap = parse_file_name("00000000000000001109.log.swap").unwrap();
        assert_eq!(swap.leftover, Some(Leftover::Swap));
        assert_eq!(parse_file_name(&file_name(i64::MAX, FileKind::Snapshot)).unwrap().offset, i64::MAX);
    }

    #[test]
    fn other_files_are_not_taken_for_segments() {
        for name in [
            "",
            LEADER_EPOCHS,
            "1109.log",
            "0000000000000000110x.log",
            "99999999999999999999.log",
            "00000000000000000000.logs",
        ] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_partition_is_after_the_last_dash() {
        let parsed = parse_partition_dir("my-topic-1-12").unwrap();
        assert_eq!((parsed.topic, parsed.partition, parsed.dir_use), ("my-topic-1", 12, DirUse::Live));
        for name in ["topic", "topic-", "-3", "topic-07", "topic-99999999999", "a b-1", "topic--x"] {
            assert_eq!(parse_partition_dir(name), None, "{name}");
        }
    }

    #[test]
    fn a_suffixed_folder_fits_a_name_and_is_read_back() {
        let topic = "t".repeat(249);
        for dir_use in [DirUse::Delete, DirUse::Future, DirUse::Stray] {
            let name = suffixed_partition_dir(&topic, 3, Uuid([0xab; 16]), dir_use);
            let parsed = parse_partition_dir(&name).unwrap();
            assert_eq!((name.len(), parsed.partition, parsed.dir_use), (255, 3, dir_use));
            assert!(topic.starts_with(parsed.topic));
        }
    }
}
