//! What a directory may hold besides the files of its segments, and what is done about it before a log is loaded.

use std::path::Path;

use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::names::{self, FileKind, FileName, Leftover};
use twinlog_proto::storage::partition_metadata;

use super::{SEGMENT_FILES, faults, files_of};
use crate::disk::files::{self, Listed};
use crate::fault::Fault;

/// The files that matter, found by one listing.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Base offsets and lengths of the `.log` files, ascending.
    pub(super) logs: Vec<(i64, u64)>,
    /// Offsets of the snapshots, ascending.
    pub(super) snapshots: Vec<i64>,
    /// There are index files.
    pub(super) indexes: bool,
    /// There is a file of leader epochs.
    pub(super) epochs: bool,
}

/// Lists the directory, and removes what a broker would remove: files waiting for deletion, unfinished copies, indexes
/// without a log.
pub(super) fn tidy(dir: &Path) -> Result<Found, Fault> {
    let listed = files::list(dir).map_err(|e| faults::files("list", dir, e))?;
    let mut found = Found::default();
    let remove = |name: &str| {
        let path = dir.join(name);
        files::remove(&path).map_err(|e| faults::files("remove", &path, e))
    };
    for Listed { name, bytes } in &listed {
        match names::parse_file_name(name) {
            Some(FileName { leftover: Some(Leftover::Swap), .. }) => return Err(half_compacted(dir, name)),
            Some(FileName { leftover: Some(_), .. }) => remove(name)?,
            Some(FileName { offset, kind: FileKind::Log, .. }) => found.logs.push((offset, *bytes)),
            Some(FileName { offset, kind: FileKind::Snapshot, .. }) => found.snapshots.push(offset),
            Some(_) => found.indexes = true,
            None if name == names::LEADER_EPOCHS => found.epochs = true,
            None if name.ends_with(names::TEMPORARY_SUFFIX) => remove(name)?,
            None => {}
        }
    }
    for Listed { name, .. } in &listed {
        let Some(FileName { offset, kind, leftover: None }) = names::parse_file_name(name) else {
            continue;
        };
        let is_index = !matches!(kind, FileKind::Log | FileKind::Snapshot);
        if is_index && !found.logs.iter().any(|(base, _)| *base == offset) {
            remove(name)?;
        }
    }
    Ok(found)
}

pub(super) fn half_compacted(dir: &Path, name: &str) -> Fault {
    let why = format!(
        "{name} is a half-finished compaction of a stock broker; start and stop that broker on this folder once, so that it \
         completes it"
    );
    faults::directory(dir, &why)
}

/// Notes the topic id in a directory that was just made.
pub(super) fn note_topic(dir: &Path, topic_id: Uuid) -> Result<(), Fault> {
    if topic_id.is_zero() {
        return Ok(());
    }
    let path = dir.join(names::PARTITION_METADATA);
    let text = partition_metadata::to_text(topic_id);
    files::write(&path, text.as_bytes()).map_err(|e| faults::files("write", &path, e))
}

/// Checks the topic id of the directory, and notes it in a directory that has none.
pub(super) fn check_topic(dir: &Path, wanted: Uuid) -> Result<(), Fault> {
    let path = dir.join(names::PARTITION_METADATA);
    let text = files::read(&path).map_err(|e| faults::files("read", &path, e))?;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return note_topic(dir, wanted);
    };
    let found = partition_metadata::parse(&text).map_err(|error| {
        faults::directory(&path, &format!("{error}; remove the file if the folder is this topic's"))
    })?;
    if wanted.is_zero() || found == wanted {
        return Ok(());
    }
    let why = format!(
        "the folder belongs to topic id {found}, not to {wanted}: the topic was deleted and created again; move the folder \
         away, or start the topic from scratch"
    );
    Err(faults::directory(dir, &why))
}

/// Removes every file of a segment, the `.log` last, so that a crash in between leaves no index without its log.
pub(super) fn remove_segment(dir: &Path, base: i64) -> Result<(), Fault> {
    for kind in SEGMENT_FILES.into_iter().rev() {
        let path = files_of(dir, base, kind);
        files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
    }
    Ok(())
}
