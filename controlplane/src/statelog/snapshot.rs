//! Compaction: the log replaced by one that holds what is still true.
//!
//! Offsets go on where they were, so a record keeps being newer than those before it. The new log is written aside,
//! synced and renamed: after a crash there is the old one or the new one. When the rename or the folder's sync fails,
//! nobody knows which one a crash would leave, so neither may be appended to.

use crate::files;
use crate::limits::{COMPACT_GROWTH, COMPACT_LOG_BYTES_MIN, SNAPSHOT_BATCH_BYTES};
use crate::statelog::batch::{self, KeyValue};
use crate::statelog::writer::{LogWriter, log_path};
use std::io;
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

/// Replaces the log in `state` by one with `records` from `next_offset` on, and gives its end.
///
/// # Errors
/// See [`NotCompacted`].
pub fn replace(state: &Path, next_offset: i64, now_ms: i64, records: &[KeyValue]) -> Result<LogWriter, NotCompacted> {
    let mut bytes = Vec::new();
    let mut offset = next_offset;
    let mut rest = records;
    while !rest.is_empty() {
        let mut size = 0;
        let fits = rest.iter().take_while(|record| {
            size += record.key.len() + record.value.as_ref().map_or(0, Vec::len);
            size <= SNAPSHOT_BATCH_BYTES
        });
        let (now, later) = rest.split_at(fits.count().max(1));
        batch::encode(&mut bytes, offset, now_ms, now);
        offset += now.len() as i64;
        rest = later;
    }
    let path = log_path(state);
    let file = files::write_aside(&path, &bytes).map_err(NotCompacted::OldStays)?;
    files::put_in_place(&path).map_err(NotCompacted::Unknown)?;
    Ok(LogWriter::new(file, offset, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statelog::{replay, writer};

    #[test]
    fn a_compacted_log_continues_the_offsets_and_takes_further_records() {
        let state = tempfile::tempdir().unwrap();
        let path = log_path(state.path());
        let record = |n: u8, bytes| KeyValue { key: vec![0, 2, n], value: Some(vec![n; bytes]) };
        let mut log = writer::open(state.path(), &replay::read(&path).unwrap()).unwrap();
        for n in 0..9 {
            log.append(1, &[record(n, 10)]).unwrap();
        }
        let kept = [record(7, SNAPSHOT_BATCH_BYTES + 1), record(8, SNAPSHOT_BATCH_BYTES / 2), record(9, 10)];
        let mut log = replace(state.path(), log.next_offset(), 2, &kept).unwrap();
        assert_eq!(log.append(3, &[record(1, 1)]).unwrap(), 12);
        let replayed = replay::read(&path).unwrap();
        let offsets: Vec<(i64, usize)> = replayed.batches.iter().map(|b| (b.base_offset, b.records.len())).collect();
        assert_eq!(offsets, [(9, 1), (10, 2), (12, 1)]);
        assert_eq!((replayed.next_offset, replayed.torn_bytes), (13, 0));
    }

    #[test]
    fn only_a_log_that_is_long_and_has_grown_is_compacted() {
        let min = COMPACT_LOG_BYTES_MIN;
        assert!(!is_due(min - 1, 0) && is_due(min, 100));
        assert!(!is_due(2 * min, min) && is_due(COMPACT_GROWTH * min, min));
    }
}
