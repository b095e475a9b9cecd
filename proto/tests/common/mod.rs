//! What the integration tests of this crate share: the golden files and small helpers.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};

use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker, EndMarker};

/// Base offsets of the golden segments.
pub(crate) const SEGMENTS: [i64; 3] = [0, 57, 1109];
/// The log end of the golden partition.
pub(crate) const LOG_END: i64 = 1155;

/// A file of the golden folder.
pub(crate) fn golden(path: &str) -> Vec<u8> {
    let path = golden_path(path);
    fs::read(&path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

/// Where a golden file is, whether it exists or not.
pub(crate) fn golden_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(path)
}

/// A file of the golden partition; `base` of 57 and `suffix` of "log" give its second segment.
pub(crate) fn segment_file(base: i64, suffix: &str) -> Vec<u8> {
    golden(&format!("log-4.2/golden-0/{base:020}.{suffix}"))
}

/// A batch of a golden segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    pub(crate) header: BatchHeader,
    pub(crate) marker: Option<EndMarker>,
    pub(crate) position: u64,
}

/// The batches of a segment's bytes.
pub(crate) fn batches(log: &[u8]) -> Vec<Seen> {
    let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: 1 << 20 });
    let (mut rest, mut position, mut seen) = (log, 0, Vec::new());
    while let fed = walker.feed(rest).expect("golden batches are valid")
        && let Some(event) = fed.event
    {
        rest = &rest[fed.consumed..];
        if let BatchEvent::Batch { header, marker } = event {
            seen.push(Seen { header, marker, position });
            position += header.size_bytes() as u64;
        }
    }
    assert_eq!((walker.pending_bytes(), position), (0, log.len() as u64));
    seen
}

/// Numbers that look random and are the same for the same seed (xorshift).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Any seed is good.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// Overwrites up to four runs of up to four bytes.
    pub(crate) fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(4)).min(bytes.len());
            let value = [0, 0xff, 0x80, 0x7f, self.below(256) as u8][self.below(5)];
            bytes[at..end].fill(value);
        }
    }

    /// Cuts `bytes` into pieces of random sizes.
    pub(crate) fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let size_max = [2, 30, 300][self.below(3)];
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at((1 + self.below(size_max)).min(bytes.len()));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}
