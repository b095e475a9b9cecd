//! Walks the batches of a segment file for `dump`, `verify` and the hand-over: its own reading, apart from that of the data plane.
//!
//! Memory is one buffer, whatever the file holds. Damage is an item like any other; only what cannot be read past ends the walk.

use std::io::{self, Read};
use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::batches::{BatchError, BatchEvent, BatchLimits, BatchWalker, EndMarker};

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Largest batch that a segment can hold.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// What stands at a position of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// A batch.
    Batch(Batch),
    /// Zeros up to the end of the file: allocated, not written.
    ZeroTail {
        /// Where they begin.
        position: u64,
        /// How many.
        bytes: u64,
    },
    /// The file ends within a batch. The last item.
    Torn {
        /// Where the batch begins.
        position: u64,
        /// Bytes of it that are there.
        bytes: u64,
    },
    /// Bytes that are no batch. The last item.
    Bad {
        /// Where they begin.
        position: u64,
        /// Why they are none.
        error: BatchError,
    },
}

/// A batch and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Its first byte in the file.
    pub(crate) position: u64,
    /// Its header.
    pub(crate) header: BatchHeader,
    /// Set when it ends a transaction.
    pub(crate) marker: Option<EndMarker>,
    /// The checksum of its bytes.
    pub(crate) computed_crc: u32,
}

impl Batch {
    /// Whether the checksum in the header is right.
    pub(crate) fn is_intact(&self) -> bool {
        self.computed_crc == self.header.crc
    }
}

/// The walk through one file.
#[derive(Debug)]
pub(crate) struct SegmentWalk<R> {
    source: R,
    buffer: Vec<u8>,
    unread: std::ops::Range<usize>,
    /// Of the next byte to feed.
    position: u64,
    batch_position: u64,
    header: Option<BatchHeader>,
    /// The walker has something to say without another byte.
    again: bool,
    walker: BatchWalker,
    ended: bool,
}

impl<R: Read> SegmentWalk<R> {
    /// Starts at the first byte that `source` gives.
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            buffer: vec![0; BUFFER_BYTES],
            unread: 0..0,
            position: 0,
            batch_position: 0,
            header: None,
            again: false,
            walker: BatchWalker::new(BatchLimits { batch_bytes_max: BATCH_BYTES_MAX }),
            ended: false,
        }
    }

    /// The next item; none at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<Item>> {
        while !self.ended {
            if self.unread.is_empty() && !self.again && !self.fill()? {
                self.ended = true;
                return Ok(self.rest());
            }
            let piece = &self.buffer[self.unread.clone()];
            let remaining = self.walker.remaining_bytes();
            match self.walker.feed(piece) {
                Ok(fed) => {
                    self.consume(fed.consumed);
                    self.again = fed.event.is_some();
                    match fed.event {
                        None => {}
                        Some(BatchEvent::Header(header)) => self.header = Some(header),
                        Some(BatchEvent::Batch { header, marker }) => {
                            return Ok(Some(self.batch(header, marker, header.crc)));
                        }
                    }
                }
                Err(BatchError::Crc { computed, .. }) if self.header.is_some() => {
                    self.consume(remaining.unwrap_or(0));
                    self.walker.reset();
                    if let Some(header) = self.header {
                        return Ok(Some(self.batch(header, None, computed)));
                    }
                }
                Err(error) => {
                    self.ended = true;
                    return self.not_a_batch(error).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn batch(&mut self, header: BatchHeader, marker: Option<EndMarker>, computed_crc: u32) -> Item {
        let batch = Batch { position: self.batch_position, header, marker, computed_crc };
        self.header = None;
        self.batch_position = self.position;
        Item::Batch(batch)
    }

    /// What is left when the file ends: nothing, zeros, or a part of a batch.
    fn rest(&self) -> Option<Item> {
        let (position, bytes) = (self.batch_position, self.position - self.batch_position);
        match bytes {
            0 => None,
            _ if self.header.is_none() && is_zero(self.walker.header_bytes()) => {
                Some(Item::ZeroTail { position, bytes })
            }
            _ => Some(Item::Torn { position, bytes }),
        }
    }

    /// Tells zeros up to the end of the file from anything else.
    fn not_a_batch(&mut self, error: BatchError) -> io::Result<Item> {
        let position = self.batch_position;
        let mut zeros = is_zero(self.walker.header_bytes());
        while zeros {
            zeros = is_zero(&self.buffer[self.unread.clone()]);
            self.consume(self.unread.len());
            if zeros && !self.fill()? {
                return Ok(Item::ZeroTail { position, bytes: self.position - position });
            }
        }
        Ok(Item::Bad { position, error })
    }

    fn consume(&mut self, bytes: usize) {
        self.unread.start += bytes;
        self.position += bytes as u64;
    }

    /// Reads on; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        loop {
            match self.source.read(&mut self.buffer) {
                Ok(bytes) => {
                    self.unread = 0..bytes;
                    return Ok(bytes > 0);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = include_bytes!("../../proto/golden/log-4.2/golden-0/00000000000000001109.log");

    fn walk(bytes: &[u8]) -> Vec<Item> {
        let mut walk = SegmentWalk::new(bytes);
        std::iter::from_fn(|| walk.next().unwrap()).collect()
    }

    fn batches(items: &[Item]) -> Vec<Batch> {
        items.iter().filter_map(|item| if let Item::Batch(batch) = item { Some(*batch) } else { None }).collect()
    }

    #[test]
    fn every_batch_is_found_where_the_one_before_it_ends() {
        let items = walk(LOG);
        let batches = batches(&items);
        assert_eq!(batches.len(), items.len());
        let mut position = 0;
        for batch in &batches {
            assert_eq!(batch.position, position);
            assert!(batch.is_intact());
            position += batch.header.size_bytes() as u64;
        }
        assert_eq!((position, batches.last().unwrap().header.last_offset()), (LOG.len() as u64, 1154));
    }

    #[test]
    fn a_batch_with_a_wrong_checksum_does_not_hide_those_after_it() {
        let whole = batches(&walk(LOG));
        let mut bytes = LOG.to_vec();
        bytes[whole[1].position as usize + 62] ^= 1;
        let damaged = batches(&walk(&bytes));
        assert_eq!(damaged.len(), whole.len());
        assert!(!damaged[1].is_intact() && damaged.iter().filter(|batch| batch.is_intact()).count() == whole.len() - 1);
    }

    #[test]
    fn zeros_at_the_end_are_told_from_a_torn_batch_and_from_garbage() {
        let end = LOG.len() as u64;
        for zeros in [1, 12, 17, 61, 5000, 600_000] {
            let mut bytes = LOG.to_vec();
            bytes.resize(LOG.len() + zeros, 0);
            assert_eq!(walk(&bytes).last(), Some(&Item::ZeroTail { position: end, bytes: zeros as u64 }), "{zeros}");
            bytes.push(1);
            assert!(matches!(walk(&bytes).last(), Some(Item::Bad { .. } | Item::Torn { .. })), "{zeros}");
        }
        let last = *batches(&walk(LOG)).last().unwrap();
        // The first bytes of an offset are zeros themselves.
        for cut in last.position + 7..end {
            let torn = Item::Torn { position: last.position, bytes: cut - last.position };
            assert_eq!(walk(&LOG[..cut as usize]).last(), Some(&torn));
        }
    }
}
