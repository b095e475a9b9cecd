//! The producers of a partition at its end: the newest snapshot, and the batches behind it. Reads headers alone, besides markers.

use crate::handover::segments;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use twinlog_proto::handover::trail::{Follower, Trail};
use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES, MAGIC_V2};
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker, EndMarker};
use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::offset_index::{ENTRY_BYTES, OffsetIndex};
use twinlog_proto::storage::producer_snapshot::ProducerEntry;
use twinlog_proto::storage::producer_state::ProducerState;

/// Largest control batch that is read: real ones have about 80 bytes.
const MARKER_BYTES_MAX: usize = 64 << 10;
/// How far before an open transaction it is looked for the end of the one before.
const LOOK_BACK_BYTES: u64 = 8 << 20;
/// Batches of a partition that are looked at for ends of transactions.
const TRAIL_BATCHES_MAX: usize = 1_000_000;

/// What the end of a log says.
#[derive(Debug)]
pub struct Tail {
    /// The producers.
    pub state: ProducerState,
    /// The offset of the snapshot that was used.
    pub snapshot: Option<i64>,
    /// Base offset of the first segment.
    pub first_base: i64,
    /// The offset after the last batch below the limit.
    pub end: i64,
    /// The last batch below the limit, as base offset, last offset and CRC.
    pub last: Option<Sample>,
    /// The first batch of the first segment that was read.
    pub first: Option<Sample>,
}

/// A batch by which a log is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// First offset.
    pub base_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// CRC-32C as it stands in the batch.
    pub crc: u32,
    /// Its size; 0 when it was not written down.
    #[serde(default)]
    pub size_bytes: u32,
}

impl Sample {
    /// Whether `found` is this batch.
    #[must_use]
    pub fn is(&self, found: &Self) -> bool {
        let size_bytes = if self.size_bytes == 0 { found.size_bytes } else { self.size_bytes };
        Self { size_bytes, ..*self } == *found
    }
}

impl From<&BatchHeader> for Sample {
    fn from(header: &BatchHeader) -> Self {
        let size_bytes = u32::try_from(header.size_bytes()).unwrap_or(u32::MAX);
        Self { base_offset: header.base_offset, last_offset: header.last_offset(), crc: header.crc, size_bytes }
    }
}

/// Reads the end of the log in `directory`, as far as batches lie below offset `limit`.
///
/// # Errors
/// When a file cannot be read, or there is no segment.
pub fn read(directory: &Path, limit: i64) -> io::Result<Tail> {
    let (mut bases, mut snapshots) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(file) = name.to_str().and_then(names::parse_file_name).filter(|file| file.leftover.is_none()) else {
            continue;
        };
        match file.kind {
            FileKind::Log => bases.push(file.offset),
            FileKind::Snapshot => snapshots.push(file.offset),
            _ => {}
        }
    }
    bases.sort_unstable();
    snapshots.sort_unstable();
    let Some(first_base) = bases.first().copied() else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no segment file in it"));
    };
    bases.windows(2).try_for_each(|pair| closed(directory, pair[0], pair[1]))?;
    let mut tail =
        Tail { state: ProducerState::new(), snapshot: None, first_base, end: first_base, last: None, first: None };
    for offset in snapshots.into_iter().rev().filter(|offset| (first_base..=limit).contains(offset)) {
        // A damaged one is passed over, as a broker does.
        let bytes = fs::read(directory.join(names::file_name(offset, FileKind::Snapshot)))?;
        if let Ok(state) = ProducerState::load(&bytes, None) {
            (tail.state, tail.snapshot) = (state, Some(offset));
            break;
        }
    }
    tail.first = first_batch(directory, first_base)?;
    let from = tail.snapshot.unwrap_or(first_base);
    // The last batch is wanted too, also when the snapshot is the log's end.
    let begin = bases.partition_point(|base| *base < from).saturating_sub(1);
    for base in &bases[begin..] {
        segment(directory, *base, from, limit, &mut tail)?;
    }
    Ok(tail)
}

fn first_batch(directory: &Path, base: i64) -> io::Result<Option<Sample>> {
    let file = File::open(directory.join(names::file_name(base, FileKind::Log)))?;
    Ok(header_at(&file, 0)?.map(|header| Sample::from(&header)))
}

/// Takes the batches of a segment: those from `from` on count for the producers.
fn segment(directory: &Path, base: i64, from: i64, limit: i64, tail: &mut Tail) -> io::Result<()> {
    let file = File::open(directory.join(names::file_name(base, FileKind::Log)))?;
    let mut position = near(directory, base, from);
    while let Some(header) = header_at(&file, position)?.filter(|header| header.next_offset() <= limit) {
        if header.base_offset >= from {
            let marker = if header.is_control() { marker_at(&file, position, &header)? } else { None };
            tail.state.update(&header, marker);
        }
        tail.end = tail.end.max(header.next_offset());
        tail.last = Some(Sample::from(&header));
        position += header.size_bytes() as u64;
    }
    Ok(())
}

/// A position of the segment from which `offset` is not far; 0 when its index does not help. An index of a log that is being
/// written may end in zeros.
fn near(directory: &Path, base: i64, offset: i64) -> u64 {
    let Ok(bytes) = index(directory, base) else { return 0 };
    // One batch before what is asked for, so that the last batch of the log is seen.
    OffsetIndex::parse(&bytes, base).map_or(0, |index| u64::from(index.lookup(offset.saturating_sub(1))))
}

/// The entries of an index that are used.
fn index(directory: &Path, base: i64) -> io::Result<Vec<u8>> {
    let mut bytes = fs::read(directory.join(names::file_name(base, FileKind::OffsetIndex)))?;
    let used = bytes.chunks_exact(ENTRY_BYTES).take_while(|entry| entry.iter().any(|byte| *byte != 0)).count();
    bytes.truncate(used * ENTRY_BYTES);
    Ok(bytes)
}

fn header_at(file: &File, position: u64) -> io::Result<Option<BatchHeader>> {
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, position) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(cause) => return Err(cause),
    }
    let header = BatchHeader::parse(&bytes);
    let is_batch = header.magic == MAGIC_V2 && header.size_bytes() >= HEADER_BYTES && header.last_offset_delta >= 0;
    Ok(is_batch.then_some(header))
}

fn marker_at(file: &File, position: u64, header: &BatchHeader) -> io::Result<Option<EndMarker>> {
    let size = header.size_bytes();
    if size > MARKER_BYTES_MAX {
        return Err(io::Error::other(format!("the control batch at offset {} has {size} bytes", header.base_offset)));
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, position)?;
    let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: MARKER_BYTES_MAX });
    let mut rest = bytes.as_slice();
    loop {
        let fed = walker.feed(rest).map_err(|cause| {
            io::Error::other(format!("the control batch at offset {} is damaged: {cause}", header.base_offset))
        })?;
        rest = &rest[fed.consumed..];
        match fed.event {
            Some(BatchEvent::Batch { marker, .. }) => return Ok(marker),
            None if rest.is_empty() => return Ok(None),
            _ => {}
        }
    }
}

/// Refuses a closed segment that does not end with the last batch that its index leads to. Neither the data plane nor a broker with a clean
/// marker reads closed segments through.
fn closed(directory: &Path, base: i64, next_base: i64) -> io::Result<()> {
    let name = names::file_name(base, FileKind::Log);
    let file = File::open(directory.join(&name))?;
    let length = file.metadata()?.len();
    let Some(mut position) = last_indexed(directory, base)? else { return Ok(()) };
    while let Some(header) = header_at(&file, position)?.filter(|header| header.last_offset() < next_base) {
        position += header.size_bytes() as u64;
    }
    let mut rest = [0; HEADER_BYTES];
    // One that was just closed may have space that is not given back yet.
    let is_given_back_later = position < length && {
        let here = rest.len().min(usize::try_from(length - position).unwrap_or(rest.len()));
        file.read_exact_at(&mut rest[..here], position)?;
        rest.iter().all(|byte| *byte == 0)
    };
    if position == length || is_given_back_later {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{name} is cut short or damaged: by its index a batch ends at {position}, and the file at {length}"),
    ))
}

/// The position that the last entry of an index names; none when it has none, is missing (it is built again then), or ends in zeros, which
/// are not cut yet.
fn last_indexed(directory: &Path, base: i64) -> io::Result<Option<u64>> {
    let file = match File::open(directory.join(names::file_name(base, FileKind::OffsetIndex))) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut entry = [0; ENTRY_BYTES];
    let Some(at) = (file.metadata()?.len() / ENTRY_BYTES as u64).checked_sub(1) else { return Ok(None) };
    file.read_exact_at(&mut entry, at * ENTRY_BYTES as u64)?;
    let [_, _, _, _, position @ ..] = entry;
    Ok((entry != [0; ENTRY_BYTES]).then(|| u64::from(u32::from_be_bytes(position))))
}

/// What the batches of the log in `directory` below `limit` tell of the transactions of the producers in `wanted`, read from a little before
/// the first open one on. `producers` as they are at `limit`.
///
/// # Errors
/// When a file cannot be read.
pub fn trail(directory: &Path, limit: i64, producers: &[ProducerEntry], wanted: &HashSet<i64>) -> io::Result<Trail> {
    let bases: Vec<i64> = segments::list(directory)?.iter().map(|segment| segment.base_offset).collect();
    let open = producers.iter().filter(|producer| producer.has_open_txn()).map(|producer| producer.txn_first_offset);
    let from = open.min().unwrap_or(limit);
    let mut at = bases.partition_point(|base| *base <= from).saturating_sub(1);
    let Some(base) = bases.get(at) else { return Ok(Trail::default()) };
    let near_it = near(directory, *base, from);
    let mut position = before(directory, *base, near_it.saturating_sub(LOOK_BACK_BYTES));
    if let Some(missing) = LOOK_BACK_BYTES.checked_sub(near_it).filter(|_| at > 0) {
        at -= 1;
        let size = fs::metadata(directory.join(names::file_name(bases[at], FileKind::Log)))?.len();
        position = before(directory, bases[at], size.saturating_sub(missing));
    }
    let is_all = (bases[at], position) == (0, 0);
    let mut follower = Follower::new(wanted, producers, is_all);
    let mut left = TRAIL_BATCHES_MAX;
    for base in &bases[at..] {
        let file = File::open(directory.join(names::file_name(*base, FileKind::Log)))?;
        while let Some(header) = header_at(&file, position)?.filter(|header| header.next_offset() <= limit && left > 0)
        {
            let is_wanted = header.is_control() && wanted.contains(&header.producer_id);
            let marker = if is_wanted { marker_at(&file, position, &header)? } else { None };
            follower.take(&header, marker);
            position += header.size_bytes() as u64;
            left -= 1;
        }
        position = 0;
    }
    Ok(follower.finish())
}

/// The position of a batch of the segment that lies at `position` or before it; 0 when its index does not help.
fn before(directory: &Path, base: i64, position: u64) -> u64 {
    let Ok(bytes) = index(directory, base) else { return 0 };
    let Ok(index) = OffsetIndex::parse(&bytes, base) else { return 0 };
    index.iter().map(|entry| u64::from(entry.position)).take_while(|found| *found <= position).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::handover::batches;
    use twinlog_proto::handover::resolve::{Appended, Marker};
    use twinlog_proto::handover::trail::{Bounds, Ended};
    use twinlog_proto::records::plain;

    const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/golden/log-4.2/golden-0");

    #[test]
    fn the_end_of_a_brokers_log_is_found_with_and_without_its_snapshots() {
        let directory = Path::new(LOG);
        let whole = read(directory, i64::MAX).unwrap();
        assert_eq!((whole.end, whole.last.unwrap().last_offset), (1155, 1154));
        let bare = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(directory).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "log") {
                fs::copy(entry.path(), bare.path().join(entry.file_name())).unwrap();
            }
        }
        let scanned = read(bare.path(), i64::MAX).unwrap();
        assert_eq!((scanned.end, scanned.last, scanned.snapshot), (whole.end, whole.last, None));
        assert_eq!(scanned.first, whole.first);
        // Below the limit only.
        let limit = whole.last.unwrap().base_offset;
        assert_eq!(read(directory, limit).unwrap().end, limit);
    }

    #[test]
    fn a_closed_segment_that_was_cut_short_or_overwritten_is_refused_by_name() {
        let copy = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(LOG).unwrap().flatten() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let bases: Vec<i64> = segments::list(copy.path()).unwrap().iter().map(|segment| segment.base_offset).collect();
        read(copy.path(), i64::MAX).unwrap();
        let path = copy.path().join(names::file_name(bases[0], FileKind::Log));
        let whole = fs::read(&path).unwrap();
        let mut odd = whole.clone();
        odd.extend([7; 70]);
        for wrong in [&whole[..whole.len() - 1], &whole[..whole.len() / 2], &[], &odd] {
            fs::write(&path, wrong).unwrap();
            let refused = read(copy.path(), i64::MAX).unwrap_err().to_string();
            assert!(refused.contains("00000.log is cut short or damaged"), "{refused}");
        }
        // Space that a segment had when it was closed.
        let mut allocated = whole;
        allocated.resize(allocated.len() + 4096, 0);
        fs::write(&path, allocated).unwrap();
        read(copy.path(), i64::MAX).unwrap();
    }

    #[test]
    fn a_directory_without_segments_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(read(empty.path(), i64::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// A log of one segment: transactions of an older client, which stamps its records with times of long ago.
    #[test]
    fn the_trail_of_a_partition_has_the_ends_of_transactions_and_when_the_open_one_began() {
        let scratch = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        let mut data = |offset, producer_id| {
            let header = BatchHeader { producer_id, producer_epoch: 7, ..plain::header(offset, 1, 0x10, 5) };
            plain::encode(&mut bytes, header, [(Some(&b"k"[..]), None)]);
            if offset < 4 {
                let marker = Marker { producer_id, producer_epoch: 7, commit: offset == 0, coordinator_epoch: 0 };
                let (topic, records) = Default::default();
                let appended = Appended {
                    topic,
                    partition: 0,
                    end_offset: offset + 1,
                    leader_epoch: 1,
                    markers: vec![marker],
                    records,
                };
                bytes.extend(batches::encode(&appended, 9_000 + offset));
            }
        };
        [(0, 1000), (2, 1001), (4, 1000)].into_iter().for_each(|(offset, id)| data(offset, id));
        fs::write(scratch.path().join(names::file_name(0, FileKind::Log)), &bytes).unwrap();
        let tail = read(scratch.path(), i64::MAX).unwrap();
        assert_eq!(tail.state.open_txns().len(), 1);
        let found = trail(scratch.path(), tail.end, &tail.state.entries(), &HashSet::from([1000])).unwrap();
        let ended = Ended { producer_id: 1000, epoch: 7, marker_epoch: 7, commit: true, at_ms: 9_000 };
        assert_eq!((found.ended, found.complete_after_ms), (vec![ended], Some(i64::MIN)));
        let bounds = Bounds { previous_end_ms: Some(9_000), after_ms: Some(9_002), before_ms: None };
        assert_eq!(found.bounds, [(1000, bounds)].into());
    }
}
