//! Requests that ask for too much. What a pass proves: they are answered, and the answer stays within what it can carry.

use super::tests::world;
use crate::limits::PATTERNS_MAX;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::{
    Refusal, create_mirror, describe_configs, describe_mirrors, last_mirrored_offsets, metadata, read_mirror_states,
    start_mirror_topics, stop_mirror_topics,
};
use crate::source::topics::Answer;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, CreateMirrorResponse};
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;
use twinlog_proto::messages::last_mirrored_offsets::{LastMirroredOffsetsRequest, TopicData as LmoTopic};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use twinlog_proto::messages::read_mirror_states::{ReadMirrorStatesRequest, TopicData as StatesTopic};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData as StartTopic};
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData as StopTopic};

fn assert_sendable<M: Message>(response: &M) {
    frame::encode_response(&mut Vec::new(), *M::VERSIONS.end(), 1, response).unwrap();
}

#[test]
fn thousands_of_refused_topics_are_answered_one_by_one_with_words_for_the_first() {
    let catalog = world();
    let names = (0..2_000).map(|n| format!("there-is-no-such-topic-{n}"));
    let topics = names.clone().map(|topic_name| StartTopic { topic_name, ..Default::default() }).collect();
    let request = StartMirrorTopicsRequest { mirror_name: "m".into(), topics, ..Default::default() };
    let source = Answer { cluster_id: "src".into(), ..Answer::default() };
    let board = Board::default();
    let (_, started) = start_mirror_topics::decide(&request, Ok(source), &catalog, &View::new(&board, 0));
    assert_eq!(started.topics.len(), 2_000);
    let words = started.error_message.as_ref().unwrap();
    assert!(words.contains("there-is-no-such-topic-0") && words.ends_with("more are refused"), "{words}");
    assert_sendable(&started);

    let topics = names.map(|topic_name| StopTopic { topic_name, ..Default::default() }).collect();
    let request = StopMirrorTopicsRequest { mirror_name: "m".into(), topics, patterns: Vec::new() };
    assert_sendable(&stop_mirror_topics::decide(&request, &catalog).1);
}

#[test]
fn a_name_as_long_as_a_string_can_be_is_refused_in_words_that_can_be_sent() {
    use crate::rpc::Refused;
    let catalog = world();
    let name = "\"".repeat(32_767);
    let request = CreateMirrorRequest { mirror_name: name.clone(), config: Vec::new() };
    let refusal = create_mirror::question(&request, &catalog).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::INVALID_CLUSTER_MIRROR_NAME);
    assert_sendable(&CreateMirrorResponse::refused(refusal));
    assert_sendable(&CreateMirrorResponse::refused(Refusal::unknown_mirror(&"\u{10ffff}".repeat(8_000))));
    let resource = DescribeConfigsResource { resource_type: 64, resource_name: name, configuration_keys: None };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_sendable(&describe_configs::handle(&request, &catalog, &super::read_tests::us()));
}

#[test]
fn what_is_asked_for_many_times_is_answered_once() {
    const TIMES: usize = 1_000;
    let catalog = world();
    let board = Board::default();
    let view = View::new(&board, 0);
    let mirror_name = || "m".to_owned();

    let request = DescribeMirrorsRequest { mirror_names: Some(vec![mirror_name(); TIMES]), ..Default::default() };
    assert_eq!(describe_mirrors::handle(&request, &catalog, &view).mirrors.len(), 1);

    let topic = StatesTopic { name: "flows".into(), ..Default::default() };
    let request = ReadMirrorStatesRequest { mirror_name: mirror_name(), topics: vec![topic; TIMES] };
    assert_eq!(read_mirror_states::handle(&request, &catalog, &view).topics.len(), 1);

    let topic = LmoTopic { name: "flows".into(), ..Default::default() };
    let request = LastMirroredOffsetsRequest { mirror_name: mirror_name(), topics: vec![topic; TIMES] };
    assert_eq!(last_mirrored_offsets::handle(&request, &catalog).topics.len(), 1);

    let resource =
        DescribeConfigsResource { resource_type: 64, resource_name: mirror_name(), configuration_keys: None };
    let request = DescribeConfigsRequest { resources: vec![resource; TIMES], ..Default::default() };
    assert_eq!(describe_configs::handle(&request, &catalog, &super::read_tests::us()).results.len(), 1);

    let topic = MetadataRequestTopic { name: Some("flows".into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic; TIMES]), ..Default::default() };
    assert_eq!(metadata::handle(&request, 12, &catalog, &view, &super::read_tests::us()).topics.len(), 1);
}

#[test]
fn more_patterns_than_a_mirror_may_have_are_refused_and_not_collected_over_several_requests() {
    let mut catalog = world();
    let board = Board::default();
    let patterns = |n: usize| (0..PATTERNS_MAX - 1).map(|i| format!("p{n}-{i}")).collect::<Vec<_>>();
    let start = |catalog: &_, n| {
        let include_patterns = patterns(n);
        let request = StartMirrorTopicsRequest { mirror_name: "m".into(), include_patterns, ..Default::default() };
        let source = Answer { cluster_id: "src".into(), ..Answer::default() };
        start_mirror_topics::decide(&request, Ok(source), catalog, &View::new(&board, 0))
    };
    let (events, response) = start(&catalog, 0);
    assert_eq!((events.len(), response.error_code), (1, 0));
    catalog = super::tests::apply(&catalog, events);
    let (events, response) = start(&catalog, 1);
    assert_eq!((events, response.error_code), (Vec::new(), ErrorCode::INVALID_REGULAR_EXPRESSION.0));

    let stop = |catalog: &_, n| {
        let request = StopMirrorTopicsRequest { mirror_name: "m".into(), topics: Vec::new(), patterns: patterns(n) };
        stop_mirror_topics::decide(&request, catalog)
    };
    let (events, _) = stop(&catalog, 2);
    catalog = super::tests::apply(&catalog, events);
    let (events, response) = stop(&catalog, 3);
    assert_eq!((events, response.error_code), (Vec::new(), ErrorCode::INVALID_REGULAR_EXPRESSION.0));
}
