//! What lies behind an offset in a log that a broker wrote on, and whether the log is whole up to there. Changes nothing.
//!
//! Up to the offset the segment of the last mirrored batch is read with checksums, and those before it as far as they may be torn; behind
//! it headers alone are read, for all of that is going to be thrown away.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES, MAGIC_V2};
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, FileKind, FileName, Leftover};

use super::scan::{Bounds, Scan, Scanned, Stopped};
use super::{NO_EPOCH, faults, files_of, leftovers};
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

/// Up to where the log in `dir` is what another side has, which has it up to `offset` with a last batch of `epoch`: that offset, or a lower
/// one with the epoch of the batch before it. Lower when the log ends earlier, and when `epoch` ended earlier in this log than there.
///
/// # Errors
/// When a file cannot be read, is damaged, or the last offset that both have cannot be told: named by file, with the remedy.
pub fn common(dir: &Path, offset: i64, epoch: i32) -> Result<(i64, i32), Fault> {
    let bases = bases(dir)?;
    let Some(at) = bases.iter().rposition(|base| *base < offset) else { return Ok((offset, NO_EPOCH)) };
    let path = files_of(dir, bases[at], FileKind::Log);
    let (scanned, last) = scan(&path, Bounds { base: bases[at], limit: offset })?;
    let epochs = dir.join(names::LEADER_EPOCHS);
    let history = files::read(&epochs).map_err(|e| faults::files("read", &epochs, e))?;
    let history = history.and_then(|text| LeaderEpochs::parse(&text).ok()).unwrap_or_default();
    let end = scanned.next_offset;
    let found = last.map(|header| header.leader_epoch).or_else(|| history.epoch_at(end - 1)).unwrap_or(NO_EPOCH);
    if end == offset && found == epoch {
        return Ok((offset, epoch));
    }
    let is_end = at + 1 == bases.len() && scanned.stopped != Some(Stopped::Limit);
    if is_end && end < offset && found <= epoch {
        return Ok((end, found));
    }
    if end < offset && scanned.stopped != Some(Stopped::Limit) && found <= epoch {
        return Err(not_reached(&path, &scanned, bases.get(at + 1).copied(), offset));
    }
    let known = history.entries().iter().position(|entry| entry.epoch == epoch);
    match known.and_then(|at| history.entries().get(at + 1)) {
        Some(next) if next.start_offset < offset => Ok((next.start_offset, epoch)),
        _ => Err(faults::directory(
            dir,
            &format!(
                "the two sides have parted: the batch before offset {offset} was mirrored with leader epoch {epoch}, and here it has \
                 {found}, and nothing says where the two were the same last; leave the topic out, and mirror it from scratch"
            ),
        )),
    }
}

/// Looks at the log in `dir`, of which everything below `offset` is to stay; its last batch there is to have `epoch`, unless that is -1.
/// From `from` on it may be torn; -1 when it was closed in order.
///
/// # Errors
/// When a file cannot be read, or what is to stay is not whole: named by file, with the remedy.
pub fn look(dir: &Path, offset: i64, epoch: i32, from: i64) -> Result<Beyond, Fault> {
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
        whole(dir, &bases[..=at], from)?;
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

/// Reads the segments from the one that holds `from` to the last but one with checksums.
fn whole(dir: &Path, bases: &[i64], from: i64) -> Result<(), Fault> {
    let first = match from {
        ..0 => return Ok(()),
        from => bases.iter().rposition(|base| *base <= from).unwrap_or(0),
    };
    for (at, base) in bases.iter().enumerate().take(bases.len() - 1).skip(first) {
        let path = files_of(dir, *base, FileKind::Log);
        let (scanned, _) = scan(&path, Bounds { base: *base, limit: i64::MAX })?;
        if scanned.stopped.is_some() || scanned.next_offset > bases[at + 1] {
            return Err(not_reached(&path, &scanned, None, bases[at + 1]));
        }
    }
    Ok(())
}

/// Walks a segment; gives its last batch too.
fn scan(path: &Path, bounds: Bounds) -> Result<(Scanned, Option<BatchHeader>), Fault> {
    let mut last = None;
    let scanned = Scan::new().run_at_once(path, bounds, |found| last = Some(found.header));
    Ok((scanned.map_err(|e| faults::files("read", path, e))?, last))
}

/// The walk of a segment ended before `offset`.
fn not_reached(path: &Path, scanned: &Scanned, next_base: Option<i64>, offset: i64) -> Fault {
    let why = match (&scanned.stopped, next_base) {
        (Some(stopped), _) => stopped.to_string(),
        (None, Some(next_base)) if next_base <= offset => format!("offset {next_base} comes next"),
        (None, _) => "it ends there".to_owned(),
    };
    faults::damage(path, scanned.next_offset, offset, &why)
}

/// Reads a segment with checksums up to `offset`; gives the file position there.
fn verify(dir: &Path, base: i64, next_base: Option<i64>, offset: i64, epoch: i32) -> Result<u64, Fault> {
    let path = files_of(dir, base, FileKind::Log);
    let (scanned, last) = scan(&path, Bounds { base, limit: offset })?;
    if scanned.next_offset != offset {
        return Err(not_reached(&path, &scanned, next_base, offset));
    }
    match last.map(|header| header.leader_epoch) {
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
        assert_eq!(look(&dir, END, -1, -1).unwrap(), Beyond { end: END, ..Beyond::default() });
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
        assert_eq!(look(&dir, END, -1, -1).unwrap(), wanted);
    }

    #[test]
    fn what_is_not_whole_below_the_offset_is_refused_by_file() {
        let (_scratch, dir) = golden();
        let path = files_of(&dir, 1109, FileKind::Log);
        let refused = |offset, epoch| look(&dir, offset, epoch, -1).unwrap_err().to_string();
        assert!(refused(END, 4_000).contains("4000"), "{}", refused(END, 4_000));
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(refused(END, -1).contains("00001109.log is damaged"), "{}", refused(END, -1));
        let mut flipped = whole;
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&path, flipped).unwrap();
        assert!(refused(END, -1).contains("from scratch"), "{}", refused(END, -1));
    }

    /// A log of batches at these offsets and epochs, rolled before each offset in `rolls`, with the epoch history of its batches.
    fn log(batches: &[(i64, i32)], rolls: &[i64]) -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("t-0");
        fs::create_dir(&dir).unwrap();
        let mut epochs = LeaderEpochs::new();
        let mut base = batches[0].0;
        for (offset, epoch) in batches {
            base = if rolls.contains(offset) { *offset } else { base };
            append(&files_of(&dir, base, FileKind::Log), &[*offset], *epoch);
            epochs.assign(*epoch, *offset);
        }
        fs::write(dir.join(names::LEADER_EPOCHS), epochs.to_text()).unwrap();
        (scratch, dir)
    }

    #[test]
    fn the_last_offset_of_both_sides_is_found_by_offset_and_epoch_or_not_at_all() {
        let batches = [(0, 0), (1, 0), (2, 2), (3, 2), (4, 6)];
        let (_scratch, dir) = log(&batches, &[2]);
        let is = |offset, epoch| common(&dir, offset, epoch).unwrap();
        assert_eq!((is(4, 2), is(3, 2), is(5, 6), is(2, 0)), ((4, 2), (3, 2), (5, 6), (2, 0)));
        assert_eq!(is(9, 6), (5, 6), "the log ends earlier: what is missing is at the other side");
        assert_eq!(is(9, 8), (5, 6), "in an earlier epoch, too");
        assert_eq!(is(0, -1), (0, NO_EPOCH), "nothing of it was mirrored");
        assert_eq!(is(5, 2), (4, 2), "epoch 2 went on there, and ended here");
        assert_eq!(is(9, 2), (4, 2));
        for (offset, epoch) in [(4, 3), (5, 4), (4, 1)] {
            let refused = common(&dir, offset, epoch).unwrap_err().to_string();
            assert!(refused.contains("have parted") && refused.contains("t-0"), "{refused}");
        }
        // A segment is cut short before another one: nobody knows what was in it.
        let path = files_of(&dir, 0, FileKind::Log);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(common(&dir, 2, 0).unwrap_err().to_string().contains("is damaged"));
        assert_eq!(look(&dir, 5, 6, -1).unwrap().records, 0, "it was closed in order");
        assert!(look(&dir, 5, 6, 1).unwrap_err().to_string().contains("0000.log is damaged"), "it was not");
        assert_eq!(look(&dir, 5, 6, 2).unwrap().records, 0, "not from there on");
    }

    #[test]
    fn a_torn_end_below_the_offset_is_the_end() {
        let (_scratch, dir) = log(&[(0, 0), (1, 1)], &[]);
        let path = files_of(&dir, 0, FileKind::Log);
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 1);
        fs::write(&path, bytes).unwrap();
        assert_eq!(common(&dir, 9, 1).unwrap(), (1, 0));
    }
}
