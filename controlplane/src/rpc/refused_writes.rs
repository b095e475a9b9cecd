//! pure: Produce and InitProducerId, answered only to refuse: a mirrored topic is read-only, and a stock producer that is
//! told so stops at once instead of trying for ever.

use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use twinlog_proto::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};

/// Why nothing may be written here.
pub const WHY: &str =
    "mirrored topics are read-only; stop the mirroring of the topic and write to the broker that takes it over";
/// The producer does not wait for an answer.
const ACKS_NONE: i16 = 0;

/// The answer to Produce; `None` when none is expected.
#[must_use]
pub fn produce(request: &ProduceRequest) -> Option<ProduceResponse> {
    let refused = |index: i32| PartitionProduceResponse {
        index,
        error_code: ErrorCode::POLICY_VIOLATION.0,
        base_offset: -1,
        error_message: Some(WHY.to_owned()),
        ..PartitionProduceResponse::default()
    };
    let responses = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic.partition_data.iter().map(|partition| refused(partition.index)).collect(),
    });
    let response = ProduceResponse { responses: responses.collect(), ..ProduceResponse::default() };
    (request.acks != ACKS_NONE).then_some(response)
}

/// The answer to InitProducerId. It has no room for words, and of the codes that fit, a producer of librdkafka stops at few (at others, of
/// which POLICY_VIOLATION is one, it asks again for ever); Java's fails what it was given and asks again with the next record.
#[must_use]
pub fn init_producer_id(_request: &InitProducerIdRequest) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    }
}
