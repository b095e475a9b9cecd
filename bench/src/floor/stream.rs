//! pure: walks an endless stream of Fetch version 11 responses and checks every batch's CRC, and nothing else.
//!
//! Version 11 has fields of fixed width only, and the floor asks such that no batch is ever cut: what is left is the least work
//! that a receiver of records can do.

use crc32c::crc32c_append;
use thiserror::Error;

/// Length, correlation id, throttle time, error, session, one topic: its name's length follows.
const FRAME_BYTES: usize = 4 + 4 + 4 + 2 + 4 + 4 + 2;
const ERROR_AT: usize = 12;
const TOPICS_AT: usize = 18;
/// Index, error, three offsets, no aborted transactions, preferred replica, length of the batches.
const PARTITION_BYTES: usize = 4 + 2 + 3 * 8 + 4 + 4 + 4;
const PARTITION_ERROR_AT: usize = 4;
const RECORDS_AT: usize = 38;
/// Base offset, length, leader epoch, magic, CRC: what the CRC does not cover.
const BATCH_BYTES: usize = 21;
const LENGTH_AT: usize = 8;
const CRC_AT: usize = 17;
/// What the length of a batch does not count.
const LENGTH_PREFIX_BYTES: usize = 12;

/// A stream that is not what the floor asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// A response or partition with an error.
    #[error("the source answers with error code {0}")]
    Refused(i16),
    /// Not one topic, or a length that cannot be.
    #[error("the source's answer has an unexpected shape ({0})")]
    Shape(&'static str),
    /// A checksum that does not match.
    #[error("a batch of {bytes} bytes has CRC {stored:#010x} but its bytes give {computed:#010x}")]
    Crc {
        /// Its size.
        bytes: usize,
        /// In its header.
        stored: u32,
        /// Of its bytes.
        computed: u32,
    },
}

/// Where in the stream the next byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Frame,
    Name { bytes: usize },
    Partitions,
    Partition,
    Batch,
    Body { left: usize, bytes: usize, stored: u32 },
}

/// The resumable walk.
#[derive(Debug)]
pub struct Stream {
    step: Step,
    carry: [u8; 64],
    carried: usize,
    partitions_left: u32,
    records_left: usize,
    crc: u32,
    /// Batches checked.
    pub batches: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Whole responses seen.
    pub frames: u64,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            step: Step::Frame,
            carry: [0; 64],
            carried: 0,
            partitions_left: 0,
            records_left: 0,
            crc: 0,
            batches: 0,
            bytes: 0,
            frames: 0,
        }
    }
}

impl Stream {
    /// Takes the next piece of the stream, of any length.
    ///
    /// # Errors
    /// When the stream is not what was asked for.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), StreamError> {
        while !piece.is_empty() {
            match self.step {
                Step::Body { left, bytes, stored } => {
                    let (now, rest) = piece.split_at(left.min(piece.len()));
                    self.crc = crc32c_append(self.crc, now);
                    piece = rest;
                    self.step = Step::Body { left: left - now.len(), bytes, stored };
                    if left == now.len() {
                        self.end_batch(bytes, stored)?;
                    }
                }
                Step::Frame => self.element(&mut piece, FRAME_BYTES, Self::frame)?,
                Step::Name { bytes } => self.skip(&mut piece, bytes),
                Step::Partitions => self.element(&mut piece, 4, Self::partitions)?,
                Step::Partition => self.element(&mut piece, PARTITION_BYTES, Self::partition)?,
                Step::Batch => self.element(&mut piece, BATCH_BYTES, Self::batch)?,
            }
        }
        Ok(())
    }

    fn element(
        &mut self,
        piece: &mut &[u8],
        bytes: usize,
        read: fn(&mut Self, [u8; 64]) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let take = (bytes - self.carried).min(piece.len());
        self.carry[self.carried..self.carried + take].copy_from_slice(&piece[..take]);
        self.carried += take;
        *piece = &piece[take..];
        if self.carried < bytes {
            return Ok(());
        }
        self.carried = 0;
        read(self, self.carry)
    }

    fn skip(&mut self, piece: &mut &[u8], bytes: usize) {
        let take = bytes.min(piece.len());
        *piece = &piece[take..];
        self.step = if take == bytes { Step::Partitions } else { Step::Name { bytes: bytes - take } };
    }

    fn frame(&mut self, head: [u8; 64]) -> Result<(), StreamError> {
        refuse(i16_at(&head, ERROR_AT))?;
        if i32_at(&head, TOPICS_AT) != 1 {
            return Err(StreamError::Shape("not one topic"));
        }
        let bytes = usize::try_from(i16_at(&head, TOPICS_AT + 4)).unwrap_or(0);
        self.step = if bytes == 0 { Step::Partitions } else { Step::Name { bytes } };
        Ok(())
    }

    fn partitions(&mut self, count: [u8; 64]) -> Result<(), StreamError> {
        self.partitions_left = u32::try_from(i32_at(&count, 0)).unwrap_or(0);
        self.next_partition();
        Ok(())
    }

    fn next_partition(&mut self) {
        if self.partitions_left == 0 {
            self.frames += 1;
            self.step = Step::Frame;
        } else {
            self.partitions_left -= 1;
            self.step = Step::Partition;
        }
    }

    fn partition(&mut self, head: [u8; 64]) -> Result<(), StreamError> {
        refuse(i16_at(&head, PARTITION_ERROR_AT))?;
        self.records_left = usize::try_from(i32_at(&head, RECORDS_AT)).unwrap_or(0);
        self.next_batch();
        Ok(())
    }

    fn next_batch(&mut self) {
        if self.records_left == 0 {
            self.next_partition();
        } else {
            self.step = Step::Batch;
        }
    }

    fn batch(&mut self, head: [u8; 64]) -> Result<(), StreamError> {
        let bytes = usize::try_from(i32_at(&head, LENGTH_AT)).unwrap_or(0) + LENGTH_PREFIX_BYTES;
        if bytes <= BATCH_BYTES || bytes > self.records_left {
            return Err(StreamError::Shape("a batch that does not end with its region"));
        }
        self.records_left -= bytes;
        self.crc = 0;
        self.step = Step::Body { left: bytes - BATCH_BYTES, bytes, stored: i32_at(&head, CRC_AT).cast_unsigned() };
        Ok(())
    }

    fn end_batch(&mut self, bytes: usize, stored: u32) -> Result<(), StreamError> {
        if self.crc != stored {
            return Err(StreamError::Crc { bytes, stored, computed: self.crc });
        }
        self.batches += 1;
        self.bytes += bytes as u64;
        self.next_batch();
        Ok(())
    }
}

fn refuse(error: i16) -> Result<(), StreamError> {
    if error == 0 { Ok(()) } else { Err(StreamError::Refused(error)) }
}

fn i16_at(bytes: &[u8; 64], at: usize) -> i16 {
    i16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn i32_at(bytes: &[u8; 64], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bytes of a response for `partitions` partitions of a topic with this name, without the batches.
#[must_use]
pub fn framing_bytes(topic: &str, partitions: u32) -> u64 {
    (FRAME_BYTES + topic.len() + 4 + partitions as usize * PARTITION_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use twinlog_proto::ids::Uuid;
    use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};

    use super::*;
    use crate::source::batches::{Batches, Shape};
    use crate::source::fetch;
    use crate::source::outgoing::Outgoing;
    use crate::source::store::Store;

    fn response() -> Vec<u8> {
        let shape = Shape { seed: 3, batch_bytes: 200, record_bytes: 20, leader_epoch: 1 };
        let store = Store::new("topic".into(), Uuid::ZERO, Batches::new(shape).unwrap(), 3, 4);
        let partitions = (0..3).map(|partition| FetchPartition {
            partition,
            partition_max_bytes: 400,
            fetch_offset: store.batches().base_offset(1),
            ..Default::default()
        });
        let topics = vec![FetchTopic { topic: "topic".into(), topic_id: Uuid::ZERO, partitions: partitions.collect() }];
        let request = FetchRequest { min_bytes: 1, topics, ..Default::default() };
        let answer = fetch::answer(&store, &Mutex::default(), (11, 1), &request).unwrap();
        let mut bytes = Vec::new();
        answer.send(&mut bytes, &mut Outgoing::default(), &store).unwrap();
        bytes
    }

    #[test]
    fn a_stream_cut_anywhere_is_checked_to_the_last_batch() {
        let bytes = [response(), response()].concat();
        assert_eq!(bytes.len() as u64, 2 * (framing_bytes("topic", 3) + 3 * 400));
        for cut in 0..bytes.len() {
            let mut stream = Stream::default();
            stream.feed(&bytes[..cut]).unwrap();
            stream.feed(&bytes[cut..]).unwrap();
            assert_eq!((stream.frames, stream.batches, stream.bytes), (2, 12, 2400));
        }
    }

    #[test]
    fn a_flipped_bit_in_a_batch_is_found() {
        let mut bytes = response();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert!(matches!(Stream::default().feed(&bytes), Err(StreamError::Crc { bytes: 200, .. })));
    }
}
