//! pure: LastMirroredOffsets: where mirroring into this cluster ended, as recorded; 0 when nothing is.
//!
//! No topics asks for all topics of the mirror, and no partitions for all partitions of the topic. What does not exist has
//! no position, not the position 0: whoever cuts a log by this answer must not cut all of it for a wrong name.

use crate::mirror::catalog::Catalog;
use crate::rpc::Refusal;
use crate::rpc::topic_selection::{self, AskedTopic};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::last_mirrored_offsets::{
    LastMirroredOffsetsRequest, LastMirroredOffsetsResponse, PartitionResult, TopicData, TopicResult,
};

/// Stands for the whole of a topic that does not exist and of which no partition was named.
const WHOLE_TOPIC: i32 = -1;

/// The answer.
#[must_use]
pub fn handle(request: &LastMirroredOffsetsRequest, catalog: &Catalog) -> LastMirroredOffsetsResponse {
    let Some(mirror) = catalog.mirror(&request.mirror_name) else {
        let refusal = Refusal::unknown_mirror(&request.mirror_name);
        return LastMirroredOffsetsResponse {
            error_code: refusal.code.0,
            error_message: Some(refusal.message),
            ..LastMirroredOffsetsResponse::default()
        };
    };
    let indexes = |asked: &TopicData| asked.partitions.iter().map(|p| p.partition_index).collect();
    let asked = request.topics.iter().map(|asked| (asked.name.clone(), indexes(asked)));
    let topics = topic_selection::partitions(mirror, asked).into_iter().map(result).collect();
    LastMirroredOffsetsResponse { topics, ..LastMirroredOffsetsResponse::default() }
}

fn result(asked: AskedTopic<'_>) -> TopicResult {
    let absent = |partition_index: i32| PartitionResult {
        partition_index,
        last_mirrored_offset: -1,
        last_mirror_epoch: -1,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
    };
    let one = |partition_index: i32| {
        let Some(known) = asked.topic.and_then(|topic| topic.partitions.get(&partition_index)) else {
            return absent(partition_index);
        };
        PartitionResult {
            partition_index,
            last_mirrored_offset: known.last_mirrored.map_or(0, |last| last.offset),
            last_mirror_epoch: known.last_mirrored.map_or(-1, |last| last.epoch),
            error_code: 0,
        }
    };
    let mut partitions: Vec<PartitionResult> = asked.partitions.iter().map(|index| one(*index)).collect();
    if asked.topic.is_none() && partitions.is_empty() {
        partitions.push(absent(WHOLE_TOPIC));
    }
    TopicResult { name: asked.name, partitions }
}
