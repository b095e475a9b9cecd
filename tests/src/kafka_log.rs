//! A second reader of segment folders, written apart from the product: it shares no line with the data plane or with proto, so that a
//! mistake there cannot hide here. Reads whole files, checks every CRC, and compares two folders batch by batch.

mod indexes;
#[cfg(test)]
mod tests;
mod texts;

pub use texts::{epoch_file, offset_file, topic_id};

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 61;
/// Bytes of a batch before the field that its length counts from.
const PREFIX_BYTES: usize = 12;
/// Where the leader epoch stands in a batch.
const LEADER_EPOCH: std::ops::Range<usize> = 12..16;

/// One batch as it lies on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// First offset.
    pub base: i64,
    /// Last offset.
    pub last: i64,
    /// Size with its prefix.
    pub bytes: usize,
    /// Leader epoch stamped on it.
    pub epoch: i32,
    /// CRC-32C as stored (and found right).
    pub crc: u32,
    /// Attribute bits.
    pub attributes: i16,
    /// Records in it; may be fewer than offsets.
    pub records: i32,
    /// Producer id, -1 none.
    pub producer_id: i64,
    /// Epoch of the producer.
    pub producer_epoch: i16,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// Largest timestamp.
    pub max_timestamp: i64,
    /// Position in the segment's file.
    pub position: u64,
}

impl Batch {
    /// Compression codec, 0 to 4.
    #[must_use]
    pub fn codec(&self) -> i16 {
        self.attributes & 7
    }

    /// Written in a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// A control batch.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    /// Base offset, from its name.
    pub base: i64,
    /// Its `.log` file.
    pub path: PathBuf,
    /// Its batches in order.
    pub batches: Vec<Batch>,
    /// Bytes after the last whole batch.
    pub trailing_bytes: u64,
    file: File,
}

impl Segment {
    fn batch_bytes(&self, batch: &Batch) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; batch.bytes];
        self.file.read_exact_at(&mut bytes, batch.position).map_err(|e| format!("{}: {e}", self.path.display()))?;
        Ok(bytes)
    }

    /// The sibling file with another extension.
    #[must_use]
    pub fn sibling(&self, extension: &str) -> PathBuf {
        self.path.with_extension(extension)
    }
}

/// A partition's folder.
#[derive(Debug)]
pub struct Log {
    /// The folder.
    pub dir: PathBuf,
    /// Segments by base offset.
    pub segments: Vec<Segment>,
}

impl Log {
    /// Reads the folder and checks every batch: magic, CRC, strictly rising offsets, each in its segment. A cut-off end of the last
    /// segment is reported in [`Segment::trailing_bytes`]; anywhere else it is an error.
    ///
    /// # Errors
    /// What is wrong, in which file, at which position.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let mut segments = Vec::new();
        for base in names(dir, "log")? {
            segments.push(read_segment(dir, base)?);
        }
        let log = Self { dir: dir.to_path_buf(), segments };
        log.check_order()?;
        Ok(log)
    }

    fn check_order(&self) -> Result<(), String> {
        let mut next = i64::MIN;
        for (at, segment) in self.segments.iter().enumerate() {
            let last = at + 1 == self.segments.len();
            if segment.trailing_bytes > 0 && !last {
                return Err(format!(
                    "{}: {} bytes after the last whole batch",
                    segment.path.display(),
                    segment.trailing_bytes
                ));
            }
            let end = self.segments.get(at + 1).map_or(i64::MAX, |s| s.base);
            for batch in &segment.batches {
                let inside =
                    batch.base >= segment.base && batch.last < end && batch.base >= next && batch.last >= batch.base;
                if !inside {
                    let (first, name) = (batch.base, segment.path.display());
                    return Err(format!(
                        "{name}: batch {first}..{} at {} stands at the wrong place (next {next})",
                        batch.last, batch.position
                    ));
                }
                next = batch.last + 1;
            }
        }
        Ok(())
    }

    /// All batches, in order.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.segments.iter().flat_map(|s| &s.batches)
    }

    /// Offset after the last batch; the last segment's base when there is none.
    #[must_use]
    pub fn end(&self) -> i64 {
        let base = self.segments.last().map_or(0, |s| s.base);
        self.batches().last().map_or(base, |b| b.last + 1).max(base)
    }

    /// Largest leader epoch on any batch, -1 when there is none.
    #[must_use]
    pub fn epoch_max(&self) -> i32 {
        self.batches().map(|b| b.epoch).max().unwrap_or(-1)
    }

    /// Offsets missing between the first and the last batch, and inside batches (fewer records than offsets).
    #[must_use]
    pub fn gaps(&self) -> i64 {
        let first = self.batches().next().map_or(0, |b| b.base);
        let records: i64 = self.batches().map(|b| i64::from(b.records)).sum();
        self.batches().last().map_or(0, |b| b.last + 1 - first) - records
    }

    /// Checks the files beside the segments of a folder that was closed cleanly: offset, time and transaction indexes, snapshots.
    ///
    /// # Errors
    /// What is wrong, in which file.
    pub fn check_side_files(&self) -> Result<(), String> {
        for (at, segment) in self.segments.iter().enumerate() {
            indexes::check(segment, at + 1 == self.segments.len())?;
        }
        for offset in names(&self.dir, "snapshot")? {
            indexes::check_snapshot(&self.dir.join(format!("{offset:020}.snapshot")))?;
        }
        Ok(())
    }

    fn located(&self, from: i64, to: i64) -> Vec<(&Segment, &Batch)> {
        let all = self.segments.iter().flat_map(|s| s.batches.iter().map(move |b| (s, b)));
        all.filter(|(_, b)| b.last >= from && b.base < to).collect()
    }
}

/// How much [`compare`] found equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Equal {
    /// Batches.
    pub batches: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Compares the batches of two folders that hold offsets from `from` up to `to` (exclusive), byte for byte.
///
/// # Errors
/// The first difference.
pub fn compare(source: &Log, mirror: &Log, from: i64, to: i64) -> Result<Equal, String> {
    compare_as(source, mirror, from, to, |bytes| bytes)
}

/// [`compare`], where the mirror is to have leader epoch 0 in every batch; the checksum does not cover it.
///
/// # Errors
/// The first difference.
pub fn compare_restamped(source: &Log, mirror: &Log, from: i64, to: i64) -> Result<Equal, String> {
    compare_as(source, mirror, from, to, |mut bytes| {
        bytes[LEADER_EPOCH].fill(0);
        bytes
    })
}

fn compare_as(
    source: &Log,
    mirror: &Log,
    from: i64,
    to: i64,
    wanted: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Result<Equal, String> {
    let (ours, theirs) = (mirror.located(from, to), source.located(from, to));
    let mut equal = Equal::default();
    for (at, (segment, batch)) in theirs.iter().enumerate() {
        let Some((own_segment, own)) = ours.get(at) else {
            return Err(format!(
                "{}: batch {}..{} of the source is missing",
                mirror.dir.display(),
                batch.base,
                batch.last
            ));
        };
        if wanted(segment.batch_bytes(batch)?) != own_segment.batch_bytes(own)? {
            return Err(format!("{}: {own:?} differs from the source's {batch:?}", own_segment.path.display()));
        }
        equal.batches += 1;
        equal.bytes += batch.bytes as u64;
    }
    match ours.get(theirs.len()) {
        Some((segment, extra)) => Err(format!("{}: {extra:?} is not in the source", segment.path.display())),
        None => Ok(equal),
    }
}

/// Base offsets of the files with this extension and a 20-digit name, rising.
fn names(dir: &Path, extension: &str) -> Result<Vec<i64>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut out = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
        if path.extension().is_none_or(|x| x != extension) {
            continue;
        }
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let legal = stem.len() == 20 && stem.bytes().all(|b| b.is_ascii_digit());
        out.push(
            stem.parse().ok().filter(|_| legal).ok_or_else(|| format!("{}: not a 20-digit name", path.display()))?,
        );
    }
    out.sort_unstable();
    Ok(out)
}

fn read_segment(dir: &Path, base: i64) -> Result<Segment, String> {
    let path = dir.join(format!("{base:020}.log"));
    let whole = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = File::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (mut batches, mut at) = (Vec::new(), 0);
    while let Some(batch) =
        read_batch(&whole[at..], at as u64).map_err(|e| format!("{} at {at}: {e}", path.display()))?
    {
        at += batch.bytes;
        batches.push(batch);
    }
    Ok(Segment { base, path, batches, trailing_bytes: (whole.len() - at) as u64, file })
}

/// The batch at the start of `rest`; none when it is not whole.
fn read_batch(rest: &[u8], position: u64) -> Result<Option<Batch>, String> {
    if rest.len() < HEADER_BYTES {
        return Ok(None);
    }
    let length = i32::from_be_bytes(field(rest, 8));
    if length == 0 {
        return Ok(None); // preallocated space of a segment that is still written to
    }
    let bytes = usize::try_from(length).map_err(|e| format!("batch length {length}: {e}"))? + PREFIX_BYTES;
    if bytes < HEADER_BYTES {
        return Err(format!("batch length {length}"));
    }
    if rest[16] != 2 {
        return Err(format!("magic {}", rest[16]));
    }
    if rest.len() < bytes {
        return Ok(None);
    }
    let (crc, found) = (u32::from_be_bytes(field(rest, 17)), crc32c::crc32c(&rest[21..bytes]));
    if crc != found {
        return Err(format!("CRC {crc:08x} stored, {found:08x} computed"));
    }
    let base = i64::from_be_bytes(field(rest, 0));
    Ok(Some(Batch {
        base,
        last: base + i64::from(i32::from_be_bytes(field(rest, 23))),
        bytes,
        epoch: i32::from_be_bytes(field(rest, 12)),
        crc,
        attributes: i16::from_be_bytes(field(rest, 21)),
        records: i32::from_be_bytes(field(rest, 57)),
        producer_id: i64::from_be_bytes(field(rest, 43)),
        producer_epoch: i16::from_be_bytes(field(rest, 51)),
        base_sequence: i32::from_be_bytes(field(rest, 53)),
        max_timestamp: i64::from_be_bytes(field(rest, 35)),
        position,
    }))
}

/// `N` bytes at `at`; the caller knows that they are there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
