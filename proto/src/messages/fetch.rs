//! pure: what a Fetch response says, one event at a time.
//!
//! ```text
//! i32 correlationId | v12+: tags | i32 throttleMs | v7+: i16 error | v7+: i32 sessionId
//! topics:     v13+: uuid | else name
//!   partitions: i32 index | i16 error | i64 highWatermark | i64 lastStableOffset | v5+: i64 logStartOffset
//!     | aborted transactions | v11+: i32 preferredReadReplica | length, record batches
//!     | v12+: tags (0 divergingEpoch, 1 currentLeader, 2 snapshotId)
//!   v12+: tags of the topic
//! v12+: tags of the response (v16+: 0 nodeEndpoints)
//! ```
//! The response is never held in memory as a whole: [`walker::FetchWalker`] takes it in pieces, [`encode::FetchFrame`] writes
//! everything but the batches.

pub mod encode;
pub mod walker;

use crate::error_code::ErrorCode;
use crate::ids::Uuid;

/// The oldest Fetch version whose responses are understood.
pub const VERSION_MIN: i16 = 4;
/// The newest Fetch version whose responses are understood.
pub const VERSION_MAX: i16 = 18;
/// The longest host name that a node endpoint may have, in bytes.
pub const HOST_BYTES_MAX: usize = 255;

const SESSION_FROM: i16 = 7;
const LOG_START_FROM: i16 = 5;
const PREFERRED_REPLICA_FROM: i16 = 11;
const FLEXIBLE_FROM: i16 = 12;
const TOPIC_ID_FROM: i16 = 13;
const NODE_ENDPOINTS_FROM: i16 = 16;

const TAG_DIVERGING_EPOCH: u32 = 0;
const TAG_CURRENT_LEADER: u32 = 1;
const TAG_NODE_ENDPOINTS: u32 = 0;

/// The fields before the first topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// Of the request that this answers.
    pub correlation_id: i32,
    /// How long the broker wants the connection to pause, ms.
    pub throttle_ms: i32,
    /// Of the whole response; none below version 7.
    pub error: ErrorCode,
    /// The fetch session, 0 none.
    pub session_id: i32,
}

/// Which topic a partition belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicRef {
    /// Version 13 and later.
    Id(Uuid),
    /// Up to version 12: [`walker::FetchWalker::topic_name`] has it.
    Name,
}

/// The fields of a partition before its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionHead {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub index: i32,
    /// Of this partition.
    pub error: ErrorCode,
    /// End of what consumers may read, -1 unknown.
    pub high_watermark: i64,
    /// End of what transactional consumers may read, -1 unknown.
    pub last_stable_offset: i64,
    /// First offset that the source still has, -1 unknown.
    pub log_start_offset: i64,
    /// The replica to read from instead, -1 none.
    pub preferred_read_replica: i32,
    /// Bytes of batches that follow; null counts as 0.
    pub records_bytes: u32,
}

/// The fields of a partition after its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionTail {
    /// The log we described is no prefix of the leader's.
    pub diverging: Option<EpochEnd>,
    /// Who leads the partition, when it is not the answering broker.
    pub current_leader: Option<CurrentLeader>,
}

/// Where an epoch ends in the leader's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch at or below the one asked for.
    pub epoch: i32,
    /// One after its last offset.
    pub end_offset: i64,
}

/// The leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CurrentLeader {
    /// Its node id, -1 unknown.
    pub id: i32,
    /// Its epoch, -1 unknown.
    pub epoch: i32,
}

/// Where a node listens; [`walker::FetchWalker::host`] has the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Its id.
    pub id: i32,
    /// Its port.
    pub port: u16,
}
