//! Sends a Fetch response: the frame as it was written, with computed batches spliced in.
//!
//! Heads are made into a small buffer of the connection, bodies are sent from the templates: one `writev` carries hundreds of
//! batches, and no batch is ever put together in memory.

use std::io::{self, IoSlice, Write};

use super::batches::{Batches, HEAD_BYTES_MAX};
use super::read::Slice;

/// Batches sent with one call: each takes two of the 1024 pieces that the kernel allows.
const HEADS_MAX: usize = 500;
const PARTS_MAX: usize = 1020;

/// Where in a frame batches belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// The byte of the frame before which they go.
    pub at: usize,
    /// The partition.
    pub partition: u32,
    /// Which of its batches.
    pub slice: Slice,
}

/// The buffers of one connection.
#[derive(Debug)]
pub struct Outgoing {
    heads: Vec<[u8; HEAD_BYTES_MAX]>,
    parts: Vec<Part>,
}

/// A piece of the answer.
#[derive(Debug, Clone, Copy)]
enum Part {
    Frame { from: usize, to: usize },
    Head { slot: usize, len: usize },
    Body { partition: u32, index: u64, len: usize },
}

impl Default for Outgoing {
    fn default() -> Self {
        Self { heads: vec![[0; HEAD_BYTES_MAX]; HEADS_MAX], parts: Vec::with_capacity(PARTS_MAX) }
    }
}

impl Outgoing {
    /// Sends `frame` with `splices`, which ascend by position, put in.
    ///
    /// # Errors
    /// When the peer is gone.
    pub fn send(&mut self, to: &mut impl Write, batches: &Batches, frame: &[u8], splices: &[Splice]) -> io::Result<()> {
        let (mut sent, mut heads) = (0, 0);
        for splice in splices {
            self.push_frame(&mut sent, splice.at);
            let (mut index, mut left) = (splice.slice.first_index, splice.slice.bytes);
            while left > 0 {
                if heads == HEADS_MAX || self.parts.len() + 3 > PARTS_MAX {
                    self.flush(to, batches, frame)?;
                    heads = 0;
                }
                let bytes = left.min(batches.batch_bytes()) as usize;
                batches.write_head(splice.partition, index, &mut self.heads[heads]);
                let head = bytes.min(batches.head_bytes());
                self.parts.push(Part::Head { slot: heads, len: head });
                self.parts.push(Part::Body { partition: splice.partition, index, len: bytes - head });
                (heads, index, left) = (heads + 1, index + 1, left - bytes as u64);
            }
            if self.parts.len() + 3 > PARTS_MAX {
                self.flush(to, batches, frame)?;
                heads = 0;
            }
        }
        self.push_frame(&mut sent, frame.len());
        self.flush(to, batches, frame)
    }

    fn push_frame(&mut self, sent: &mut usize, to: usize) {
        if *sent < to {
            self.parts.push(Part::Frame { from: *sent, to });
            *sent = to;
        }
    }

    fn flush(&mut self, to: &mut impl Write, batches: &Batches, frame: &[u8]) -> io::Result<()> {
        let mut pieces = [IoSlice::new(&[]); PARTS_MAX];
        for (piece, part) in pieces.iter_mut().zip(&self.parts) {
            *piece = IoSlice::new(match *part {
                Part::Frame { from, to } => &frame[from..to],
                Part::Head { slot, len } => &self.heads[slot][..len],
                Part::Body { partition, index, len } => &batches.body(partition, index)[..len],
            });
        }
        let mut rest = &mut pieces[..self.parts.len()];
        while !rest.is_empty() {
            match to.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        self.parts.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::batches::Shape;

    /// Takes at most 1000 bytes a call, as a full socket does.
    #[derive(Default)]
    struct Narrow(Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(1000);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_arrives_is_the_frame_with_whole_and_cut_batches_in_their_places() {
        let shape = Shape { seed: 3, batch_bytes: 300, record_bytes: 40, leader_epoch: 0 };
        let batches = Batches::new(shape).unwrap();
        let mut expected = b"abc".to_vec();
        (7..7 + 1200).for_each(|index| batches.append_batch(2, index, &mut expected));
        let mut cut = Vec::new();
        batches.append_batch(2, 7 + 1200, &mut cut);
        expected.extend_from_slice(&cut[..30]);
        expected.extend_from_slice(b"def");
        batches.append_batch(0, 0, &mut expected);
        let splices = [
            Splice { at: 3, partition: 2, slice: Slice { first_index: 7, bytes: 300 * 1200 + 30 } },
            Splice { at: 6, partition: 1, slice: Slice::default() },
            Splice { at: 6, partition: 0, slice: Slice { first_index: 0, bytes: 300 } },
        ];
        let mut got = Narrow::default();
        Outgoing::default().send(&mut got, &batches, b"abcdef", &splices).unwrap();
        assert!(got.0 == expected);
    }
}
