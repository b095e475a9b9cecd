//! pure: the requests of the floor, known ahead because every answer is.
//!
//! Each request asks every partition for the same whole number of batches, so no answer is ever cut and the length of the whole
//! stream of answers is known before the first byte.

use twinlog_proto::frame::encode_request;
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};

use super::stream::framing_bytes;
use crate::limits::FETCH_BYTES_MAX;
use crate::source::batches::Batches;

const VERSION: i16 = 11;
const SESSIONLESS: i32 = -1;
const WAIT_MS: i32 = 500;
/// Bytes of records that an answer aims at.
const ANSWER_BYTES: u64 = 8 << 20;

/// Makes one request after the other.
#[derive(Debug)]
pub struct Asker {
    topic: String,
    partitions: u32,
    batches_each: u64,
    batches_a_turn: u64,
    records_per_batch: u64,
    batch_bytes: u64,
    asked: u64,
    request: Vec<u8>,
}

impl Asker {
    /// Asks for `batches_each` batches of each of `partitions` partitions.
    #[must_use]
    pub fn new(topic: &str, partitions: u32, batches_each: u64, batches: &Batches) -> Self {
        let batch_bytes = batches.batch_bytes();
        Self {
            topic: topic.to_owned(),
            partitions,
            batches_each,
            batches_a_turn: (ANSWER_BYTES / (u64::from(partitions) * batch_bytes)).max(1),
            records_per_batch: batches.records_per_batch().into(),
            batch_bytes,
            asked: 0,
            request: Vec::new(),
        }
    }

    /// Requests made so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Bytes of all answers together, lengths included.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        let records = u64::from(self.partitions) * self.batches_each * self.batch_bytes;
        records + self.turns() * (framing_bytes(&self.topic, self.partitions))
    }

    /// The next request as a frame; none when everything has been asked for.
    pub fn next_request(&mut self) -> Option<&[u8]> {
        if self.asked == self.turns() {
            return None;
        }
        let from = self.asked * self.batches_a_turn;
        let bytes = (self.batches_each - from).min(self.batches_a_turn) * self.batch_bytes;
        let partitions = (0..self.partitions).map(|partition| FetchPartition {
            partition: partition.cast_signed(),
            fetch_offset: (from * self.records_per_batch).cast_signed(),
            partition_max_bytes: i32::try_from(bytes).unwrap_or(FETCH_BYTES_MAX),
            ..Default::default()
        });
        let request = FetchRequest {
            max_wait_ms: WAIT_MS,
            min_bytes: 1,
            max_bytes: FETCH_BYTES_MAX,
            session_epoch: SESSIONLESS,
            topics: vec![FetchTopic {
                topic: self.topic.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        self.request.clear();
        let correlation_id = (self.asked & 0xffff) as i32;
        encode_request(&mut self.request, VERSION, correlation_id, Some("floor"), &request).ok()?;
        self.asked += 1;
        Some(&self.request)
    }

    fn turns(&self) -> u64 {
        self.batches_each.div_ceil(self.batches_a_turn)
    }
}
