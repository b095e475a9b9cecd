//! Segment files as they were when a partition was handed over, by which it is known later whether anybody changed what was mirrored.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use twinlog_proto::storage::names::{self, FileKind};

/// A `.log` file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// The offset that names it.
    pub base_offset: i64,
    /// Its length.
    pub bytes: u64,
    /// Its inode: a rename keeps it, a cleaner that writes the segment anew does not.
    pub inode: u64,
}

/// The segments in `directory`, by offset.
///
/// # Errors
/// As the file system says.
pub fn list(directory: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(file) = name.to_str().and_then(names::parse_file_name) else { continue };
        if file.kind == FileKind::Log && file.leftover.is_none() {
            let meta = match entry.metadata() {
                // A broker that runs has removed it.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            segments.push(Segment { base_offset: file.offset, bytes: meta.len(), inode: meta.ino() });
        }
    }
    segments.sort_by_key(|segment| segment.base_offset);
    Ok(segments)
}

/// What is left of the segments that were handed over, as far as they lie below `end`, where mirroring ended: the first offset that is
/// left, which is `end` when nothing is. Segments that retention removed from the beginning are no change.
///
/// # Errors
/// Which segment is another one than was handed over.
pub fn left(before: &[Segment], now: &[Segment], end: i64) -> Result<i64, String> {
    let below = |all: &[Segment]| -> Vec<Segment> { all.iter().copied().filter(|one| one.base_offset < end).collect() };
    let (before, now) = (below(before), below(now));
    let name = |segment: &Segment| names::file_name(segment.base_offset, FileKind::Log);
    let Some(first) = now.first() else { return Ok(end) };
    let kept: Vec<&Segment> = before.iter().filter(|one| one.base_offset >= first.base_offset).collect();
    for segment in &now {
        if !kept.iter().any(|one| one.base_offset == segment.base_offset) {
            return Err(format!("{} was not there when it was handed over", name(segment)));
        }
    }
    for (at, segment) in kept.iter().enumerate() {
        let Some(found) = now.iter().find(|one| one.base_offset == segment.base_offset) else {
            return Err(format!("{} is gone from the middle", name(segment)));
        };
        // Behind the last one the broker wrote on.
        let grows = at + 1 == kept.len() && found.bytes >= segment.bytes;
        if found.inode != segment.inode {
            return Err(format!("{} was written anew, as a cleaner does", name(segment)));
        }
        if found.bytes != segment.bytes && !grows {
            return Err(format!("{} has {} bytes, and had {}", name(segment), found.bytes, segment.bytes));
        }
    }
    Ok(first.base_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base_offset: i64, bytes: u64, inode: u64) -> Segment {
        Segment { base_offset, bytes, inode }
    }

    #[test]
    fn what_retention_removed_and_what_was_appended_is_no_change() {
        let before = [segment(0, 10, 1), segment(10, 10, 2), segment(20, 5, 3)];
        let same = |now: &[Segment]| left(&before, now, 25);
        assert_eq!(same(&before), Ok(0));
        assert_eq!(same(&[before[1], segment(20, 50, 3), segment(30, 9, 4)]), Ok(10));
        assert_eq!(same(&[segment(20, 5, 3)]), Ok(20));
        assert_eq!(same(&[segment(30, 9, 4)]), Ok(25));
        assert_eq!(same(&[]), Ok(25));
        assert_eq!(left(&[segment(0, 0, 1)], &[segment(0, 7, 1)], 0), Ok(0), "nothing was mirrored");
    }

    #[test]
    fn what_was_cleaned_merged_or_cut_is_named() {
        let before = [segment(0, 10, 1), segment(10, 10, 2), segment(20, 5, 3)];
        for (now, sign) in [
            (vec![segment(0, 10, 9), before[1], before[2]], "anew"),
            (vec![segment(0, 8, 1), before[1], before[2]], "8 bytes"),
            (vec![before[0], before[2]], "gone"),
            (vec![before[0], before[1], segment(20, 4, 3)], "4 bytes"),
            (vec![before[0], segment(5, 3, 8), before[1], before[2]], "not there"),
            (vec![before[0], before[1]], "gone"),
        ] {
            let why = left(&before, &now, 25).unwrap_err();
            assert!(why.contains(sign), "{why}");
        }
    }
}
