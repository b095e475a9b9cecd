//! What a finished copy must look like, topic by topic: the same bytes, sound side files, the checkpoints of a stock follower.

use crate::kafka::{Broker, dump_complaints, dump_log};
use crate::kafka_log::{Equal, Log, compare, epoch_file, offset_file, topic_id};
use crate::oracle::Oracle;
use crate::standby::Expected;
use std::path::{Path, PathBuf};

/// A partition of the source as its clients see it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Topic.
    pub topic: String,
    /// Partition index.
    pub partition: i32,
    /// Log start offset.
    pub start: i64,
    /// High watermark.
    pub end: i64,
}

impl Extent {
    /// Folder name.
    #[must_use]
    pub fn folder(&self) -> String {
        format!("{}-{}", self.topic, self.partition)
    }
}

/// The extents of all partitions of `topics`.
#[must_use]
pub fn extents(oracle: &mut Oracle, boot: &str, topics: &[&str]) -> Vec<Extent> {
    let mut out = Vec::new();
    for topic in topics {
        for (partition, (start, end, _)) in (0..).zip(oracle.offsets(boot, topic)) {
            out.push(Extent { topic: (*topic).to_owned(), partition, start, end });
        }
    }
    out
}

/// Compares every partition's folder in `data` with the source's, byte for byte from log start to high watermark, and holds the copy to
/// have nothing beyond.
///
/// # Errors
/// The first difference.
pub fn same_bytes(source: &Broker, data: &Path, extents: &[Extent]) -> Result<Equal, String> {
    let mut all = Equal::default();
    for extent in extents {
        let theirs = Log::read(&source.partition_dir(&extent.topic, extent.partition))?;
        let ours = Log::read(&data.join(extent.folder()))?;
        let equal = compare(&theirs, &ours, extent.start, extent.end).map_err(|why| format!("{extent:?}: {why}"))?;
        if ours.end() != extent.end {
            return Err(format!("{extent:?}: the copy ends at {}", ours.end()));
        }
        all.batches += equal.batches;
        all.bytes += equal.bytes;
    }
    Ok(all)
}

/// Checks what lies beside the segments of cleanly closed folders: indexes, snapshots (one at the log end), epoch history, topic id, no
/// bytes behind the last batch, and the checkpoints of the log folder.
///
/// # Errors
/// Everything that is wrong, a line each.
pub fn sound_folders(data: &Path, extents: &[Extent], topics: &[Expected]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for extent in extents {
        let id = topics.iter().find(|t| t.name == extent.topic).map(|t| t.id.as_str());
        if let Err(why) = sound_folder(&data.join(extent.folder()), extent, id) {
            wrong.push(format!("{}: {why}", extent.folder()));
        }
    }
    for (file, of) in
        [("replication-offset-checkpoint", "high watermark"), ("recovery-point-offset-checkpoint", "recovery point")]
    {
        match offset_file(data, file) {
            Ok(found) => {
                let off = extents.iter().filter(|e| found.get(&e.folder()) != Some(&e.end));
                wrong.extend(off.map(|e| format!("{file}: {} is {:?} for {e:?}", of, found.get(&e.folder()))));
            }
            Err(why) => wrong.push(why),
        }
    }
    wrong.extend(log_starts(data, extents).err());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A stock broker writes the log starts that stand above their first segment's base, and no others.
fn log_starts(data: &Path, extents: &[Extent]) -> Result<(), String> {
    let found = offset_file(data, "log-start-offset-checkpoint")?;
    for extent in extents {
        let base = Log::read(&data.join(extent.folder()))?.segments.first().map_or(0, |s| s.base);
        let wanted = (extent.start > base).then_some(extent.start);
        let written = found.get(&extent.folder()).copied();
        if written != wanted {
            return Err(format!(
                "log-start-offset-checkpoint: {written:?} for {extent:?} whose first segment is {base}, wanted {wanted:?}"
            ));
        }
    }
    Ok(())
}

fn sound_folder(dir: &Path, extent: &Extent, id: Option<&str>) -> Result<(), String> {
    let log = Log::read(dir)?;
    log.check_side_files()?;
    if let Some(torn) = log.segments.iter().find(|s| s.trailing_bytes > 0) {
        return Err(format!("{}: {} bytes behind the last batch", torn.path.display(), torn.trailing_bytes));
    }
    if id.is_some_and(|id| topic_id(dir).as_deref() != Ok(id)) {
        return Err(format!("topic id {:?}, wanted {id:?}", topic_id(dir)));
    }
    let mut epochs: Vec<(i32, i64)> = Vec::new();
    for batch in log.batches().filter(|b| b.last >= extent.start) {
        if epochs.last().is_none_or(|last| last.0 != batch.epoch) {
            epochs.push((batch.epoch, batch.base.max(extent.start)));
        }
    }
    let has_batches = !epochs.is_empty();
    let written =
        if has_batches || dir.join("leader-epoch-checkpoint").exists() { epoch_file(dir)? } else { Vec::new() };
    if has_batches && written != epochs {
        return Err(format!("leader-epoch-checkpoint {written:?}, the batches say {epochs:?}"));
    }
    let snapshot = dir.join(format!("{:020}.snapshot", extent.end));
    if has_batches && !snapshot.exists() {
        return Err(format!("{} is missing", snapshot.display()));
    }
    Ok(())
}

/// Runs `kafka-dump-log` over every segment, index and snapshot of the folders: deep iteration, entries checked against the log.
///
/// # Errors
/// Its complaints.
pub fn accepted_by_dump_log(data: &Path, extents: &[Extent]) -> Result<(), String> {
    let mut files = Vec::new();
    for extent in extents {
        let dir = data.join(extent.folder());
        let names = std::fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?.flatten().map(|e| e.path());
        let known = |p: &PathBuf| {
            ["log", "index", "timeindex", "txnindex", "snapshot"].iter().any(|x| p.extension().is_some_and(|e| e == *x))
        };
        files.extend(names.filter(known));
    }
    files.sort();
    let indexes: Vec<_> =
        files.iter().filter(|f| f.extension().is_some_and(|e| e == "index" || e == "timeindex")).cloned().collect();
    let mut complaints = dump_complaints(&dump_log(&files, &["--deep-iteration"]));
    complaints.extend(dump_complaints(&dump_log(&indexes, &["--index-sanity-check"])));
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}
