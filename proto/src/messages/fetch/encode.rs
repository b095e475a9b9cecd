//! pure: writes a Fetch response, all but the batches: those stay where they are and are sent from there.
//!
//! ```text
//! FetchFrame::begin -> topic -> partition -> partition_end -> ... -> topic_end -> ... -> end
//! ```
//! [`FetchFrame::partition`] tells at which byte of the buffer the partition's batches belong, so that a sender writes the buffer
//! up to there, then the batches, then goes on with the buffer. The frame's length counts them.

use super::{
    FLEXIBLE_FROM, LOG_START_FROM, NODE_ENDPOINTS_FROM, PREFERRED_REPLICA_FROM, PartitionHead, PartitionTail,
    ResponseHead, SESSION_FROM, TAG_CURRENT_LEADER, TAG_DIVERGING_EPOCH, TAG_NODE_ENDPOINTS, TOPIC_ID_FROM,
    VERSION_MAX, VERSION_MIN,
};
use crate::error::EncodeError;
use crate::ids::Uuid;
use crate::writer::Writer;

const WHAT: &str = "Fetch response";
const LENGTH_BYTES: usize = 4;

/// A transaction that a consumer must leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Where its records start.
    pub first_offset: i64,
}

/// Where a node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// Its id.
    pub id: i32,
    /// Its host.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// Its rack, if it has one.
    pub rack: Option<&'a str>,
}

/// A response that is being written to the end of a buffer.
#[derive(Debug)]
pub struct FetchFrame<'a> {
    out: &'a mut Vec<u8>,
    version: i16,
    start: usize,
    records_bytes: usize,
}

impl<'a> FetchFrame<'a> {
    /// Writes the frame's length, still 0, the header and the fields before the topics.
    ///
    /// # Errors
    /// When `version` is not one of 4 to 18.
    pub fn begin(out: &'a mut Vec<u8>, version: i16, head: &ResponseHead, topics: usize) -> Result<Self, EncodeError> {
        if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
            return Err(EncodeError { what: WHAT, version, why: "only versions 4 to 18 are known" });
        }
        let mut frame = Self { start: out.len(), out, version, records_bytes: 0 };
        let mut w = frame.writer();
        w.write_i32(0);
        w.write_i32(head.correlation_id);
        frame.no_tags();
        let mut w = frame.writer();
        w.write_i32(head.throttle_ms);
        if version >= SESSION_FROM {
            w.write_i16(head.error.0);
            w.write_i32(head.session_id);
        }
        frame.count(topics);
        Ok(frame)
    }

    /// Starts a topic; up to version 12 by its name, later by its id.
    pub fn topic(&mut self, id: Uuid, name: &str, partitions: usize) {
        if self.version >= TOPIC_ID_FROM {
            self.writer().write_slice(&id.0);
        } else if self.is_flexible() {
            self.compact_string(Some(name));
        } else {
            // Names have at most 249 characters.
            self.writer().write_i16(i16::try_from(name.len()).unwrap_or(i16::MAX));
            self.writer().write_slice(name.as_bytes());
        }
        self.count(partitions);
    }

    /// Writes what comes before the partition's batches and tells the byte of the buffer at which they belong. `head.topic` does not
    /// matter. Without a list of aborted transactions null is written, as brokers do for consumers that read everything.
    pub fn partition(&mut self, head: &PartitionHead, aborted: Option<&[AbortedTransaction]>) -> usize {
        let version = self.version;
        let mut w = self.writer();
        w.write_i32(head.index);
        w.write_i16(head.error.0);
        w.write_i64(head.high_watermark);
        w.write_i64(head.last_stable_offset);
        if version >= LOG_START_FROM {
            w.write_i64(head.log_start_offset);
        }
        match aborted {
            None if self.is_flexible() => self.writer().write_uvarint(0),
            None => self.writer().write_i32(-1),
            Some(list) => {
                self.count(list.len());
                for each in list {
                    let mut w = self.writer();
                    w.write_i64(each.producer_id);
                    w.write_i64(each.first_offset);
                    self.no_tags();
                }
            }
        }
        if version >= PREFERRED_REPLICA_FROM {
            self.writer().write_i32(head.preferred_read_replica);
        }
        // Never null: librdkafka takes null batches for a broken response.
        self.count(head.records_bytes as usize);
        self.records_bytes += head.records_bytes as usize;
        self.out.len()
    }

    /// Writes what comes after the partition's batches.
    pub fn partition_end(&mut self, tail: &PartitionTail) {
        if !self.is_flexible() {
            return;
        }
        let count = u32::from(tail.diverging.is_some()) + u32::from(tail.current_leader.is_some());
        let mut w = self.writer();
        w.write_uvarint(count);
        if let Some(end) = tail.diverging {
            w.write_uvarint(TAG_DIVERGING_EPOCH);
            w.write_uvarint(13);
            w.write_i32(end.epoch);
            w.write_i64(end.end_offset);
            w.write_uvarint(0);
        }
        if let Some(leader) = tail.current_leader {
            w.write_uvarint(TAG_CURRENT_LEADER);
            w.write_uvarint(9);
            w.write_i32(leader.id);
            w.write_i32(leader.epoch);
            w.write_uvarint(0);
        }
    }

    /// Ends a topic after its last partition.
    pub fn topic_end(&mut self) {
        self.no_tags();
    }

    /// Ends the response and writes the frame's length, the batches counted in. Endpoints are left out before version 16.
    ///
    /// # Errors
    /// When the frame would be 2 GiB or more.
    pub fn end(mut self, nodes: &[Endpoint<'_>]) -> Result<(), EncodeError> {
        if nodes.is_empty() || self.version < NODE_ENDPOINTS_FROM {
            self.no_tags();
        } else {
            self.nodes(nodes);
        }
        let bytes = self.out.len() - self.start - LENGTH_BYTES + self.records_bytes;
        let Ok(bytes) = i32::try_from(bytes) else {
            return Err(EncodeError { what: WHAT, version: self.version, why: "the frame would be 2 GiB or more" });
        };
        self.out[self.start..self.start + LENGTH_BYTES].copy_from_slice(&bytes.to_be_bytes());
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Endpoint<'_>]) {
        let mut w = self.writer();
        w.write_uvarint(1);
        w.write_uvarint(TAG_NODE_ENDPOINTS);
        let start = self.out.len();
        self.count(nodes.len());
        for node in nodes {
            self.writer().write_i32(node.id);
            self.compact_string(Some(node.host));
            self.writer().write_i32(node.port.into());
            self.compact_string(node.rack);
            self.no_tags();
        }
        self.writer().insert_uvarint_length(start);
    }

    fn writer(&mut self) -> Writer<'_> {
        Writer::new(self.out)
    }

    fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_FROM
    }

    fn no_tags(&mut self) {
        if self.is_flexible() {
            self.writer().write_uvarint(0);
        }
    }

    /// A count or length that is not null. What does not fit 31 bits is caught by [`FetchFrame::end`].
    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX - 1);
        if self.is_flexible() {
            self.writer().write_uvarint(count + 1);
        } else {
            self.writer().write_u32(count);
        }
    }

    fn compact_string(&mut self, text: Option<&str>) {
        match text {
            None => self.writer().write_uvarint(0),
            Some(text) => {
                self.count(text.len());
                self.writer().write_slice(text.as_bytes());
            }
        }
    }
}
