//! pure: the steps through the fields of topics and partitions.

use super::super::{LOG_START_FROM, PREFERRED_REPLICA_FROM, PartitionTail, ResponseHead, SESSION_FROM, TOPIC_ID_FROM};
use super::{FetchEvent, FetchWalker, Scope, Step, TopicRef, Turn, empty_head, whole};
use crate::error::{DecodeError, Malformed};
use crate::error_code::ErrorCode;
use crate::ids::{NAME_CHARS_MAX, Uuid, is_legal_name};
use crate::reader::Reader;

/// A producer id and an offset.
const ABORTED_BYTES: usize = 16;
/// Fields of a partition up to its offsets, before the log start offset.
const PARTITION_BYTES: usize = 22;
const LOG_START_BYTES: usize = 8;
const PARTITION_BYTES_WITH_LOG_START: usize = PARTITION_BYTES + LOG_START_BYTES;
const PREFERRED_REPLICA_BYTES: usize = 4;
/// A varint, or the tag count of an empty section.
const VARINT_BYTES_MIN: usize = 1;
const INT_BYTES: usize = 4;
const UUID_BYTES: usize = 16;

impl FetchWalker {
    pub(super) fn response_head<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        let mut bytes = [0; 10];
        if self.version >= SESSION_FROM {
            bytes = whole!(self.input.fixed(rest));
        } else {
            let throttle: [u8; INT_BYTES] = whole!(self.input.fixed(rest));
            bytes[..INT_BYTES].copy_from_slice(&throttle);
        }
        let mut fields = Reader::new("Fetch response", &bytes);
        let head = ResponseHead {
            correlation_id: self.correlation_id,
            throttle_ms: fields.read_i32()?,
            error: ErrorCode(fields.read_i16()?),
            session_id: fields.read_i32()?,
        };
        Ok(Turn::Tell(FetchEvent::Response(head), Step::TopicCount))
    }

    pub(super) fn topic<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        let flexible = self.is_flexible();
        match self.step {
            Step::TopicCount => {
                let count = whole!(self.input.length(rest, flexible));
                self.topics_left = self.not_null(self.input.count(count, self.topic_bytes_min())?)?;
                Ok(Turn::Next(Step::Topic))
            }
            Step::Topic => {
                let Some(left) = self.topics_left.checked_sub(1) else {
                    return Ok(Turn::Next(self.tags_or(Scope::Response, Step::Trailing)));
                };
                self.topics_left = left;
                let by_id = self.version >= TOPIC_ID_FROM;
                Ok(Turn::Next(if by_id { Step::TopicId } else { Step::TopicNameLength }))
            }
            Step::TopicId => {
                self.topic = TopicRef::Id(Uuid(whole!(self.input.fixed(rest))));
                Ok(Turn::Next(Step::PartitionCount))
            }
            Step::TopicNameLength => {
                let length = if flexible {
                    i64::from(whole!(self.input.uvarint(rest))) - 1
                } else {
                    i64::from(i16::from_be_bytes(whole!(self.input.fixed(rest))))
                };
                match self.input.bytes(length)? {
                    Some(bytes @ 1..=NAME_CHARS_MAX) => self.text.begin(bytes),
                    _ => return Err(self.input.out_of_bounds(length, NAME_CHARS_MAX)),
                }
                Ok(Turn::Next(Step::TopicName))
            }
            _ => {
                if !self.input.text(rest, &mut self.text.bytes[..self.text.len], &mut self.text.filled)? {
                    return Ok(Turn::Starved);
                }
                if !self.text.as_str().is_some_and(is_legal_name) {
                    return Err(self.input.error(Malformed::Rule("a topic has a name that no topic can have")));
                }
                self.topic = TopicRef::Name;
                Ok(Turn::Next(Step::PartitionCount))
            }
        }
    }

    pub(super) fn partition<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        match self.step {
            Step::PartitionCount => {
                let count = whole!(self.input.length(rest, self.is_flexible()));
                self.partitions_left = self.not_null(self.input.count(count, self.partition_bytes_min())?)?;
                Ok(Turn::Next(Step::Partition))
            }
            Step::Partition => {
                let Some(left) = self.partitions_left.checked_sub(1) else {
                    return Ok(Turn::Next(self.tags_or(Scope::Topic, Step::Topic)));
                };
                self.partitions_left = left;
                self.head = empty_head(self.topic);
                self.tail = PartitionTail::default();
                Ok(Turn::Next(Step::PartitionFields))
            }
            _ => {
                let mut bytes = [0xff; PARTITION_BYTES_WITH_LOG_START];
                if self.version >= LOG_START_FROM {
                    bytes = whole!(self.input.fixed(rest));
                } else {
                    let shorter: [u8; PARTITION_BYTES] = whole!(self.input.fixed(rest));
                    bytes[..PARTITION_BYTES].copy_from_slice(&shorter);
                }
                let mut fields = Reader::new("Fetch response", &bytes);
                self.head.index = fields.read_i32()?;
                self.head.error = ErrorCode(fields.read_i16()?);
                self.head.high_watermark = fields.read_i64()?;
                self.head.last_stable_offset = fields.read_i64()?;
                // Without the field the bytes above read as -1.
                self.head.log_start_offset = fields.read_i64()?;
                Ok(Turn::Next(Step::AbortedCount))
            }
        }
    }

    pub(super) fn before_records<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        match self.step {
            Step::AbortedCount => {
                let flexible = self.is_flexible();
                let count = whole!(self.input.length(rest, flexible));
                let bytes_min = ABORTED_BYTES + if flexible { VARINT_BYTES_MIN } else { 0 };
                self.aborted_left = self.input.count(count, bytes_min)?.unwrap_or(0);
                Ok(Turn::Next(Step::Aborted))
            }
            Step::Aborted => {
                let Some(left) = self.aborted_left.checked_sub(1) else {
                    let preferred = self.version >= PREFERRED_REPLICA_FROM;
                    return Ok(Turn::Next(if preferred { Step::PreferredReplica } else { Step::RecordsLength }));
                };
                self.aborted_left = left;
                self.input.begin_skip(ABORTED_BYTES)?;
                Ok(Turn::Next(self.tags_or(Scope::Aborted, Step::Aborted)))
            }
            _ => {
                self.head.preferred_read_replica = i32::from_be_bytes(whole!(self.input.fixed(rest)));
                Ok(Turn::Next(Step::RecordsLength))
            }
        }
    }

    pub(super) fn records<'p>(&mut self, rest: &mut &'p [u8]) -> Result<Turn<'p>, DecodeError> {
        if self.step == Step::RecordsLength {
            let length = whole!(self.input.length(rest, self.is_flexible()));
            let length = self.input.count(length, 1)?.unwrap_or(0);
            self.head.records_bytes = length;
            self.records_left = length as usize;
            return Ok(Turn::Tell(FetchEvent::Partition(self.head), Step::Records));
        }
        if self.records_left == 0 {
            return Ok(Turn::Next(self.tags_or(Scope::Partition, Step::PartitionEnd)));
        }
        let region = self.input.region(rest, self.records_left)?;
        if region.is_empty() {
            return Ok(Turn::Starved);
        }
        self.records_left -= region.len();
        Ok(Turn::Tell(FetchEvent::Records(region), Step::Records))
    }

    pub(super) fn not_null(&self, count: Option<u32>) -> Result<u32, DecodeError> {
        count.ok_or_else(|| self.input.error(Malformed::UnexpectedNull))
    }

    fn topic_bytes_min(&self) -> usize {
        match self.version {
            TOPIC_ID_FROM.. => UUID_BYTES + 2 * VARINT_BYTES_MIN,
            _ if self.is_flexible() => 1 + 3 * VARINT_BYTES_MIN,
            _ => 2 + 1 + INT_BYTES,
        }
    }

    fn partition_bytes_min(&self) -> usize {
        let log_start = if self.version >= LOG_START_FROM { LOG_START_BYTES } else { 0 };
        let preferred = if self.version >= PREFERRED_REPLICA_FROM { PREFERRED_REPLICA_BYTES } else { 0 };
        // The list of aborted transactions, the batches, and from version 12 the tags.
        let lengths = if self.is_flexible() { 3 * VARINT_BYTES_MIN } else { 2 * INT_BYTES };
        PARTITION_BYTES + log_start + preferred + lengths
    }
}
