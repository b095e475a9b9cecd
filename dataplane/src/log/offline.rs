//! `finish | cut | check DIR`: work on the directory of a partition that no data plane serves.
//!
//! `finish` and `cut` open the log as after a crash, so every batch is read; `check` changes nothing.

use std::path::Path;

use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, DirUse, FileKind, FileName, PartitionDir};
use twinlog_proto::storage::offset_index::OffsetIndex;
use twinlog_proto::storage::partition_metadata;
use twinlog_proto::storage::producer_state::ProducerState;
use twinlog_proto::storage::time_index::{NO_TIMESTAMP, TimeIndex};
use twinlog_proto::storage::txn_index::{AbortedTxn, TxnIndex};

use super::scan::{Bounds, Found, Scan};
use super::{LogHome, LogProgress, LogRules, LogSpec, PartitionLog, faults, files_of};
use crate::disk::{Disk, files};
use crate::fault::Fault;

/// Recovers the log in `dir` and finishes it, so that a stock broker loads it under a clean marker.
pub async fn finish<D: Disk>(home: &LogHome<D>, dir: &Path, rules: LogRules) -> Result<LogProgress, Fault> {
    let mut log = open(home, dir, rules).await?;
    log.finish().await?;
    Ok(log.progress())
}

/// Cuts the log in `dir` so that it ends at `offset` (or at the start of the batch that holds it), and finishes it.
pub async fn cut<D: Disk>(home: &LogHome<D>, dir: &Path, rules: LogRules, offset: i64) -> Result<LogProgress, Fault> {
    let mut log = open(home, dir, rules).await?;
    log.cut(offset).await?;
    log.finish().await?;
    Ok(log.progress())
}

async fn open<D: Disk>(home: &LogHome<D>, dir: &Path, rules: LogRules) -> Result<PartitionLog<D>, Fault> {
    let absolute = std::path::absolute(dir).map_err(|e| faults::files("find", dir, e))?;
    let name = absolute.file_name().and_then(|name| name.to_str()).and_then(names::parse_partition_dir);
    let (Some(PartitionDir { topic, partition, dir_use: DirUse::Live }), Some(data_dir)) = (name, absolute.parent())
    else {
        return Err(faults::directory(dir, "not the folder of a partition; it must be called TOPIC-PARTITION"));
    };
    if !absolute.is_dir() {
        return Err(faults::directory(dir, "there is no such folder"));
    }
    let spec = LogSpec {
        token: 0,
        data_dir: data_dir.to_owned(),
        topic: topic.to_owned(),
        partition,
        topic_id: Uuid::ZERO,
        rules,
        recovery_point: 0,
        log_start: -1,
        alignment: None,
    };
    PartitionLog::open(home, spec).await
}

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments.
    pub segments: usize,
    /// Whole valid batches.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Base offset of the first segment.
    pub first_offset: i64,
    /// Offset after the last valid batch.
    pub end_offset: i64,
    /// What keeps a stock broker from loading the folder under a clean marker; each names its file.
    pub problems: Vec<String>,
}

/// Reads everything in `dir` and compares what is derived with what it is derived from. Changes nothing.
pub fn check(dir: &Path) -> Result<Checked, Fault> {
    let listed = files::list(dir).map_err(|e| faults::files("list", dir, e))?;
    let mut checked = Checked::default();
    let mut bases = Vec::new();
    for file in &listed {
        match names::parse_file_name(&file.name) {
            Some(FileName { leftover: Some(_), .. }) => checked.problem(&file.name, "is a leftover"),
            Some(FileName { offset, kind: FileKind::Log, .. }) => bases.push(offset),
            _ => {}
        }
    }
    checked.segments = bases.len();
    checked.first_offset = bases.first().copied().unwrap_or(0);
    let mut derived = Derived { epochs: LeaderEpochs::new(), producers: ProducerState::new() };
    let mut scan = Scan::new();
    for (i, base) in bases.iter().enumerate() {
        check_segment(dir, *base, bases.get(i + 1).copied(), &mut scan, &mut derived, &mut checked)?;
    }
    if bases.is_empty() {
        checked.problem(&names::file_name(0, FileKind::Log), "is missing: the folder has no segment");
    }
    check_rest(dir, &derived, &mut checked)?;
    Ok(checked)
}

impl Checked {
    fn problem(&mut self, name: &str, what: &str) {
        self.problems.push(format!("{name} {what}"));
    }
}

/// What follows from the batches so far.
struct Derived {
    epochs: LeaderEpochs,
    producers: ProducerState,
}

fn check_segment(
    dir: &Path,
    base: i64,
    next_base: Option<i64>,
    scan: &mut Scan,
    derived: &mut Derived,
    checked: &mut Checked,
) -> Result<(), Fault> {
    let path = files_of(dir, base, FileKind::Log);
    let name = names::file_name(base, FileKind::Log);
    if base < checked.end_offset {
        checked.problem(&name, "begins below the end of the segment before it");
    }
    let mut batches = Vec::new();
    let mut aborted = Vec::new();
    let scanned = scan.run_at_once(&path, Bounds { base, limit: i64::MAX }, |found| {
        batches.push(*found);
        derived.epochs.assign(found.header.leader_epoch, found.header.base_offset);
        aborted.extend(derived.producers.update(&found.header, found.marker));
    });
    let scanned = scanned.map_err(|e| faults::files("read", &path, e))?;
    if let Some(stopped) = &scanned.stopped {
        checked.problem(&name, &format!("holds no valid batch at byte {}: {stopped}", scanned.end));
    }
    if next_base.is_some_and(|next| next < scanned.next_offset) {
        checked.problem(&name, "goes on behind the start of the next segment");
    }
    checked.batches += batches.len() as u64;
    checked.bytes += scanned.end;
    checked.end_offset = scanned.next_offset;
    check_indexes(dir, base, &batches, &aborted, checked)
}

fn check_indexes(
    dir: &Path,
    base: i64,
    batches: &[Found],
    aborted: &[AbortedTxn],
    checked: &mut Checked,
) -> Result<(), Fault> {
    let read = |kind| {
        let path = files_of(dir, base, kind);
        files::read(&path).map_err(|e| faults::files("read", &path, e))
    };
    let name = |kind| names::file_name(base, kind);
    let kind = FileKind::OffsetIndex;
    match read(kind)?.as_deref().map(|bytes| OffsetIndex::parse(bytes, base)) {
        None => checked.problem(&name(kind), "is missing"),
        Some(Err(error)) => checked.problem(&name(kind), &error.to_string()),
        Some(Ok(index)) => {
            let wrong = index.iter().find(|entry| {
                let at = batches.binary_search_by_key(&u64::from(entry.position), |found| found.position);
                !at.is_ok_and(|at| batches[at].header.last_offset() == entry.offset)
            });
            if let Some(entry) = wrong {
                checked.problem(&name(kind), &format!("has an entry for offset {} that no batch has", entry.offset));
            }
        }
    }
    let kind = FileKind::TimeIndex;
    match read(kind)?.as_deref().map(|bytes| TimeIndex::parse(bytes, base)) {
        None => checked.problem(&name(kind), "is missing"),
        Some(Err(error)) => checked.problem(&name(kind), &error.to_string()),
        Some(Ok(index)) => {
            let largest = batches.iter().map(|found| found.header.max_timestamp).max().unwrap_or(NO_TIMESTAMP);
            if index.last().map_or(NO_TIMESTAMP, |entry| entry.timestamp) != largest.max(NO_TIMESTAMP) {
                checked.problem(&name(kind), "does not end with the segment's largest timestamp");
            }
        }
    }
    let kind = FileKind::TxnIndex;
    let bytes = read(kind)?.unwrap_or_default();
    let same = TxnIndex::parse(&bytes, base).is_ok_and(|index| index.iter().eq(aborted.iter().copied()));
    if !same || !bytes.len().is_multiple_of(twinlog_proto::storage::txn_index::ENTRY_BYTES) {
        checked.problem(&name(kind), "does not list the transactions that were aborted in the segment");
    }
    Ok(())
}

fn check_rest(dir: &Path, derived: &Derived, checked: &mut Checked) -> Result<(), Fault> {
    let read = |name: &str| {
        let path = dir.join(name);
        files::read(&path).map_err(|e| faults::files("read", &path, e))
    };
    match read(names::LEADER_EPOCHS)?.as_deref().map(LeaderEpochs::parse) {
        None => checked.problem(names::LEADER_EPOCHS, "is missing"),
        Some(Err(error)) => checked.problem(names::LEADER_EPOCHS, &error.to_string()),
        Some(Ok(epochs)) => {
            let wrong = derived.epochs.entries().iter().find(|entry| {
                let known = epochs.epoch_at(entry.start_offset);
                known.is_some_and(|epoch| epoch != entry.epoch)
            });
            if let Some(entry) = wrong {
                let what = format!("does not say that epoch {} wrote offset {}", entry.epoch, entry.start_offset);
                checked.problem(names::LEADER_EPOCHS, &what);
            }
        }
    }
    match read(names::PARTITION_METADATA)?.as_deref().map(partition_metadata::parse) {
        None => checked.problem(names::PARTITION_METADATA, "is missing"),
        Some(Err(error)) => checked.problem(names::PARTITION_METADATA, &error.to_string()),
        Some(Ok(_)) => {}
    }
    if checked.end_offset > 0 {
        let name = names::file_name(checked.end_offset, FileKind::Snapshot);
        match read(&name)?.as_deref().map(|bytes| ProducerState::load(bytes, None)) {
            None => checked.problem(&name, "is missing: the producers and open transactions at the log end"),
            Some(Err(error)) => checked.problem(&name, &error.to_string()),
            Some(Ok(state)) if state.open_txns() != derived.producers.open_txns() => {
                checked.problem(&name, "does not hold the open transactions at the log end");
            }
            Some(Ok(_)) => {}
        }
    }
    Ok(())
}
