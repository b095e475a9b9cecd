//! Walks a segment file from front to back, with checksums, and says where its whole valid batches end.

use std::fmt;
use std::io;
use std::path::Path;

use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker, EndMarker};

use crate::disk::files::Reading;
use crate::limits::{SCAN_BYTES, SEGMENT_FILE_BYTES_MAX};

/// The walk of one segment file.
#[derive(Debug)]
pub(super) struct Scan {
    walker: BatchWalker,
    buffer: Vec<u8>,
}

/// The bounds of a walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The offset that names the segment.
    pub(super) base: i64,
    /// Batches that reach this offset are not taken; the walk ends before them.
    pub(super) limit: i64,
}

/// How a walk ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scanned {
    /// File position after the last batch taken.
    pub(super) end: u64,
    /// Offset after the last batch taken; the segment's base when there is none.
    pub(super) next_offset: i64,
    /// Why the walk ended there; none when that is the end of the file.
    pub(super) stopped: Option<Stopped>,
}

/// Why a walk ended before the file did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The next batch reaches the limit.
    Limit,
    /// What follows is no valid batch of this segment.
    Invalid(String),
    /// The file ends inside of a batch.
    CutOff,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => f.write_str("the log is cut here"),
            Self::Invalid(why) => f.write_str(why),
            Self::CutOff => f.write_str("the file ends inside of a batch"),
        }
    }
}

/// A batch of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) header: BatchHeader,
    pub(super) marker: Option<EndMarker>,
    /// Its file position.
    pub(super) position: u64,
}

impl Scan {
    /// Takes batches of any size: what was stored was accepted once.
    pub(super) fn new() -> Self {
        let limits = BatchLimits { batch_bytes_max: SEGMENT_FILE_BYTES_MAX as usize };
        Self { walker: BatchWalker::new(limits), buffer: Vec::new() }
    }

    /// Walks `path`; `visit` sees every valid batch in order. The other tasks of the core run between any two pieces.
    pub(super) async fn run(
        &mut self,
        path: &Path,
        bounds: Bounds,
        mut visit: impl FnMut(&Found),
    ) -> io::Result<Scanned> {
        let (mut reading, mut scanned) = self.begin(path, 0, bounds)?;
        while self.step(&mut reading, bounds, &mut scanned, &mut visit)? {
            tokio::task::yield_now().await;
        }
        Ok(scanned)
    }

    /// The same for a thread that has nothing else to do.
    pub(super) fn run_at_once(
        &mut self,
        path: &Path,
        bounds: Bounds,
        visit: impl FnMut(&Found),
    ) -> io::Result<Scanned> {
        self.run_from(path, 0, bounds, visit)
    }

    /// The same from a batch at `position` of the file on, where nothing is awaited because little is left.
    pub(super) fn run_from(
        &mut self,
        path: &Path,
        position: u64,
        bounds: Bounds,
        mut visit: impl FnMut(&Found),
    ) -> io::Result<Scanned> {
        let (mut reading, mut scanned) = self.begin(path, position, bounds)?;
        while self.step(&mut reading, bounds, &mut scanned, &mut visit)? {}
        Ok(scanned)
    }

    fn begin(&mut self, path: &Path, position: u64, bounds: Bounds) -> io::Result<(Reading, Scanned)> {
        self.walker.reset();
        let reading = Reading::open(path, position)?;
        // Made when it is needed first, and no larger than the file: most logs of many have little to read.
        let wanted = reading.left()?.min(SCAN_BYTES as u64) as usize;
        if self.buffer.len() < wanted.max(1) {
            self.buffer.resize(wanted.max(1), 0);
        }
        Ok((reading, Scanned { end: position, next_offset: bounds.base, stopped: None }))
    }

    /// Walks one piece; false when that was the last.
    fn step(
        &mut self,
        reading: &mut Reading,
        bounds: Bounds,
        scanned: &mut Scanned,
        visit: &mut impl FnMut(&Found),
    ) -> io::Result<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = reading.next(&mut buffer);
        if let Ok(bytes) = read {
            self.take(&buffer[..bytes], bounds, scanned, visit);
        }
        self.buffer = buffer;
        let goes_on = read? > 0 && scanned.stopped.is_none();
        if !goes_on && scanned.stopped.is_none() && self.walker.pending_bytes() > 0 {
            scanned.stopped = Some(Stopped::CutOff);
        }
        Ok(goes_on)
    }

    fn take(&mut self, mut bytes: &[u8], bounds: Bounds, scanned: &mut Scanned, visit: &mut impl FnMut(&Found)) {
        loop {
            let fed = match self.walker.feed(bytes) {
                Ok(fed) => fed,
                Err(error) => {
                    scanned.stopped = Some(Stopped::Invalid(error.to_string()));
                    return;
                }
            };
            bytes = &bytes[fed.consumed..];
            match fed.event {
                None => return,
                Some(BatchEvent::Header(header)) => {
                    scanned.stopped = misfit(&header, bounds, scanned);
                    if scanned.stopped.is_some() {
                        return;
                    }
                }
                Some(BatchEvent::Batch { header, marker }) => {
                    visit(&Found { header, marker, position: scanned.end });
                    scanned.end += header.size_bytes() as u64;
                    scanned.next_offset = header.next_offset();
                }
            }
        }
    }
}

/// Why this batch cannot stand here, if it cannot.
fn misfit(header: &BatchHeader, bounds: Bounds, scanned: &Scanned) -> Option<Stopped> {
    let next_offset = scanned.next_offset;
    if header.last_offset() >= bounds.limit {
        return Some(Stopped::Limit);
    }
    let (base, offset) = (bounds.base, header.base_offset);
    if offset < next_offset {
        return Some(Stopped::Invalid(format!("a batch at offset {offset} follows offset {next_offset}")));
    }
    if header.last_offset() - base > i64::from(i32::MAX) {
        return Some(Stopped::Invalid(format!("offset {offset} is too far from the segment's base {base}")));
    }
    if scanned.end + header.size_bytes() as u64 > SEGMENT_FILE_BYTES_MAX {
        return Some(Stopped::Invalid("the file is larger than a segment can be".to_owned()));
    }
    None
}
