//! The segment files of one partition, batch by batch: an own reading of them, apart from the data plane's.

use crate::segment::{Batch, Item, SegmentWalk};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES, MAGIC_V2};
use twinlog_proto::storage::names::{self, FileKind};

/// Bytes that are compared at once.
const PIECE_BYTES: usize = 256 << 10;
/// Longest time in which a batch that is being written becomes whole.
const WRITE_TIME_MAX: Duration = Duration::from_secs(2);
/// How often it is looked at.
const WRITE_POLL: Duration = Duration::from_millis(20);

/// The batches of a partition, in order. The files may grow meanwhile.
#[derive(Debug)]
pub(super) struct LocalLog {
    /// Base offsets, ascending.
    bases: Vec<i64>,
    directory: PathBuf,
    at: usize,
    file: Option<File>,
    position: u64,
    end_offset: i64,
    piece: Vec<u8>,
}

/// A batch of the local log.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalBatch {
    /// Its header.
    pub(super) header: BatchHeader,
    /// The header's bytes.
    pub(super) header_bytes: [u8; HEADER_BYTES],
    /// Its first byte in the segment.
    pub(super) position: u64,
}

impl LocalLog {
    /// Opens the partition in `directory` and finds its end. A batch with a wrong checksum belongs to it, unless the log is `in_use` and the
    /// batch becomes right: then it was only being written.
    ///
    /// # Errors
    /// When the directory or a file cannot be read, or there is no segment.
    pub(super) fn open(directory: &Path, in_use: bool) -> io::Result<Self> {
        let mut bases = Vec::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name();
            let parsed = name.to_str().and_then(names::parse_file_name);
            bases.extend(parsed.filter(|f| f.kind == FileKind::Log && f.leftover.is_none()).map(|f| f.offset));
        }
        bases.sort_unstable();
        let Some(last) = bases.last().copied() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no segment file in it"));
        };
        let mut log = Self {
            bases,
            directory: directory.to_owned(),
            at: 0,
            file: None,
            position: 0,
            end_offset: last,
            piece: vec![0; PIECE_BYTES],
        };
        let file = File::open(log.path(last))?;
        let mut walk = SegmentWalk::new(&file);
        while let Some(Item::Batch(batch)) = walk.next()? {
            if !batch.is_intact() && in_use {
                log.await_intact(&file, &batch)?;
            }
            log.end_offset = log.end_offset.max(batch.header.next_offset());
        }
        Ok(log)
    }

    /// Gives a batch that is being written the time to become whole.
    fn await_intact(&mut self, file: &File, batch: &Batch) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < WRITE_TIME_MAX && self.crc(file, batch)? != batch.header.crc {
            sleep(WRITE_POLL);
        }
        Ok(())
    }

    /// The checksum of a batch as it stands in the file now.
    fn crc(&mut self, file: &File, batch: &Batch) -> io::Result<u32> {
        let (mut at, mut crc) = (CRC_FROM, 0);
        while at < batch.header.size_bytes() {
            let bytes = PIECE_BYTES.min(batch.header.size_bytes() - at);
            let piece = &mut self.piece[..bytes];
            file.read_exact_at(piece, batch.position + at as u64)?;
            crc = crc32c::crc32c_append(crc, piece);
            at += bytes;
        }
        Ok(crc)
    }

    /// The base offset of the first segment.
    pub(super) fn first_base(&self) -> i64 {
        self.bases[0]
    }

    /// One after the last offset, as it was when the log was opened.
    pub(super) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// The file of the segment at `base`.
    pub(super) fn path(&self, base: i64) -> PathBuf {
        self.directory.join(names::file_name(base, FileKind::Log))
    }

    /// Starts at the segment that holds `offset`, or would.
    pub(super) fn seek(&mut self, offset: i64) {
        self.at = self.bases.partition_point(|base| *base <= offset).saturating_sub(1);
        self.position = 0;
        self.file = None;
    }

    /// The batch that comes next; none at the end of the log, or where no batch can be read.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn peek(&mut self) -> io::Result<Option<LocalBatch>> {
        while let Some(segment) = self.bases.get(self.at).copied() {
            let file = match self.file.take() {
                Some(file) => file,
                None => File::open(self.path(segment))?,
            };
            let found = read_header(&file, self.position)?;
            self.file = Some(file);
            if let Some((header, header_bytes)) = found {
                return Ok(Some(LocalBatch { header, header_bytes, position: self.position }));
            }
            (self.at, self.position, self.file) = (self.at + 1, 0, None);
        }
        Ok(None)
    }

    /// Goes past the batch that [`LocalLog::peek`] gave.
    pub(super) fn pass(&mut self, batch: &LocalBatch) {
        self.position = batch.position + batch.header.size_bytes() as u64;
    }

    /// The bytes after the header of `batch`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn records(&mut self, batch: &LocalBatch) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; batch.header.size_bytes() - HEADER_BYTES];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, batch.position + HEADER_BYTES as u64)?;
        }
        Ok(bytes)
    }

    /// Whether `bytes` stand at `at` of `batch`; the first byte of the batch that differs if not.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn differs(&mut self, batch: &LocalBatch, at: usize, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Some(file) = &self.file else { return Ok(Some(at)) };
        let mut done = 0;
        for part in bytes.chunks(PIECE_BYTES) {
            let here = &mut self.piece[..part.len()];
            match file.read_exact_at(here, batch.position + (at + done) as u64) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(at + done)),
                Err(cause) => return Err(cause),
            }
            if here != part {
                let first = here.iter().zip(part).position(|(here, there)| here != there);
                return Ok(Some(at + done + first.unwrap_or(0)));
            }
            done += part.len();
        }
        Ok(None)
    }
}

fn read_header(file: &File, position: u64) -> io::Result<Option<(BatchHeader, [u8; HEADER_BYTES])>> {
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact_at(&mut bytes, position) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(cause) => return Err(cause),
    }
    let header = BatchHeader::parse(&bytes);
    let is_batch = header.magic == MAGIC_V2 && header.size_bytes() >= HEADER_BYTES && header.last_offset_delta >= 0;
    Ok(is_batch.then_some((header, bytes)))
}
