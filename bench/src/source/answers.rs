//! pure: answers everything but Fetch the way a stock broker does, one broker leading every partition.

use twinlog_proto::api;
use twinlog_proto::error::{DecodeError, EncodeError, Malformed};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame::{self, RequestHeader};
use twinlog_proto::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use twinlog_proto::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use twinlog_proto::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use twinlog_proto::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use twinlog_proto::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};
use twinlog_proto::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use twinlog_proto::messages::{Message, Request};
use twinlog_proto::reader::Reader;

use super::batches::FIRST_TIMESTAMP_MS;
use super::configs;
use super::read::fenced;
use super::store::{Store, Topic};

/// The node id of the only broker.
pub const NODE_ID: i32 = 1;

/// The request kinds served: key, lowest and highest version, as a stock 4.x broker has them (FindCoordinator and Metadata also older).
pub const SERVED: [(i16, i16, i16); 9] = [
    // Refused, but librdkafka takes a broker without Produce for one that cannot serve modern Fetch.
    (api::PRODUCE, 3, 13),
    (api::FETCH, 4, 17),
    (api::LIST_OFFSETS, 1, 11),
    (api::METADATA, 0, 13),
    (api::FIND_COORDINATOR, 0, 6),
    (api::API_VERSIONS, 0, 4),
    (api::OFFSET_FOR_LEADER_EPOCH, 2, 4),
    (api::DESCRIBE_CONFIGS, 1, 4),
    (api::DESCRIBE_CLUSTER, 0, 2),
];

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const TIERED: [i64; 2] = [-5, -6];

/// The cluster as clients see it.
#[derive(Debug)]
pub struct Cluster {
    /// Its id.
    pub id: String,
    /// Host that clients are told to connect to.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its topics.
    pub store: Store,
}

/// Whether a request of this kind and version is served.
#[must_use]
pub fn is_served(key: i16, version: i16) -> bool {
    SERVED.iter().any(|(served, min, max)| *served == key && (*min..=*max).contains(&version))
}

/// Answers a request that is not Fetch, into `out`.
///
/// # Errors
/// When the request is malformed or not served: a broker then closes the connection.
pub fn answer(
    cluster: &Cluster,
    header: &RequestHeader,
    body: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    if header.api_key == api::API_VERSIONS && !is_served(header.api_key, header.api_version) {
        return encode(out, 0, header, &refuse_api_versions());
    }
    match header.api_key {
        api::API_VERSIONS => with(header, body, out, api_versions),
        api::METADATA => with(header, body, out, |request| metadata(cluster, header.api_version, request)),
        api::LIST_OFFSETS => with(header, body, out, |request| list_offsets(cluster, request)),
        api::FIND_COORDINATOR => with(header, body, out, |request| find_coordinator(header.api_version, request)),
        api::OFFSET_FOR_LEADER_EPOCH => with(header, body, out, |request| leader_epochs(cluster, request)),
        api::DESCRIBE_CONFIGS => with(header, body, out, |request| configs::describe(&cluster.store, request)),
        api::PRODUCE => refuse_produce(header, body, out),
        api::DESCRIBE_CLUSTER => with(header, body, out, |request| describe_cluster(cluster, request)),
        _ => Err(body.error(Malformed::Rule("the request kind is not served"))),
    }
}

fn with<R: Request>(
    header: &RequestHeader,
    body: &mut Reader<'_>,
    out: &mut Vec<u8>,
    answer: impl FnOnce(&R) -> R::Response,
) -> Result<(), DecodeError> {
    let request = R::decode(body, header.api_version)?;
    encode(out, header.api_version, header, &answer(&request))
}

fn encode<M: Message>(out: &mut Vec<u8>, version: i16, header: &RequestHeader, message: &M) -> Result<(), DecodeError> {
    let written = frame::encode_response(out, version, header.correlation_id, message);
    written.map_err(|cause: EncodeError| DecodeError::rule(cause.what, 0, cause.why))
}

fn refuse_api_versions() -> ApiVersionsResponse {
    let api_keys = served_keys().into_iter().filter(|served| served.api_key == api::API_VERSIONS).collect();
    ApiVersionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION.0, api_keys, ..Default::default() }
}

fn api_versions(_: &ApiVersionsRequest) -> ApiVersionsResponse {
    ApiVersionsResponse { api_keys: served_keys(), finalized_features_epoch: 0, ..Default::default() }
}

fn served_keys() -> Vec<ApiVersion> {
    SERVED.iter().map(|&(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version }).collect()
}

fn metadata(cluster: &Cluster, version: i16, request: &MetadataRequest) -> MetadataResponse {
    let store = &cluster.store;
    let topics = match &request.topics {
        None => store.topics().iter().map(|topic| describe_topic(store, topic)).collect(),
        Some(asked) if asked.is_empty() && version == 0 => {
            store.topics().iter().map(|topic| describe_topic(store, topic)).collect()
        }
        Some(asked) => asked.iter().map(|topic| describe_asked(store, topic)).collect(),
    };
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: NODE_ID,
            host: cluster.host.clone(),
            port: cluster.port.into(),
            rack: None,
        }],
        cluster_id: Some(cluster.id.clone()),
        controller_id: NODE_ID,
        topics,
        ..Default::default()
    }
}

fn describe_asked(store: &Store, asked: &MetadataRequestTopic) -> MetadataResponseTopic {
    let (found, error) = match &asked.name {
        Some(name) => (store.topic_named(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => (store.topic_of(asked.topic_id), ErrorCode::UNKNOWN_TOPIC_ID),
    };
    if let Some(topic) = found {
        return describe_topic(store, topic);
    }
    MetadataResponseTopic {
        error_code: error.0,
        name: asked.name.clone(),
        topic_id: asked.topic_id,
        ..Default::default()
    }
}

fn describe_topic(store: &Store, topic: &Topic) -> MetadataResponseTopic {
    let partition = |index: u32| MetadataResponsePartition {
        partition_index: index.cast_signed(),
        leader_id: NODE_ID,
        leader_epoch: store.batches().shape().leader_epoch,
        replica_nodes: vec![NODE_ID],
        isr_nodes: vec![NODE_ID],
        ..Default::default()
    };
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        partitions: (0..store.partitions_each()).map(partition).collect(),
        ..Default::default()
    }
}

fn list_offsets(cluster: &Cluster, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(|asked| list_offset(&cluster.store, &topic.name, asked)).collect(),
    });
    ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
}

fn list_offset(store: &Store, topic: &str, asked: &ListOffsetsPartition) -> ListOffsetsPartitionResponse {
    let partition_index = asked.partition_index;
    let refuse =
        |error: ErrorCode| ListOffsetsPartitionResponse { partition_index, error_code: error.0, ..Default::default() };
    let Some(end) = end_of(store, topic, partition_index) else { return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) };
    let leader_epoch = store.batches().shape().leader_epoch;
    if let Some(error) = fenced(leader_epoch, asked.current_leader_epoch) {
        return refuse(error);
    }
    // Records are one millisecond apart, so an offset is a distance in time.
    let of_time = |at_ms: i64| match at_ms.saturating_sub(FIRST_TIMESTAMP_MS).max(0) {
        offset if offset < end => (FIRST_TIMESTAMP_MS.saturating_add(offset), offset),
        _ => (-1, -1),
    };
    let (timestamp, offset) = match asked.timestamp {
        LATEST => (-1, end),
        EARLIEST | EARLIEST_LOCAL => (-1, 0),
        MAX_TIMESTAMP if end > 0 => of_time(FIRST_TIMESTAMP_MS.saturating_add(end - 1)),
        MAX_TIMESTAMP => (-1, -1),
        other if TIERED.contains(&other) => (-1, -1),
        other if other < 0 => return refuse(ErrorCode::UNSUPPORTED_VERSION),
        at_ms => of_time(at_ms),
    };
    let leader_epoch = if offset < 0 { -1 } else { leader_epoch };
    ListOffsetsPartitionResponse { partition_index, timestamp, offset, leader_epoch, ..Default::default() }
}

fn end_of(store: &Store, topic: &str, partition: i32) -> Option<i64> {
    store.high_watermark(store.number_named(topic, partition)?)
}

fn find_coordinator(version: i16, request: &FindCoordinatorRequest) -> FindCoordinatorResponse {
    let error_code = ErrorCode::COORDINATOR_NOT_AVAILABLE.0;
    if version < 4 {
        return FindCoordinatorResponse { error_code, node_id: -1, port: -1, ..Default::default() };
    }
    let refuse =
        |key: &String| Coordinator { key: key.clone(), node_id: -1, port: -1, error_code, ..Default::default() };
    FindCoordinatorResponse {
        coordinators: request.coordinator_keys.iter().map(refuse).collect(),
        ..Default::default()
    }
}

fn leader_epochs(cluster: &Cluster, request: &OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: topic.partitions.iter().map(|asked| leader_epoch(&cluster.store, &topic.topic, asked)).collect(),
    });
    OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
}

fn leader_epoch(store: &Store, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let partition = asked.partition;
    let refuse = |error: ErrorCode| EpochEndOffset { partition, error_code: error.0, ..Default::default() };
    let Some(end) = end_of(store, topic, partition) else { return refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) };
    let epoch = store.batches().shape().leader_epoch;
    if let Some(error) = fenced(epoch, asked.current_leader_epoch) {
        return refuse(error);
    }
    // The log has one epoch, which starts at 0: an older one ends there, a newer one is not known.
    let (leader_epoch, end_offset) = match asked.leader_epoch {
        older if older < epoch => (older, 0),
        same if same == epoch => (epoch, end),
        _ => (-1, -1),
    };
    EpochEndOffset { partition, leader_epoch, end_offset, ..Default::default() }
}

/// A client that wants no answer (acks 0) gets none; it would take one for the answer to its next request.
fn refuse_produce(header: &RequestHeader, body: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let request = ProduceRequest::decode(body, header.api_version)?;
    if request.acks == 0 {
        return Ok(());
    }
    let refused = |index: i32| PartitionProduceResponse {
        index,
        error_code: ErrorCode::POLICY_VIOLATION.0,
        base_offset: -1,
        error_message: Some("the embedded source makes its own records: nothing can be produced to it".to_owned()),
        ..Default::default()
    };
    let responses = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic.partition_data.iter().map(|partition| refused(partition.index)).collect(),
    });
    let response = ProduceResponse { responses: responses.collect(), ..Default::default() };
    encode(out, header.api_version, header, &response)
}

fn describe_cluster(cluster: &Cluster, request: &DescribeClusterRequest) -> DescribeClusterResponse {
    DescribeClusterResponse {
        endpoint_type: request.endpoint_type,
        cluster_id: cluster.id.clone(),
        controller_id: NODE_ID,
        brokers: vec![DescribeClusterBroker {
            broker_id: NODE_ID,
            host: cluster.host.clone(),
            port: cluster.port.into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}
