//! pure: ListOffsets: the ends of mirrored logs as the board shows them. Offsets by time need the records, which the
//! control plane never sees.

use crate::mirror::catalog::{Catalog, Topic};
use crate::plane::view::View;
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// Everything is local here, so this is the earliest.
const EARLIEST_LOCAL: i64 = -4;
const READ_COMMITTED: i8 = 1;
/// OFFSET_NOT_AVAILABLE is known to clients from this version on.
const NOT_AVAILABLE_FROM: i16 = 5;

/// The answer.
#[must_use]
pub fn handle(request: &ListOffsetsRequest, version: i16, catalog: &Catalog, view: &View<'_>) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|asked| {
        let topic = catalog.owner_of(&asked.name).map(|(_, topic)| topic);
        let committed = request.isolation_level == READ_COMMITTED;
        let one = |partition: &ListOffsetsPartition| {
            let (error_code, offset, leader_epoch) = match offset(partition, version, committed, topic, view) {
                Ok((offset, epoch)) => (0, offset, epoch),
                Err(code) => (code.0, -1, -1),
            };
            let partition_index = partition.partition_index;
            ListOffsetsPartitionResponse { partition_index, error_code, timestamp: -1, offset, leader_epoch }
        };
        ListOffsetsTopicResponse { name: asked.name.clone(), partitions: asked.partitions.iter().map(one).collect() }
    });
    ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() }
}

fn offset(
    asked: &ListOffsetsPartition,
    version: i16,
    committed: bool,
    topic: Option<&Topic>,
    view: &View<'_>,
) -> Result<(i64, i32), ErrorCode> {
    let index = asked.partition_index;
    let known = topic.filter(|topic| topic.partitions.contains_key(&index) && !topic.facts.id.is_zero());
    let topic = known.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let absent =
        if version >= NOT_AVAILABLE_FROM { ErrorCode::OFFSET_NOT_AVAILABLE } else { ErrorCode::LEADER_NOT_AVAILABLE };
    let seen = view.progress(topic, index).filter(|seen| seen.leo >= 0).ok_or(absent)?;
    match (asked.current_leader_epoch, seen.leader_epoch) {
        (..0, _) | (_, ..0) => {}
        (theirs, ours) if theirs < ours => return Err(ErrorCode::FENCED_LEADER_EPOCH),
        (theirs, ours) if theirs > ours => return Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => {}
    }
    match asked.timestamp {
        LATEST => Ok((end(&seen, committed), seen.last_epoch)),
        EARLIEST | EARLIEST_LOCAL => Ok((seen.log_start.max(0), -1)),
        _ => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}

/// What a client may read up to: nothing beyond what the source calls committed.
fn end(seen: &PartitionProgress, committed: bool) -> i64 {
    let below = |end: i64, bound: i64| if bound >= 0 { end.min(bound) } else { end };
    let end = below(seen.leo, seen.source_high_watermark);
    if committed { below(end, seen.source_lso) } else { end }
}
