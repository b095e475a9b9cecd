//! The independent comparison: segment files, read by a reader of its own, against bytes computed from the seed or fetched again.

use std::fmt;
use std::io;
use std::path::Path;

use serde::Serialize;
use thiserror::Error;

use crate::source::batches::Batches;

pub mod again;
pub mod segments;

use again::Refetch;
use segments::{LocalBatch, LocalLog, LogError};

/// A comparison that could not be made.
#[derive(Debug, Error)]
pub enum CompareError {
    /// The files cannot be read.
    #[error("cannot compare: {0}")]
    Log(#[from] LogError),
    /// The source cannot be read again.
    #[error("cannot read the source again: {0}")]
    Source(#[from] io::Error),
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// Every byte is there, and nothing else.
    Identical {
        /// Batches compared.
        batches: u64,
        /// Bytes compared.
        bytes: u64,
    },
    /// Something differs.
    Different {
        /// What, and where.
        what: String,
    },
}

impl Verdict {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        matches!(self, Self::Identical { .. })
    }

    /// Of two parts together: the first difference, or the sums.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Identical { batches, bytes }, Self::Identical { batches: more, bytes: more_bytes }) => {
                Self::Identical { batches: batches + more, bytes: bytes + more_bytes }
            }
            (different @ Self::Different { .. }, _) | (_, different) => different,
        }
    }

    /// Nothing compared yet.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Identical { batches: 0, bytes: 0 }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identical { batches, bytes } => write!(f, "verdict: identical ({batches} batches, {bytes} bytes)"),
            Self::Different { what } => write!(f, "verdict: DIFFERENT {what}"),
        }
    }
}

/// Compares a partition's folder with the first `count` batches that the seed gives.
///
/// # Errors
/// When the files cannot be read; a file that is no log is a difference.
pub fn with_seed(dir: &Path, batches: &Batches, partition: u32, count: u64) -> Result<Verdict, CompareError> {
    let mut log = LocalLog::open(dir)?;
    let (mut local, mut expected, mut bytes) = (LocalBatch::default(), Vec::new(), 0);
    for index in 0..count {
        if let Some(what) = next(&mut log, &mut local, dir)? {
            return Ok(what);
        }
        if local.bytes.is_empty() {
            return Ok(different(dir, &format!("ends after {index} of {count} batches")));
        }
        expected.clear();
        batches.append_batch(partition, index, &mut expected);
        if local.bytes != expected {
            return Ok(differing(dir, &local, &expected));
        }
        bytes += expected.len() as u64;
    }
    if let Some(what) = next(&mut log, &mut local, dir)? {
        return Ok(what);
    }
    if !local.bytes.is_empty() {
        return Ok(different(dir, &format!("has more than the {count} batches of the source: {}", local.place())));
    }
    Ok(Verdict::Identical { batches: count, bytes })
}

/// Compares a partition's folder with what the source returns now, from its log start to the end of the folder's log, which must be
/// at `end` or beyond.
///
/// # Errors
/// When the files or the source cannot be read.
pub fn with_source(dir: &Path, source: &mut Refetch, end: i64) -> Result<Verdict, CompareError> {
    let mut log = LocalLog::open(dir)?;
    let (mut local, mut batches, mut bytes) = (LocalBatch::default(), 0, 0);
    let mut local_end = log.base_offset();
    if local_end > source.log_start() {
        return Ok(different(dir, &format!("begins at offset {local_end}, the source at {}", source.log_start())));
    }
    loop {
        if let Some(what) = next(&mut log, &mut local, dir)? {
            return Ok(what);
        }
        if local.bytes.is_empty() {
            break;
        }
        local_end = local.next_offset();
        if local_end <= source.log_start() {
            continue; // The source has forgotten it meanwhile.
        }
        let Some(theirs) = source.batch_at(local.base_offset())? else {
            return Ok(different(dir, &format!("has a batch beyond the source's end: {}", local.place())));
        };
        if local.bytes != theirs {
            return Ok(differing(dir, &local, theirs));
        }
        batches += 1;
        bytes += local.bytes.len() as u64;
    }
    if local_end < end {
        return Ok(different(dir, &format!("ends at offset {local_end}, the source at {end}")));
    }
    Ok(Verdict::Identical { batches, bytes })
}

/// Reads the next batch; a difference when the bytes are no batch.
fn next(log: &mut LocalLog, into: &mut LocalBatch, dir: &Path) -> Result<Option<Verdict>, CompareError> {
    match log.next_batch(into) {
        Ok(()) => Ok(None),
        Err(LogError::NotALog { what, .. }) => Ok(Some(different(dir, &what))),
        Err(cause) => Err(cause.into()),
    }
}

fn different(dir: &Path, what: &str) -> Verdict {
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    Verdict::Different { what: format!("{name} {what}") }
}

fn differing(dir: &Path, local: &LocalBatch, expected: &[u8]) -> Verdict {
    let at = local.bytes.iter().zip(expected).position(|(one, other)| one != other);
    let at = at.unwrap_or(local.bytes.len().min(expected.len()));
    let (ours, theirs) = (local.bytes.len(), expected.len());
    different(
        dir,
        &format!("{}: byte {at} of the batch differs ({ours} bytes here, {theirs} at the source)", local.place()),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::source::batches::Shape;
    use crate::source::broker::{Broker, Config};

    fn batches() -> Batches {
        Batches::new(Shape { seed: 9, batch_bytes: 300, record_bytes: 50, leader_epoch: 0 }).unwrap()
    }

    /// A partition folder of `counts` batches by segment.
    fn folder(counts: &[u64]) -> tempfile::TempDir {
        let (dir, batches, mut index) = (tempfile::tempdir().unwrap(), batches(), 0);
        for count in counts {
            let name = format!("{:020}.log", batches.base_offset(index));
            let mut bytes = Vec::new();
            for _ in 0..*count {
                batches.append_batch(4, index, &mut bytes);
                index += 1;
            }
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        fs::write(dir.path().join("partition.metadata"), "version: 0\n").unwrap();
        dir
    }

    fn verdict(dir: &tempfile::TempDir, count: u64) -> String {
        with_seed(dir.path(), &batches(), 4, count).unwrap().to_string()
    }

    #[test]
    fn segments_that_hold_the_seeds_batches_are_identical() {
        assert_eq!(verdict(&folder(&[3, 4]), 7), "verdict: identical (7 batches, 2100 bytes)");
        assert_eq!(verdict(&folder(&[0]), 0), "verdict: identical (0 batches, 0 bytes)");
    }

    #[test]
    fn a_missing_an_extra_a_swapped_and_a_flipped_batch_are_found() {
        assert!(verdict(&folder(&[3, 3]), 7).contains("ends after 6 of 7 batches"));
        assert!(verdict(&folder(&[3, 4]), 6).contains("more than the 6 batches"));
        let dir = folder(&[3]);
        let file = dir.path().join(format!("{:020}.log", 0));
        let good = fs::read(&file).unwrap();
        fs::write(&file, [&good[300..600], &good[..300], &good[600..]].concat()).unwrap();
        assert!(verdict(&dir, 3).contains("DIFFERENT"));
        let mut flipped = good.clone();
        flipped[450] ^= 1;
        fs::write(&file, flipped).unwrap();
        assert!(verdict(&dir, 3).contains("byte 150 of the batch differs"), "{}", verdict(&dir, 3));
        fs::write(&file, &good[..899]).unwrap();
        assert!(verdict(&dir, 3).contains("DIFFERENT"));
        fs::write(&file, [&good[..], &[0; 100]].concat()).unwrap();
        assert!(verdict(&dir, 3).contains("DIFFERENT"), "a file that was not cut to its length");
    }

    #[test]
    fn a_copy_that_begins_behind_its_source_is_no_copy() {
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            topic: "t".into(),
            topics: 1,
            topics_with_data: 1,
            partitions: 5,
            batches_each: 7,
            shape: *batches().shape(),
            core: None,
        };
        let source = Broker::start(config).unwrap();
        let remote = again::partitions(&source.address().to_string(), &[]).unwrap().swap_remove(4);
        let compare = |dir: &tempfile::TempDir| {
            let mut again = Refetch::new(remote.clone()).unwrap();
            with_source(dir.path(), &mut again, remote.end).unwrap().to_string()
        };
        let dir = folder(&[3, 4]);
        assert_eq!(compare(&dir), "verdict: identical (7 batches, 2100 bytes)");
        fs::remove_file(dir.path().join(format!("{:020}.log", 0))).unwrap();
        let said = compare(&dir);
        assert!(said.contains("DIFFERENT") && said.contains("begins at offset"), "{said}");
    }

    #[test]
    fn a_segment_under_a_wrong_name_is_found() {
        let dir = folder(&[2, 2]);
        let second = batches().base_offset(2);
        let path = |offset: i64| dir.path().join(format!("{offset:020}.log"));
        fs::rename(path(second), path(second + 1)).unwrap();
        assert!(verdict(&dir, 4).contains("DIFFERENT"));
    }
}
