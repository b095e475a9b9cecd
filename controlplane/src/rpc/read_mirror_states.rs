//! pure: ReadMirrorStates: what the state log says of partitions. One without a record is UNKNOWN, which is no error.
//!
//! No topics asks for all topics of the mirror, and no partitions for all partitions of the topic.

use crate::mirror::catalog::{Catalog, Standing};
use crate::plane::view::View;
use crate::rpc::Refusal;
use crate::rpc::topic_selection::{self, AskedTopic};
use crate::rpc::write_mirror_states::fencing_epoch;
use twinlog_proto::messages::read_mirror_states::{
    PartitionResult, ReadMirrorStatesRequest, ReadMirrorStatesResponse, TopicData, TopicResult,
};

/// In the first layout "never" is 0, later it is -1.
const NEVER_FIRST_LAYOUT: i64 = 0;

/// The answer.
#[must_use]
pub fn handle(request: &ReadMirrorStatesRequest, catalog: &Catalog, view: &View<'_>) -> ReadMirrorStatesResponse {
    let Some(mirror) = catalog.mirror(&request.mirror_name) else {
        let refusal = Refusal::unknown_mirror(&request.mirror_name);
        return ReadMirrorStatesResponse {
            error_code: refusal.code.0,
            error_message: Some(refusal.message),
            ..ReadMirrorStatesResponse::default()
        };
    };
    let indexes = |asked: &TopicData| asked.partitions.iter().map(|p| p.partition_index).collect();
    let asked = request.topics.iter().map(|asked| (asked.name.clone(), indexes(asked)));
    let topics = topic_selection::partitions(mirror, asked).into_iter().map(|asked| result(asked, view)).collect();
    ReadMirrorStatesResponse { topics, ..ReadMirrorStatesResponse::default() }
}

fn result(asked: AskedTopic<'_>, view: &View<'_>) -> TopicResult {
    let one = |index: i32| {
        let known = asked.topic.and_then(|topic| topic.partitions.get(&index));
        let standing = known.map_or_else(Standing::default, |partition| partition.standing.clone());
        let last = known.and_then(|partition| partition.last_mirrored);
        PartitionResult {
            partition_index: index,
            last_mirrored_offset: last.map_or(NEVER_FIRST_LAYOUT, |last| last.offset),
            state: standing.state.code(),
            leader_epoch: asked.topic.map_or(-1, |topic| fencing_epoch(topic, index, view)),
            state_epoch: standing.state_epoch,
            last_mirror_epoch: last.map_or(-1, |last| last.epoch),
            last_mirror_offset: last.map_or(-1, |last| last.offset),
            error_code: 0,
            error_message: standing.message,
            retry_attempt: standing.retry_attempt,
            previous_state: standing.previous.code(),
        }
    };
    TopicResult { partitions: asked.partitions.iter().map(|index| one(*index)).collect(), name: asked.name }
}
