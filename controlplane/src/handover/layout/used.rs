//! The metadata log of a node that was started before: read to its end, as the node itself would.

use super::former::Former;
use super::{read_bounded, unreadable};
use crate::handover::problem::Problem;
use crate::limits::METADATA_LOG_READ_BYTES_MAX;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use twinlog_proto::error::DecodeError;
use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES};
use twinlog_proto::storage::kraft::batch::Batch;
use twinlog_proto::storage::kraft::snapshot::Snapshot;
use twinlog_proto::storage::kraft::{FIRST_SNAPSHOT, SNAPSHOT_SUFFIX};
use twinlog_proto::storage::names::{self, FileKind};

const ANEW: &str = "hand over to a node whose log.dirs are empty, or freshly formatted and never started";

/// What the metadata in `folder` held; none when it has no records, and no snapshot but the first.
///
/// # Errors
/// When it cannot be read to its end.
pub(in crate::handover) fn read(folder: &Path) -> Result<Option<Former>, Problem> {
    let Contents { segments, snapshots } = contents(folder).map_err(|cause| unreadable(folder, &cause))?;
    let later = snapshots.iter().any(|path| !path.ends_with(FIRST_SNAPSHOT));
    if segments.is_empty() && !later {
        return Ok(None);
    }
    let mut former = Former::default();
    let mut from = 0;
    if let Some(path) = snapshots.last() {
        let bytes = read_bounded(path).map_err(|cause| unreadable(path, &cause))?.unwrap_or_default();
        let snapshot = Snapshot::read(&bytes).map_err(|cause| Problem::new(path.display(), cause, ANEW))?;
        former.snapshot(&snapshot).map_err(|cause| Problem::new(path.display(), cause, ANEW))?;
        from = offset_of(path);
    }
    let mut left = METADATA_LOG_READ_BYTES_MAX;
    for (at, (base, path)) in segments.iter().enumerate() {
        if segments.get(at + 1).is_some_and(|(next, _)| *next <= from) {
            continue;
        }
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(left + 1).read_to_end(&mut bytes));
        read.map_err(|cause| unreadable(path, &cause))?;
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let why = format!("there are more than {METADATA_LOG_READ_BYTES_MAX} bytes behind the last snapshot");
            Problem::new(folder.display(), why, ANEW)
        })?;
        let is_last = at + 1 == segments.len();
        log(&mut former, &bytes, from, is_last)
            .map_err(|cause| Problem::new(path.display(), format_args!("{cause} (segment {base})"), ANEW))?;
    }
    Ok(Some(former))
}

/// Takes the batches of a segment from offset `from` on. What follows the last whole one of the last segment is torn.
fn log(former: &mut Former, bytes: &[u8], from: i64, is_last: bool) -> Result<(), DecodeError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let batch = match Batch::decode(rest) {
            Ok(batch) => batch,
            Err(_torn) if is_last && is_cut_off(rest) => return Ok(()),
            Err(cause) => return Err(cause),
        };
        for entry in batch.entries().filter(|_| batch.header.base_offset >= from) {
            let entry = entry?;
            match entry.key {
                Some(key) => former.control(key, entry.value),
                None => former.take(entry.value)?,
            }
        }
        rest = &rest[batch.header.size_bytes()..];
    }
    Ok(())
}

/// Whether a batch begins there that is not whole; a whole one that is wrong is damage.
fn is_cut_off(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return true };
    bytes.iter().all(|byte| *byte == 0) || BatchHeader::parse(header).size_bytes() > bytes.len()
}

#[derive(Default)]
struct Contents {
    /// Segments with records, by base offset.
    segments: Vec<(i64, PathBuf)>,
    /// Snapshots, the oldest first.
    snapshots: Vec<PathBuf>,
}

fn contents(folder: &Path) -> io::Result<Contents> {
    let mut found = Contents::default();
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(SNAPSHOT_SUFFIX) {
            found.snapshots.push(entry.path());
        }
        let log = names::parse_file_name(&name).filter(|file| file.kind == FileKind::Log && file.leftover.is_none());
        if let Some(log) = log
            && entry.metadata()?.len() > 0
        {
            found.segments.push((log.offset, entry.path()));
        }
    }
    found.segments.sort();
    found.snapshots.sort();
    Ok(found)
}

/// The offset up to which a snapshot goes, which is the first part of its name.
fn offset_of(path: &Path) -> i64 {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('-').next().and_then(|offset| offset.parse().ok()).unwrap_or(0)
}
