//! Compaction: the log replaced by one that holds what is still true.
//!
//! Offsets go on where they were, so a record keeps being newer than those before it. The new log is written aside,
//! synced and renamed: after a crash there is the old one or the new one. When the rename or the folder's sync fails,
//! nobody knows which one a crash would leave, so neither may be appended to.

use crate::files;
use crate::limits::{COMPACT_GROWTH, COMPACT_LOG_BYTES_MIN, SNAPSHOT_BATCH_BYTES, SNAPSHOT_FACTS};
use crate::mirror::catalog::StateRecord;
use crate::statelog::batch::{self, KeyValue};
use crate::statelog::record;
use crate::statelog::writer::{LogWriter, log_path};
use crate::steps::{self, Step};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Why the log was not compacted.
#[derive(Debug, thiserror::Error)]
pub enum NotCompacted {
    /// The new log could not be written; the old one stays in use.
    #[error("the new log could not be written: {0}")]
    OldStays(#[source] io::Error),
    /// The new log could not be put in the old one's place for sure.
    #[error("the new log could not be put in place: {0}")]
    Unknown(#[source] io::Error),
}

/// Whether a log of `size_bytes` that had `compacted_bytes` after its last compaction is long enough for another.
#[must_use]
pub fn is_due(size_bytes: u64, compacted_bytes: u64) -> bool {
    size_bytes >= COMPACT_LOG_BYTES_MIN && size_bytes >= compacted_bytes.saturating_mul(COMPACT_GROWTH)
}

/// Replaces the log in `state` by one with `facts` from `next_offset` on, and gives its end. Memory holds a few of the facts
/// at a time.
///
/// # Errors
/// See [`NotCompacted`].
pub fn replace(
    state: &Path,
    next_offset: i64,
    now_ms: i64,
    facts: impl Iterator<Item = StateRecord>,
) -> Result<LogWriter, NotCompacted> {
    let path = log_path(state);
    let (file, offset, size_bytes) = write_aside(&path, next_offset, now_ms, facts).map_err(|cause| {
        files::remove_aside(&path);
        NotCompacted::OldStays(cause)
    })?;
    steps::passed(Step::SnapshotAside);
    files::put_in_place(&path, Step::SnapshotRenamed).map_err(NotCompacted::Unknown)?;
    steps::passed(Step::SnapshotDurable);
    Ok(LogWriter::new(file, offset, size_bytes))
}

fn write_aside(
    path: &Path,
    next_offset: i64,
    now_ms: i64,
    mut facts: impl Iterator<Item = StateRecord>,
) -> io::Result<(File, i64, u64)> {
    let file = files::create_aside(path)?;
    let (mut offset, mut size_bytes, mut bytes) = (next_offset, 0, Vec::new());
    loop {
        let some: Vec<StateRecord> = facts.by_ref().take(SNAPSHOT_FACTS).collect();
        if some.is_empty() {
            break;
        }
        let records = record::encode_all(&some);
        bytes.clear();
        for records in batches(&records) {
            batch::encode(&mut bytes, offset, now_ms, records);
            offset += records.len() as i64;
        }
        (&file).write_all(&bytes)?;
        size_bytes += bytes.len() as u64;
    }
    file.sync_all()?;
    Ok((file, offset, size_bytes))
}

/// Groups of records, each of which fits a batch of a snapshot; a larger record is a group of its own.
fn batches(mut rest: &[KeyValue]) -> impl Iterator<Item = &[KeyValue]> {
    std::iter::from_fn(move || {
        let mut size = 0;
        let fits = rest.iter().take_while(|record| {
            size += record.key.len() + record.value.as_ref().map_or(0, Vec::len);
            size <= SNAPSHOT_BATCH_BYTES
        });
        let (now, later) = rest.split_at(fits.count().max(1).min(rest.len()));
        rest = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statelog::replay::tests::counted;
    use crate::statelog::{replay::Replayed, writer};

    fn unknown(n: u8, bytes: usize) -> KeyValue {
        KeyValue { key: vec![0x30, 2, n], value: Some(vec![n; bytes]) }
    }

    fn replayed(state: &Path) -> (Replayed, Vec<(i64, usize)>) {
        counted(&File::open(log_path(state)).unwrap()).unwrap()
    }

    #[test]
    fn a_compacted_log_continues_the_offsets_and_takes_further_records() {
        let state = tempfile::tempdir().unwrap();
        let mut log = writer::open(state.path(), &Replayed::default()).unwrap();
        for n in 0..9 {
            log.append(1, &[unknown(n, 10)]).unwrap();
        }
        let kept = [unknown(7, SNAPSHOT_BATCH_BYTES + 1), unknown(8, SNAPSHOT_BATCH_BYTES / 2), unknown(9, 10)];
        let facts = kept.map(StateRecord::Foreign).into_iter();
        let mut log = replace(state.path(), log.next_offset(), 2, facts).unwrap();
        assert_eq!(log.append(3, &[unknown(1, 1)]).unwrap(), 12);
        let (replayed, batches) = replayed(state.path());
        assert_eq!(batches, [(9, 1), (10, 2), (12, 1)]);
        assert_eq!((replayed.next_offset, replayed.torn_bytes), (13, 0));
        assert_eq!(replayed.size_bytes, log.size_bytes());
    }

    #[test]
    fn a_snapshot_of_many_facts_and_one_of_none_are_whole() {
        let state = tempfile::tempdir().unwrap();
        drop(writer::open(state.path(), &Replayed::default()).unwrap());
        let many = 3 * SNAPSHOT_FACTS + 1;
        let fact = |n: usize| KeyValue { key: [&[0x30], &n.to_be_bytes()[..]].concat(), value: Some(vec![1; 100]) };
        let log = replace(state.path(), 5, 2, (0..many).map(|n| StateRecord::Foreign(fact(n)))).unwrap();
        let (found, _) = replayed(state.path());
        assert_eq!((found.records, found.next_offset), (many as u64, log.next_offset()));
        let log = replace(state.path(), log.next_offset(), 2, std::iter::empty()).unwrap();
        assert_eq!((replayed(state.path()).0.records, log.size_bytes()), (0, 0));
    }

    #[test]
    fn only_a_log_that_is_long_and_has_grown_is_compacted() {
        let min = COMPACT_LOG_BYTES_MIN;
        assert!(!is_due(min - 1, 0) && is_due(min, 100));
        assert!(!is_due(2 * min, min) && is_due(COMPACT_GROWTH * min, min));
    }
}
