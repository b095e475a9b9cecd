//! The epoch of a broker's registration, which the controller wants to hear from whoever asks in the broker's name. It stands in the
//! metadata log, of which every node has a copy.

use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::storage::kraft::SNAPSHOT_SUFFIX;
use twinlog_proto::storage::kraft::batch::Batch;
use twinlog_proto::storage::kraft::records::MetadataRecord;
use twinlog_proto::storage::kraft::snapshot::Snapshot;

/// Type of the record that a broker's registration makes.
const REGISTER_BROKER: u32 = 0;
/// From this version on a flag stands between the broker's id and the id of its incarnation.
const FLAG_FROM: u32 = 2;
/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The epoch of the last registration of broker `id`.
///
/// # Errors
/// Why it is not known.
pub(super) fn epoch(metadata_log: &Path, id: i32) -> Result<i64, String> {
    let wrong = |path: &Path, cause: &dyn std::fmt::Display| format!("{}: {cause}", path.display());
    let listed = fs::read_dir(metadata_log).map_err(|cause| wrong(metadata_log, &cause))?;
    let mut files: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    // The newest first; names begin with offsets.
    files.sort_unstable_by(|a, b| b.cmp(a));
    let ends_with = |path: &PathBuf, suffix: &str| path.to_string_lossy().ends_with(suffix);
    let logs = files.iter().filter(|path| ends_with(path, ".log"));
    for path in logs.chain(files.iter().filter(|path| ends_with(path, SNAPSHOT_SUFFIX))) {
        if fs::metadata(path).map_err(|cause| wrong(path, &cause))?.len() > FILE_BYTES_MAX {
            continue;
        }
        let bytes = fs::read(path).map_err(|cause| wrong(path, &cause))?;
        let found = if ends_with(path, ".log") { in_log(&bytes, id) } else { in_snapshot(&bytes, id) };
        if let Some(epoch) = found {
            return Ok(epoch);
        }
    }
    Err(wrong(metadata_log, &format_args!("it holds no registration of broker {id}")))
}

fn in_log(bytes: &[u8], id: i32) -> Option<i64> {
    let (mut rest, mut last) = (bytes, None);
    while let Ok(batch) = Batch::decode(rest) {
        if !batch.header.is_control() {
            let epochs = batch.entries().flatten().filter_map(|entry| of_record(entry.value, id));
            last = epochs.last().or(last);
        }
        rest = &rest[batch.header.size_bytes()..];
    }
    last
}

fn in_snapshot(bytes: &[u8], id: i32) -> Option<i64> {
    Snapshot::read(bytes).ok()?.values().filter_map(|value| of_record(value, id)).last()
}

fn of_record(value: &[u8], id: i32) -> Option<i64> {
    let Ok(MetadataRecord::Other { kind: REGISTER_BROKER, version, body }) = MetadataRecord::decode(value) else {
        return None;
    };
    let broker = i32::from_be_bytes(body.get(..4)?.try_into().ok()?);
    let at = 4 + usize::from(version >= FLAG_FROM) + 16;
    let epoch = i64::from_be_bytes(body.get(at..at + 8)?.try_into().ok()?);
    (broker == id).then_some(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 4.4.0 and 4.0.2 wrote, cut behind the epoch; and a controller's registration, whose layout is another one.
    #[test]
    fn the_epoch_stands_behind_the_incarnation_of_a_brokers_registration() {
        let value = |kind: u8, version: u8, head: &[u8]| {
            let epoch = 33_i64.to_be_bytes();
            [&[1, kind, version][..], &1_i32.to_be_bytes(), head, &[7; 16], &epoch, &[1, 1]].concat()
        };
        for version in [2, 3, 4] {
            assert_eq!(of_record(&value(0, version, &[0]), 1), Some(33));
            assert_eq!(of_record(&value(0, version, &[0]), 2), None, "another broker");
        }
        assert_eq!(of_record(&value(0, 1, &[]), 1), Some(33), "before there was a flag");
        assert_eq!(of_record(&value(27, 0, &[0]), 1), None);
        assert_eq!(of_record(&value(0, 4, &[0])[..20], 1), None, "cut off");
    }
}
