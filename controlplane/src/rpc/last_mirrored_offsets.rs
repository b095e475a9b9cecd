//! pure: LastMirroredOffsets: where mirroring into this cluster ended, as recorded; 0 when nothing is.
//!
//! No topics asks for all topics of the mirror, and no partitions for all partitions of the topic.

use crate::mirror::catalog::{Catalog, Topic};
use crate::rpc::{Refusal, once};
use std::sync::Arc;
use twinlog_proto::messages::last_mirrored_offsets::{
    LastMirroredOffsetsRequest, LastMirroredOffsetsResponse, PartitionResult, TopicData, TopicResult,
};

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
    let all = |topic: &Topic| topic.partitions.keys().copied().collect::<Vec<i32>>();
    let topics = if request.topics.is_empty() {
        mirror.topics.iter().map(|(name, topic)| result(name, Some(topic), all(topic))).collect()
    } else {
        let one = |asked: &TopicData| {
            let known = mirror.topics.get(&asked.name);
            let partitions = match known {
                Some(topic) if asked.partitions.is_empty() => all(topic),
                _ => asked.partitions.iter().map(|partition| partition.partition_index).collect(),
            };
            result(&asked.name, known, partitions)
        };
        let indexes = |asked: &TopicData| asked.partitions.iter().map(|p| p.partition_index).collect::<Vec<_>>();
        once(&request.topics, |asked| (&asked.name, indexes(asked))).map(one).collect()
    };
    LastMirroredOffsetsResponse { topics, ..LastMirroredOffsetsResponse::default() }
}

fn result(name: &str, topic: Option<&Arc<Topic>>, partitions: Vec<i32>) -> TopicResult {
    let one = |index: i32| {
        let last = topic.and_then(|topic| topic.partitions.get(&index)?.last_mirrored);
        PartitionResult {
            partition_index: index,
            last_mirrored_offset: last.map_or(0, |last| last.offset),
            last_mirror_epoch: last.map_or(-1, |last| last.epoch),
            error_code: 0,
        }
    };
    TopicResult { name: name.to_owned(), partitions: partitions.into_iter().map(one).collect() }
}
