//! Whether a node was started before: its metadata log has records then, and topics of its own would be lost.

use crate::handover::problem::Problem;
use crate::limits::METADATA_LOG_READ_BYTES_MAX;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use twinlog_proto::storage::kraft::batch::Batch;
use twinlog_proto::storage::kraft::records::MetadataRecord;
use twinlog_proto::storage::kraft::{FIRST_SNAPSHOT, METADATA_LOG, SNAPSHOT_SUFFIX};
use twinlog_proto::storage::names::{self, FileKind};

/// Topics that are named.
const SHOWN_MAX: usize = 5;

/// Refuses a metadata log with records, or with a snapshot of some.
pub(super) fn look(directory: &Path) -> Result<(), Problem> {
    let folder = directory.join(METADATA_LOG);
    let unreadable = |cause: io::Error| {
        let remedy = "run this as the user of the broker, or as root";
        Problem::new(format_args!("{} cannot be read", folder.display()), cause, remedy)
    };
    let Some(log) = contents(&folder).map_err(unreadable)? else { return Ok(()) };
    let topics = topics(&log).map_err(unreadable)?;
    let shown = topics[..topics.len().min(SHOWN_MAX)].join(", ");
    let of_its_own = match topics.len() {
        0 => String::new(),
        n if n > SHOWN_MAX => format!(" and has topics of its own: {shown} and {} more", n - SHOWN_MAX),
        _ => format!(" and has topics of its own: {shown}"),
    };
    Err(Problem::new(
        folder.display(),
        format_args!("the node was started before{of_its_own}"),
        "hand over to a node whose log.dirs are empty, or freshly formatted and never started",
    ))
}

/// The segments with records, the oldest first; none when the log is empty and has no snapshot but the first.
fn contents(folder: &Path) -> io::Result<Option<Vec<PathBuf>>> {
    let (mut segments, mut snapshots) = (Vec::new(), false);
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        snapshots |= name.ends_with(SNAPSHOT_SUFFIX) && name != FIRST_SNAPSHOT;
        let is_log = names::parse_file_name(&name).is_some_and(|found| found.kind == FileKind::Log);
        if is_log && entry.metadata()?.len() > 0 {
            segments.push(entry.path());
        }
    }
    segments.sort();
    Ok((snapshots || !segments.is_empty()).then_some(segments))
}

/// Names of topics that the log makes and does not remove, as far as it can be read within the bound: enough to tell a person.
fn topics(segments: &[PathBuf]) -> io::Result<Vec<String>> {
    let mut topics = BTreeMap::new();
    let mut left = METADATA_LOG_READ_BYTES_MAX;
    for segment in segments {
        let mut bytes = Vec::new();
        File::open(segment)?.take(left).read_to_end(&mut bytes)?;
        left -= bytes.len() as u64;
        let mut rest = &bytes[..];
        while let Ok(batch) = Batch::decode(rest) {
            for entry in batch.entries().map_while(Result::ok).filter(|entry| entry.key.is_none()) {
                match MetadataRecord::decode(entry.value) {
                    Ok(MetadataRecord::Topic(topic)) => drop(topics.insert(topic.topic_id, topic.name)),
                    Ok(MetadataRecord::RemoveTopic(removed)) => drop(topics.remove(&removed.topic_id)),
                    _ => {}
                }
            }
            rest = &rest[batch.header.size_bytes()..];
        }
    }
    let mut names: Vec<_> = topics.into_values().collect();
    names.sort();
    Ok(names)
}
