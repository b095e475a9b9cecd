//! What lies behind an offset in a log that a broker wrote on, and whether the log is whole up to there. Changes nothing.
//!
//! Up to the offset the segment of the last mirrored batch is read with checksums; behind it headers alone are read, for all of that is
//! going to be thrown away.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES, MAGIC_V2};
use twinlog_proto::storage::names::{self, FileKind, FileName, Leftover};

use super::scan::{Bounds, Scan};
use super::{faults, files_of, leftovers};
use crate::disk::files;
use crate::fault::Fault;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Every segment with something behind the offset, by its base, with the file position at which that begins.
    pub segments: Vec<(i64, u64)>,
    /// Offset after the last whole batch.
    pub end: i64,
    /// Records behind the offset, control records not counted.
    pub records: i64,
    /// Bytes behind the offset, also of what is torn.
    pub bytes: u64,
    /// Leader epochs behind the offset.
    pub epochs: BTreeSet<i32>,
}

/// Looks at the log in `dir`, of which everything below `offset` is to stay; its last batch there is to have `epoch`, unless that is -1.
///
/// # Errors
/// When a file cannot be read, or what is to stay is not whole: named by file, with the remedy.
pub fn look(dir: &Path, offset: i64, epoch: i32) -> Result<Beyond, Fault> {
    let bases = bases(dir)?;
    let Some(first) = bases.first().copied() else {
        return Err(faults::directory(dir, "there is no segment in it; start the topic from scratch"));
    };
    let mut found = Beyond { end: first.max(offset), ..Beyond::default() };
    // The segment of the last batch that stays; none when the broker has removed all of them.
    let kept = bases.iter().rposition(|base| *base < offset);
    let mut position = 0;
    if let Some(at) = kept {
        let next_base = bases.get(at + 1).copied();
        position = verify(dir, bases[at], next_base, offset, epoch)?;
    }
    for base in &bases[kept.unwrap_or(0)..] {
        walk(dir, *base, position, &mut found)?;
        position = 0;
    }
    Ok(found)
}

fn bases(dir: &Path) -> Result<Vec<i64>, Fault> {
    let mut bases = Vec::new();
    for file in files::list(dir).map_err(|e| faults::files("list", dir, e))? {
        match names::parse_file_name(&file.name) {
            Some(FileName { leftover: Some(Leftover::Swap), .. }) => {
                return Err(leftovers::half_compacted(dir, &file.name));
            }
            Some(FileName { offset, kind: FileKind::Log, leftover: None }) => bases.push(offset),
            _ => {}
        }
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Reads a segment with checksums up to `offset`; gives the file position there.
fn verify(dir: &Path, base: i64, next_base: Option<i64>, offset: i64, epoch: i32) -> Result<u64, Fault> {
    let path = files_of(dir, base, FileKind::Log);
    let mut last = None;
    let scanned = Scan::new().run_at_once(&path, Bounds { base, limit: offset }, |found| last = Some(found.header));
    let scanned = scanned.map_err(|e| faults::files("read", &path, e))?;
    if scanned.next_offset != offset {
        let why = match (&scanned.stopped, next_base) {
            (Some(stopped), _) => stopped.to_string(),
            (None, Some(next_base)) if next_base <= offset => format!("offset {next_base} comes next"),
            (None, _) => "it ends there".to_owned(),
        };
        return Err(faults::damage(&path, scanned.next_offset, offset, &why));
    }
    match last.map(|header: BatchHeader| header.leader_epoch) {
        Some(found) if epoch >= 0 && found != epoch => {
            let why = format!("the last batch below {offset} has leader epoch {found}, and was mirrored with {epoch}");
            Err(faults::damage(&path, last.map_or(offset, |header| header.base_offset), offset, &why))
        }
        _ => Ok(scanned.end),
    }
}

/// Takes the headers of a segment from `position` on. What cannot be a batch is torn, and so is all that follows.
fn walk(dir: &Path, base: i64, mut position: u64, found: &mut Beyond) -> Result<(), Fault> {
    let path = files_of(dir, base, FileKind::Log);
    let failed = |e: io::Error| faults::files("read", &path, e);
    let length = files::length(&path).map_err(failed)?.unwrap_or(0);
    if length > position {
        found.segments.push((base, position));
        found.bytes += length - position;
    }
    while position < length {
        let mut bytes = [0; HEADER_BYTES];
        let read = files::Reading::open(&path, position).and_then(|mut reading| reading.next(&mut bytes));
        let header = BatchHeader::parse(&bytes);
        let size = header.size_bytes() as u64;
        let is_whole = read.map_err(failed)? == HEADER_BYTES
            && header.magic == MAGIC_V2
            && size >= HEADER_BYTES as u64
            && position + size <= length
            && header.base_offset >= found.end
            && header.last_offset_delta >= 0;
        if !is_whole {
            break;
        }
        if !header.is_control() {
            found.records += i64::from(header.record_count.max(0));
        }
        found.epochs.insert(header.leader_epoch);
        found.end = header.next_offset();
        position += size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use twinlog_proto::records::plain;

    const END: i64 = 1155;

    fn golden() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden/log-4.2/golden-0");
        let dir = scratch.path().join("golden-0");
        fs::create_dir(&dir).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
        }
        (scratch, dir)
    }

    fn append(path: &Path, offsets: &[i64], epoch: i32) -> u64 {
        let mut bytes = fs::read(path).unwrap_or_default();
        let before = bytes.len();
        for offset in offsets {
            plain::encode(&mut bytes, plain::header(*offset, epoch, 0, 1000), [(Some(&b"k"[..]), None)]);
        }
        fs::write(path, &bytes).unwrap();
        (bytes.len() - before) as u64
    }

    #[test]
    fn what_a_broker_wrote_is_counted_also_over_segments_and_up_to_a_torn_batch() {
        let (_scratch, dir) = golden();
        assert_eq!(look(&dir, END, -1).unwrap(), Beyond { end: END, ..Beyond::default() });
        let active = files_of(&dir, 1109, FileKind::Log);
        let position = fs::metadata(&active).unwrap().len();
        let first = append(&active, &[END, END + 1], 52);
        let next = files_of(&dir, END + 2, FileKind::Log);
        let second = append(&next, &[END + 2], 54);
        let mut torn = fs::read(&next).unwrap();
        torn.extend([0; 40]);
        fs::write(&next, torn).unwrap();
        let wanted = Beyond {
            segments: vec![(1109, position), (END + 2, 0)],
            end: END + 3,
            records: 3,
            bytes: first + second + 40,
            epochs: [52, 54].into(),
        };
        assert_eq!(look(&dir, END, -1).unwrap(), wanted);
    }

    #[test]
    fn what_is_not_whole_below_the_offset_is_refused_by_file() {
        let (_scratch, dir) = golden();
        let path = files_of(&dir, 1109, FileKind::Log);
        let refused = |offset, epoch| look(&dir, offset, epoch).unwrap_err().to_string();
        assert!(refused(END, 4_000).contains("4000"), "{}", refused(END, 4_000));
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(refused(END, -1).contains("00001109.log is damaged"), "{}", refused(END, -1));
        let mut flipped = whole;
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&path, flipped).unwrap();
        assert!(refused(END, -1).contains("from scratch"), "{}", refused(END, -1));
    }
}
