//! Checks of the files beside a segment, as a stock broker would rely on them.

use super::{Segment, field};
use std::path::Path;

const OFFSET_ENTRY_BYTES: usize = 8;
const TIME_ENTRY_BYTES: usize = 12;
const TXN_ENTRY_BYTES: usize = 34;
const SNAPSHOT_ENTRY_BYTES: usize = 46;

/// Checks the indexes of one segment of a cleanly closed folder. Only the newest segment, when it is empty, may lack them.
pub(super) fn check(segment: &Segment, newest: bool) -> Result<(), String> {
    let may_lack = newest && segment.batches.is_empty();
    offset_index(segment, may_lack)?;
    time_index(segment, may_lack)?;
    txn_index(segment)
}

fn entries<const N: usize>(path: &Path, may_lack: bool) -> Result<Vec<[u8; N]>, String> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() % N == 0 => Ok(bytes.chunks_exact(N).map(|c| field(c, 0)).collect()),
        Ok(bytes) => Err(format!("{}: {} bytes are no multiple of {N}", path.display(), bytes.len())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && may_lack => Ok(Vec::new()),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}

fn offset_index(segment: &Segment, may_lack: bool) -> Result<(), String> {
    let path = segment.sibling("index");
    let mut before = i64::MIN;
    for entry in entries::<OFFSET_ENTRY_BYTES>(&path, may_lack)? {
        let offset = segment.base + i64::from(i32::from_be_bytes(field(&entry, 0)));
        let position = u64::from(u32::from_be_bytes(field(&entry, 4)));
        let batch = segment.batches.iter().find(|b| b.position == position);
        if batch.is_none_or(|b| b.last != offset) || offset <= before || position == 0 {
            return Err(format!(
                "{}: entry ({offset}, {position}) names no batch, or does not rise: {batch:?}",
                path.display()
            ));
        }
        before = offset;
    }
    Ok(())
}

fn time_index(segment: &Segment, may_lack: bool) -> Result<(), String> {
    let path = segment.sibling("timeindex");
    let list = entries::<TIME_ENTRY_BYTES>(&path, may_lack)?;
    let mut before = (-1, i64::MIN);
    for entry in &list {
        let timestamp = i64::from_be_bytes(field(entry, 0));
        let offset = segment.base + i64::from(i32::from_be_bytes(field(entry, 8)));
        let batch = segment.batches.iter().find(|b| b.last == offset);
        if batch.is_none_or(|b| b.max_timestamp != timestamp) || timestamp <= before.0 || offset < before.1 {
            return Err(format!(
                "{}: entry ({timestamp}, {offset}) names no batch, or does not rise: {batch:?}",
                path.display()
            ));
        }
        before = (timestamp, offset);
    }
    let largest = segment.batches.iter().map(|b| b.max_timestamp).max().unwrap_or(-1);
    if largest != before.0 {
        return Err(format!(
            "{}: the last entry is {}, the segment's largest timestamp {largest}",
            path.display(),
            before.0
        ));
    }
    Ok(())
}

fn txn_index(segment: &Segment) -> Result<(), String> {
    let path = segment.sibling("txnindex");
    let mut before = i64::MIN;
    for entry in entries::<TXN_ENTRY_BYTES>(&path, true)? {
        let number = |at| i64::from_be_bytes(field(&entry, at));
        let (producer, first, last, stable) = (number(2), number(10), number(18), number(26));
        let marker = segment.batches.iter().find(|b| b.base == last && b.is_control() && b.producer_id == producer);
        if marker.is_none() || last <= before || first > last || stable > last + 1 || entry[..2] != [0, 0] {
            return Err(format!(
                "{}: entry (producer {producer}, {first}..{last}, stable {stable}) is wrong",
                path.display()
            ));
        }
        before = last;
    }
    Ok(())
}

/// Version, CRC and length of a producer snapshot.
pub(super) fn check_snapshot(path: &Path) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    if bytes.len() < 10 || bytes[..2] != [0, 1] {
        return Err(format!("{}: no snapshot of version 1", path.display()));
    }
    let (crc, count) = (u32::from_be_bytes(field(&bytes, 2)), u32::from_be_bytes(field(&bytes, 6)) as usize);
    if crc != crc32c::crc32c(&bytes[6..]) {
        return Err(format!("{}: wrong CRC", path.display()));
    }
    if bytes.len() != 10 + count * SNAPSHOT_ENTRY_BYTES {
        return Err(format!("{}: {} bytes for {count} entries", path.display(), bytes.len()));
    }
    Ok(())
}
