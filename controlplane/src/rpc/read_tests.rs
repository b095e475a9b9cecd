//! The requests that only look. What a pass proves: what is unknown has the code or the value that the layouts give it, and
//! what the board shows is told as it is.

use super::tests::world;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::{
    Endpoint, describe_cluster, describe_configs, describe_mirrors, find_coordinator, last_mirrored_offsets,
    list_mirrors, metadata, read_mirror_states,
};
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::describe_cluster::DescribeClusterRequest;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, PartitionDetail};
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::last_mirrored_offsets::{self as lmo, LastMirroredOffsetsRequest};
use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use twinlog_proto::messages::read_mirror_states::{self as states, ReadMirrorStatesRequest};

pub(super) fn us() -> Endpoint {
    Endpoint { cluster_id: "own".into(), node_id: 1, host: "h".into(), port: 9192 }
}

fn describe(mirrors: &[&str], topics: &[&str], board: &Board, now_ms: i64) -> (Vec<i16>, Vec<PartitionDetail>) {
    let request = DescribeMirrorsRequest {
        mirror_names: Some(mirrors.iter().map(|name| (*name).into()).collect()),
        topic_names: topics.iter().map(|name| (*name).into()).collect(),
        ..Default::default()
    };
    let answer = describe_mirrors::handle(&request, &world(), &View::new(board, now_ms));
    let codes = answer.mirrors.iter().map(|mirror| mirror.error_code).collect();
    let details = answer.mirrors.into_iter().flat_map(|mirror| mirror.topics).flat_map(|topic| topic.partitions);
    (codes, details.collect())
}

#[test]
fn describe_tells_unknown_offsets_as_minus_one_and_an_unknown_mirror_by_its_code() {
    let (codes, details) = describe(&["m", "no"], &["flows"], &Board::default(), 0);
    assert_eq!((codes, details.len()), (vec![0, 1137], 1));
    let seen = &details[0];
    assert_eq!((seen.source_offset, seen.destination_offset, seen.lag, seen.lag_ms), (-1, -1, -1, -1));
    assert_eq!((seen.state.as_str(), seen.leader_epoch, seen.flushed_offset), ("MIRRORING", -1, -1));
    assert_eq!(describe(&[], &[], &Board::default(), 0).1.len(), 5, "no name asks for all");
}

#[test]
fn describe_tells_what_the_board_shows_and_that_a_partition_is_fenced() {
    let catalog = world();
    let slot = catalog.partition("m", "flows", 0).unwrap().placement.as_ref().unwrap().slot;
    let mut seen = PartitionProgress {
        leo: 90,
        flushed: 80,
        log_start: 5,
        source_high_watermark: 100,
        lag_bytes: 1_000,
        caught_up_at_ms: 4_000,
        ..PartitionProgress::unknown(identity(Uuid([1; 16]), 0), SlotState::Fencing)
    };
    let show = |seen| describe(&["m"], &["flows"], &Board([(slot, seen)].into()), 5_500).1.remove(0);
    let told = show(seen);
    assert_eq!((told.state.as_str(), told.lag, told.lag_bytes, told.lag_ms), ("EPOCH_FENCING", 10, 1_000, 1_500));
    assert_eq!((told.flushed_offset, told.log_start_offset), (80, 5));
    seen.leo = 100;
    assert_eq!(show(seen).lag_ms, 0);
    seen.identity = identity(Uuid([1; 16]), 1);
    assert_eq!(show(seen).destination_offset, -1, "the slot speaks for another partition");
}

#[test]
fn positions_and_states_that_nobody_recorded_are_zero_and_unknown_and_what_does_not_exist_has_no_position() {
    let partitions = |indexes: &[i32]| indexes.iter().map(|i| lmo::PartitionData { partition_index: *i }).collect();
    let topic = |name: &str, indexes: &[i32]| lmo::TopicData { name: name.into(), partitions: partitions(indexes) };
    let topics = vec![
        topic("stopped", &[0]),
        topic("flows", &[]),
        topic("nope", &[7]),
        topic("flows", &[3, 0]),
        topic("theirs", &[]),
    ];
    let request = LastMirroredOffsetsRequest { mirror_name: "m".into(), topics };
    let answer = last_mirrored_offsets::handle(&request, &world());
    let mut told = Vec::new();
    for topic in &answer.topics {
        let row = |p: &lmo::PartitionResult| {
            (topic.name.clone(), p.partition_index, p.last_mirrored_offset, p.last_mirror_epoch, p.error_code)
        };
        told.extend(topic.partitions.iter().map(row));
    }
    let expected = [
        ("stopped", 0, 10, 0, 0),
        ("flows", 0, 0, -1, 0),
        ("flows", 3, -1, -1, 3),
        ("nope", 7, -1, -1, 3),
        ("theirs", -1, -1, -1, 3),
    ];
    assert_eq!(told, expected.map(|(name, index, offset, epoch, code)| (name.to_owned(), index, offset, epoch, code)));
    let request = LastMirroredOffsetsRequest { mirror_name: "no".into(), topics: Vec::new() };
    assert_eq!(last_mirrored_offsets::handle(&request, &world()).error_code, 1137);

    let partitions = vec![states::PartitionData { partition_index: 7 }];
    let topics = vec![
        states::TopicData { name: "paused".into(), partitions: Vec::new() },
        states::TopicData { name: "nope".into(), partitions },
    ];
    let request = ReadMirrorStatesRequest { mirror_name: "m".into(), topics };
    let answer = read_mirror_states::handle(&request, &world(), &View::new(&Board::default(), 0));
    let codes: Vec<(i8, i16)> =
        answer.topics.iter().map(|t| (t.partitions[0].state, t.partitions[0].error_code)).collect();
    assert_eq!(codes, [(4, 0), (16, 0)]);
    let request = ReadMirrorStatesRequest { mirror_name: "no".into(), topics: Vec::new() };
    assert_eq!(read_mirror_states::handle(&request, &world(), &View::new(&Board::default(), 0)).error_code, 1137);
}

#[test]
fn a_list_counts_topics_that_flow_and_names_those_that_are_not_stopped() {
    let answer = list_mirrors::handle(&ListMirrorsRequest { include_topic_names: true }, &world());
    let mirror = &answer.mirrors[0];
    assert_eq!((mirror.topic_count, &mirror.topic_names[..]), (1, &["flows".to_owned(), "paused".to_owned()][..]));
    assert_eq!((mirror.source_bootstrap.as_str(), mirror.source_cluster_id.as_str()), ("s:1", "src"));
}

#[test]
fn metadata_finds_topics_by_name_and_id_and_tells_the_others_apart() {
    let board = Board::default();
    let ask = |topics: Option<Vec<(Option<&str>, u8)>>, version| {
        let topic = |(name, id): (Option<&str>, u8)| MetadataRequestTopic {
            topic_id: Uuid([id; 16]),
            name: name.map(Into::into),
        };
        let topics = topics.map(|topics| topics.into_iter().map(topic).collect());
        let request = MetadataRequest { topics, ..Default::default() };
        let answer = metadata::handle(&request, version, &world(), &View::new(&board, 0), &us());
        assert_eq!((answer.brokers[0].port, answer.controller_id), (9192, 1));
        answer.topics.iter().map(|topic| topic.error_code).collect::<Vec<i16>>()
    };
    let asked = vec![(Some("flows"), 0), (Some("nope"), 0), (Some("a/b"), 0), (None, 1), (None, 99), (Some(""), 1)];
    assert_eq!(ask(Some(asked), 12), [0, 3, 17, 0, 100, 0], "stock clients send an empty name with an id");
    assert_eq!((ask(None, 12).len(), ask(Some(Vec::new()), 12).len(), ask(Some(Vec::new()), 0).len()), (5, 0, 5));
}

#[test]
fn only_mirrors_have_a_coordinator_here_and_only_from_version_7_on() {
    let ask = |key_type, version| {
        let request = FindCoordinatorRequest { key: "k".into(), key_type, coordinator_keys: vec!["k".into()] };
        find_coordinator::handle(&request, version, &us())
    };
    let found = &ask(3, 7).coordinators[0];
    assert_eq!((found.error_code, found.node_id, found.port), (0, 1, 9192));
    assert_eq!((ask(3, 6).coordinators[0].error_code, ask(0, 7).coordinators[0].error_code), (42, 15));
    assert_eq!(ask(0, 2).error_code, 15, "the older layout");
    let transactional = &ask(1, 6).coordinators[0];
    let words = transactional.error_message.as_deref().unwrap_or_default();
    assert_eq!((transactional.error_code, words.contains("read-only")), (31, true), "a producer that stops: {words}");
    let request = DescribeClusterRequest { endpoint_type: 2, ..Default::default() };
    assert_eq!(describe_cluster::handle(&request, &us()).error_code, 114);
}

#[test]
fn settings_are_told_by_resource_and_unknown_ones_by_code() {
    let ask = |resource_type, name: &str| {
        let resource_name = name.into();
        let resource = DescribeConfigsResource { resource_type, resource_name, configuration_keys: None };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        let result = describe_configs::handle(&request, &world(), &us()).results.remove(0);
        (result.error_code, result.configs.len())
    };
    assert_eq!((ask(64, "m"), ask(2, "flows")), ((0, 4), (0, 7)));
    assert_eq!((ask(64, "no"), ask(2, "nope"), ask(4, "1")), ((1137, 0), (3, 0), (0, 3)));
    assert_eq!((ask(4, ""), ask(4, "2")), ((0, 0), (42, 0)), "all nodes, another node");
}

#[test]
fn a_cluster_s_own_topics_are_told_apart() {
    let source = super::tests::source("__consumer_offsets", 50, 1);
    let started = crate::mirror::event::MirrorEvent::Started { mirror: "m".into(), topic: source };
    let catalog = super::tests::apply(&world(), vec![started]);
    let request = MetadataRequest { topics: None, ..Default::default() };
    let answer = metadata::handle(&request, 12, &catalog, &View::new(&Board::default(), 0), &us());
    let own = answer.topics.iter().filter(|topic| topic.is_internal).map(|topic| topic.name.as_deref());
    assert_eq!(own.collect::<Vec<_>>(), [Some("__consumer_offsets")]);
}
