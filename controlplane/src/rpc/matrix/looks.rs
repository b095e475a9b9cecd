//! Rows of the requests that only look, and of those that are refused.

use super::{Answered, Matrix, board};
use crate::mirror::catalog::Catalog;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::{
    Endpoint, api_versions, describe_cluster, describe_configs, describe_mirrors, find_coordinator,
    last_mirrored_offsets, list_mirrors, list_offsets, metadata, read_mirror_states, refused_writes,
};
use twinlog_proto::api;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::api_versions::ApiVersionsRequest;
use twinlog_proto::messages::describe_cluster::DescribeClusterRequest;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::init_producer_id::InitProducerIdRequest;
use twinlog_proto::messages::last_mirrored_offsets::{self as lmo, LastMirroredOffsetsRequest};
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use twinlog_proto::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use twinlog_proto::messages::read_mirror_states::{self as states, ReadMirrorStatesRequest};

fn us() -> Endpoint {
    Endpoint { cluster_id: "own".into(), node_id: 1, host: "h".into(), port: 9192 }
}

/// The requests of stock clients.
pub(super) fn stock(matrix: &mut Matrix, catalog: &Catalog) {
    produce(matrix);
    offsets(matrix, catalog);
    topics(matrix, catalog);
    coordinators(matrix);
    matrix.api(api::API_VERSIONS);
    for (case, name, version) in
        [("a client's name", "x-1.y", 4), ("ClientSoftwareName empty", "", 3), ("ClientSoftwareName odd", "-x", 4)]
    {
        let request = ApiVersionsRequest { client_software_name: name.into(), client_software_version: "1".into() };
        matrix.row(case, Answered::whole(api_versions::handle(&request, version, |_| true).error_code, 0));
    }
    matrix.row("a version that is not served", Answered::whole(api_versions::unsupported().error_code, 0));
    matrix.api(api::INIT_PRODUCER_ID);
    let answer = refused_writes::init_producer_id(&InitProducerIdRequest::default());
    matrix.row("anything", Answered::whole(answer.error_code, 0));
    configs(matrix, catalog);
    matrix.api(api::DESCRIBE_CLUSTER);
    for endpoint_type in [1, 2, 0, 9] {
        let request = DescribeClusterRequest { endpoint_type, ..Default::default() };
        let code = describe_cluster::handle(&request, &us()).error_code;
        matrix.row(&format!("EndpointType {endpoint_type}"), Answered::whole(code, 0));
    }
}

fn produce(matrix: &mut Matrix) {
    matrix.api(api::PRODUCE);
    for (case, acks, topics) in [
        ("TopicData empty", 1, &[][..]),
        ("a mirrored topic and one that is not", 1, &["flows", "nope"]),
        ("acks=0 (no answer is sent)", 0, &["flows"]),
    ] {
        let partition = || PartitionProduceData::default();
        let topic = |name: &&str| TopicProduceData {
            name: (*name).into(),
            partition_data: vec![partition()],
            ..Default::default()
        };
        let request = ProduceRequest { acks, topic_data: topics.iter().map(topic).collect(), ..Default::default() };
        let answer = refused_writes::produce(&request).unwrap_or_default();
        let items = answer.responses.iter().map(|topic| (topic.name.clone(), topic.partition_responses[0].error_code));
        matrix.row(case, Answered::items(0, items, 0));
    }
}

fn offsets(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::LIST_OFFSETS);
    let board = board(catalog);
    for (case, name, partition_index, timestamp, current_leader_epoch, version) in [
        ("the end", "flows", 0, -1, 4, 8),
        ("the data plane does not show it", "paused", 0, -1, -1, 8),
        ("the same for an old client", "paused", 0, -1, -1, 4),
        ("Name unknown", "nope", 0, -1, -1, 8),
        ("Name empty", "", 0, -1, -1, 8),
        ("PartitionIndex unknown", "flows", 7, -1, -1, 8),
        ("Timestamp of a time", "flows", 0, 1_700_000_000_000, -1, 8),
        ("CurrentLeaderEpoch behind", "flows", 0, -1, 3, 8),
        ("CurrentLeaderEpoch ahead", "flows", 0, -1, 5, 8),
    ] {
        let partition = ListOffsetsPartition { partition_index, current_leader_epoch, timestamp };
        let topics = vec![ListOffsetsTopic { name: name.into(), partitions: vec![partition] }];
        let request = ListOffsetsRequest { topics, ..Default::default() };
        let answer = list_offsets::handle(&request, version, catalog, &View::new(&board, 0));
        let items = answer.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.partitions[0].error_code));
        matrix.row(case, Answered::items(0, items, 0));
    }
}

fn topics(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::METADATA);
    let board = Board::default();
    let mut row = |case: &str, topics: Option<Vec<(Option<&str>, u8)>>| {
        let topic = |(name, id): (Option<&str>, u8)| MetadataRequestTopic {
            topic_id: Uuid([id; 16]),
            name: name.map(Into::into),
        };
        let topics = topics.map(|topics| topics.into_iter().map(topic).collect());
        let request = MetadataRequest { topics, ..Default::default() };
        let answer = metadata::handle(&request, 12, catalog, &View::new(&board, 0), &us());
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "(by id)".to_owned());
        let items = answer.topics.iter().map(|topic| (name(&topic.name), topic.error_code));
        matrix.row(case, Answered::items(0, items, 0));
    };
    row("Topics null", None);
    row("Topics empty", Some(Vec::new()));
    row("one unknown of two", Some(vec![(Some("flows"), 0), (Some("nope"), 0)]));
    row("Name no topic name", Some(vec![(Some("a/b"), 0), (Some(""), 0)]));
    row("TopicId known and unknown", Some(vec![(None, 1), (None, 99)]));
    row("neither Name nor TopicId", Some(vec![(None, 0)]));
    row("a topic twice", Some(vec![(Some("flows"), 0), (Some("flows"), 0)]));
}

fn coordinators(matrix: &mut Matrix) {
    matrix.api(api::FIND_COORDINATOR);
    for (case, key_type, version, keys) in [
        ("a mirror", 3, 7, &["m"][..]),
        ("a mirror that nobody made (the coordinator says so)", 3, 7, &["no"]),
        ("CoordinatorKeys empty", 3, 7, &[]),
        ("a mirror at version 6", 3, 6, &["m"]),
        ("a group", 0, 7, &["g"]),
        ("a transaction", 1, 7, &["t"]),
        ("a share group", 2, 7, &["s"]),
        ("KeyType unknown", 9, 7, &["x"]),
    ] {
        let coordinator_keys = keys.iter().map(|key| (*key).into()).collect();
        let request = FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() };
        let answer = find_coordinator::handle(&request, version, &us());
        let items = answer.coordinators.iter().map(|found| (found.key.clone(), found.error_code));
        matrix.row(case, Answered::items(answer.error_code, items, 0));
    }
}

fn configs(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::DESCRIBE_CONFIGS);
    let mut row = |case: &str, resources: &[(i8, &str)], keys: Option<&[&str]>| {
        let resource = |(resource_type, name): &(i8, &str)| DescribeConfigsResource {
            resource_type: *resource_type,
            resource_name: (*name).into(),
            configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).into()).collect()),
        };
        let resources = resources.iter().map(resource).collect();
        let request = DescribeConfigsRequest { resources, ..Default::default() };
        let answer = describe_configs::handle(&request, catalog, &us());
        let items = answer.results.iter().map(|r| (format!("{} {:?}", r.resource_type, r.resource_name), r.error_code));
        matrix.row(case, Answered::items(0, items, 0));
    };
    row("Resources empty", &[], None);
    row("one unknown of each kind", &[(64, "m"), (64, "no"), (2, "flows"), (2, "nope"), (2, "")], None);
    row("ResourceType unknown", &[(0, "m"), (9, "m")], None);
    row("a node", &[(4, "1"), (4, ""), (4, "2"), (4, "x")], None);
    row("a resource twice", &[(64, "m"), (64, "m")], None);
    row("ConfigurationKeys unknown (none are told)", &[(64, "m")], Some(&["no.such.key"]));
}

/// A topic and its partitions.
type Asked<'a> = (&'a str, &'a [i32]);

/// The requests that look at mirrors.
pub(super) fn mirrors(matrix: &mut Matrix, catalog: &Catalog) {
    let board = Board::default();
    let view = View::new(&board, 0);
    matrix.api(api::LIST_MIRRORS);
    let answer = list_mirrors::handle(&ListMirrorsRequest::default(), catalog);
    matrix.row("anything", Answered::whole(answer.error_code, 0));

    matrix.api(api::DESCRIBE_MIRRORS);
    for (case, names) in [
        ("MirrorNames null", None),
        ("MirrorNames empty", Some(&[][..])),
        ("one unknown of two", Some(&["m", "no"])),
        ("an empty name", Some(&[""])),
        ("a mirror twice", Some(&["m", "m"])),
    ] {
        let mirror_names = names.map(|names| names.iter().map(|name| (*name).into()).collect());
        let answer =
            describe_mirrors::handle(&DescribeMirrorsRequest { mirror_names, ..Default::default() }, catalog, &view);
        let items = answer.mirrors.iter().map(|mirror| (format!("{:?}", mirror.mirror_name), mirror.error_code));
        matrix.row(case, Answered::items(answer.error_code, items, 0));
    }
    let cases: [(&str, &str, &[Asked<'_>]); 6] = [
        ("MirrorName unknown", "no", &[]),
        ("Topics empty (asks for all)", "m", &[]),
        ("Partitions empty (asks for all)", "m", &[("flows", &[])]),
        ("Name unknown", "m", &[("nope", &[0]), ("theirs", &[]), ("stopped", &[0])]),
        ("PartitionIndex unknown", "m", &[("flows", &[0, 7, -1])]),
        ("a topic and a partition twice", "m", &[("flows", &[0, 0]), ("flows", &[0])]),
    ];
    matrix.api(api::LAST_MIRRORED_OFFSETS);
    for (case, mirror, topics) in cases {
        let partitions = |all: &[i32]| all.iter().map(|i| lmo::PartitionData { partition_index: *i }).collect();
        let topic = |(name, all): &(&str, &[i32])| lmo::TopicData { name: (*name).into(), partitions: partitions(all) };
        let topics = topics.iter().map(topic).collect();
        let request = LastMirroredOffsetsRequest { mirror_name: mirror.into(), topics };
        let answer = last_mirrored_offsets::handle(&request, catalog);
        let items = answer.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| (format!("\"{}\"-{}", topic.name, p.partition_index), p.error_code))
        });
        matrix.row(case, Answered::items(answer.error_code, items, 0));
    }
    matrix.api(api::READ_MIRROR_STATES);
    for (case, mirror, topics) in cases {
        let partitions = |all: &[i32]| all.iter().map(|i| states::PartitionData { partition_index: *i }).collect();
        let topic =
            |(name, all): &(&str, &[i32])| states::TopicData { name: (*name).into(), partitions: partitions(all) };
        let topics = topics.iter().map(topic).collect();
        let answer =
            read_mirror_states::handle(&ReadMirrorStatesRequest { mirror_name: mirror.into(), topics }, catalog, &view);
        let items = answer.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| (format!("\"{}\"-{}", topic.name, p.partition_index), p.error_code))
        });
        matrix.row(case, Answered::items(answer.error_code, items, 0));
    }
}
