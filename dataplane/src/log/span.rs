//! Bytes of a region in a buffer, and the block of the file that they share with what was written before.
//!
//! A direct write starts and ends at block borders. The partly filled block at the end of the file is kept in memory and
//! copied in front of the next bytes (less than one block), whose place in the buffer was chosen to follow it:
//!
//! ```text
//! file     |....block....|....block..~~|             ~ = end of the file inside of a block
//! buffer                 |....copied.>>|>>>>received>>>>|>>>>00|
//!                        ^ multiple of the alignment in both
//! ```

use std::ops::Range;

use crate::buffers::Lease;
use crate::disk::Alignment;
use crate::limits::DIRECT_ALIGN_BYTES_MAX;

/// A run of bytes in a buffer: received, being walked, not yet submitted.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) lease: Lease,
    /// Where the byte for the file position `raw` of the log lies.
    pub(super) start: usize,
    /// Up to where the bytes were walked.
    pub(super) cursor: usize,
    /// Up to where there are bytes.
    pub(super) end: usize,
}

impl Span {
    /// Bytes in the span.
    pub(super) fn bytes(&self) -> usize {
        self.end - self.start
    }

    /// Bytes that still fit behind it.
    pub(super) fn room(&self) -> usize {
        self.lease.capacity() - self.end
    }

    /// Adds as much of `bytes` as fits; gives how much that was.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.lease[self.end..self.end + taken].copy_from_slice(&bytes[..taken]);
        self.end += taken;
        taken
    }

    /// Makes the span ready for a write of its first `bytes` bytes at `raw`: the shared block in front, zeroes behind up to
    /// the block's border. Gives the part of the lease to write and the file position that it belongs to.
    pub(super) fn frame(&mut self, bytes: usize, raw: u64, alignment: Alignment, head: &[u8]) -> (Range<usize>, u64) {
        let block = alignment.down(raw);
        let head_bytes = (raw - block) as usize;
        assert_eq!(head.len(), head_bytes, "the shared block must be known up to the first byte");
        assert_eq!(self.start % alignment.bytes, head_bytes, "buffer and file must agree within a block");
        let from = self.start - head_bytes;
        self.lease[from..self.start].copy_from_slice(head);
        let end = self.start + bytes;
        let padded = end.next_multiple_of(alignment.bytes);
        // What an earlier owner left in the buffer must not reach the file.
        self.lease[end..padded].fill(0);
        (from..padded, block)
    }
}

/// The partly filled last block, at two ends: where the region's bytes end, and where the last whole batch ends.
#[derive(Debug)]
pub(super) struct Tails {
    raw: Block,
    end: Block,
}

#[derive(Debug)]
struct Block {
    bytes: [u8; DIRECT_ALIGN_BYTES_MAX],
    filled: usize,
}

impl Block {
    fn set(&mut self, bytes: &[u8]) {
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.filled = bytes.len();
    }
}

impl Tails {
    /// Both ends in the same place, behind `bytes` of a block.
    pub(super) fn new(bytes: &[u8]) -> Box<Self> {
        let empty = || Block { bytes: [0; DIRECT_ALIGN_BYTES_MAX], filled: 0 };
        let mut tails = Box::new(Self { raw: empty(), end: empty() });
        tails.raw.set(bytes);
        tails.end.set(bytes);
        tails
    }

    /// What stands in front of the region's next byte, within its block.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw.bytes[..self.raw.filled]
    }

    /// Both ends at the start of a file.
    pub(super) fn clear(&mut self) {
        self.raw.filled = 0;
        self.end.filled = 0;
    }

    /// Notes the block in front of the region's next byte.
    pub(super) fn set_raw(&mut self, bytes: &[u8]) {
        self.raw.set(bytes);
    }

    /// Notes the block in front of the end of the last whole batch.
    pub(super) fn set_end(&mut self, bytes: &[u8]) {
        self.end.set(bytes);
    }

    /// The region is over: the next bytes follow the last whole batch.
    pub(super) fn rewind(&mut self) {
        self.raw.bytes = self.end.bytes;
        self.raw.filled = self.end.filled;
    }
}
