//! The error cases of every mirror request. What a pass proves: the code of each, per item where items are asked for, and
//! that a refused item changes nothing.

use crate::mirror::catalog::{Catalog, Desired, LastMirrored, MirrorFacts};
use crate::mirror::decide::{Draft, Room};
use crate::mirror::event::{Detail, MirrorEvent, SourceTopic};
use crate::mirror::machine::Event;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::{
    create_mirror, delete_mirror, first_draft, incremental_alter_configs, list_offsets, pause_resume,
    start_mirror_topics, stop_mirror_topics,
};
use crate::source::SourceError;
use crate::source::topics::{Answer, Wanted};
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::add_topics_to_mirror::{self, AddTopicsToMirrorRequest};
use twinlog_proto::messages::create_mirror::{CreateMirrorRequest, MirrorConfig};
use twinlog_proto::messages::delete_mirror::DeleteMirrorRequest;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::pause_mirror_topics::{self, PauseMirrorTopicsRequest};
use twinlog_proto::messages::remove_topics_from_mirror::{self, RemoveTopicsFromMirrorRequest};
use twinlog_proto::messages::resume_mirror_topics::{self, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self as start, StartMirrorTopicsRequest};
use twinlog_proto::messages::stop_mirror_topics::{self as stop, StopMirrorTopicsRequest};

pub(super) fn source(name: &str, id: u8, partition_count: i32) -> SourceTopic {
    let settings = Default::default();
    SourceTopic { name: name.into(), id: Uuid([id; 16]), partition_count, settings, internal: name.starts_with("__") }
}

pub(super) fn apply(catalog: &Catalog, events: Vec<MirrorEvent>) -> Catalog {
    let room = Room { directories: vec!["/d".into()], slots_max: 8, version_floor: 0 };
    let mut draft = Draft::new(catalog, &room);
    events.into_iter().for_each(|event| draft.take(event).unwrap());
    draft.finish().catalog
}

pub(super) fn created(mirror: &str) -> MirrorEvent {
    let settings = [("bootstrap.servers".to_owned(), "s:1".to_owned())].into();
    let facts = MirrorFacts { source_cluster_id: "src".into(), settings, ..MirrorFacts::default() };
    MirrorEvent::Created { mirror: mirror.into(), facts }
}

fn step(topic: &str, event: Event) -> MirrorEvent {
    MirrorEvent::partition("m", topic, 0, event)
}

fn wanted(topic: &str, desired: Desired, event: Event) -> MirrorEvent {
    MirrorEvent::Wanted { mirror: "m".into(), topic: topic.into(), desired, event }
}

/// Mirror m with topics `flows`, `paused`, `stopping`, `stopped`, and mirror `other` with topic `theirs`.
pub(super) fn world() -> Catalog {
    let mut events = vec![created("m"), created("other")];
    for (id, topic) in (1..).zip(["flows", "paused", "stopping", "stopped"]) {
        events.push(MirrorEvent::Started { mirror: "m".into(), topic: source(topic, id, 1) });
        events.push(step(topic, Event::SlotMirroring));
    }
    events.push(MirrorEvent::Started { mirror: "other".into(), topic: source("theirs", 5, 1) });
    events.extend([wanted("paused", Desired::Pause, Event::Pause), step("paused", Event::SlotPaused)]);
    events.extend([wanted("stopping", Desired::Stop, Event::Stop), wanted("stopped", Desired::Stop, Event::Stop)]);
    let ended = Detail::Ended(Some(LastMirrored { offset: 10, epoch: 0 }));
    events.push(MirrorEvent::detailed("m", "stopped", 0, Event::SlotStopped, ended));
    apply(&Catalog::default(), events)
}

pub(super) fn answer(topics: &[SourceTopic]) -> Answer {
    let topics = topics.iter().map(|topic| (topic.name.clone(), Ok(topic.clone()))).collect();
    Answer { cluster_id: "src".into(), topics, ..Answer::default() }
}

fn all_of_the_source() -> Answer {
    let names = ["flows", "paused", "stopping", "stopped", "theirs", "new"];
    answer(&(1..).zip(names).map(|(id, name)| source(name, id, 1)).collect::<Vec<_>>())
}

pub(super) fn start_request(topics: &[&str], include: &[&str]) -> StartMirrorTopicsRequest {
    let topic = |name: &&str| start::TopicData { topic_name: (*name).into(), ..Default::default() };
    StartMirrorTopicsRequest {
        mirror_name: "m".into(),
        topics: topics.iter().map(topic).collect(),
        include_patterns: include.iter().map(|pattern| (*pattern).into()).collect(),
        ..Default::default()
    }
}

fn start_codes(request: &StartMirrorTopicsRequest, source: Answer, board: &Board) -> Vec<(String, i16, bool)> {
    let catalog = world();
    let (events, response) = start_mirror_topics::decide(request, Ok(source), &catalog, &View::new(board, 0));
    let started = |name: &str| {
        let about = |event: &MirrorEvent| matches!(event, MirrorEvent::Started { topic, .. } if topic.name == name);
        events.iter().any(about)
    };
    response.topics.into_iter().map(|t| (t.name.clone(), t.error_code, started(&t.name))).collect()
}

#[test]
fn start_tells_every_topic_apart_and_starts_only_what_may_be_started() {
    let names = ["new", "flows", "paused", "stopping", "stopped", "theirs", "nope", "__consumer_offsets", "a/b"];
    let got = start_codes(&start_request(&names, &[]), all_of_the_source(), &Board::default());
    let expected = [
        ("__consumer_offsets", 17, false),
        ("a/b", 17, false),
        ("flows", 0, false),
        ("new", 0, true),
        ("nope", 3, false),
        ("paused", 1146, false),
        ("stopped", 0, true),
        ("stopping", 1145, false),
        ("theirs", 1138, false),
    ];
    assert_eq!(got, expected.map(|(name, code, started)| (name.to_owned(), code, started)));
}

#[test]
fn a_topic_with_another_id_is_inconsistent_whoever_has_it() {
    let other_ids = answer(&[source("flows", 9, 1), source("stopped", 9, 1), source("theirs", 9, 1)]);
    let got = start_codes(&start_request(&["flows", "stopped", "theirs"], &[]), other_ids, &Board::default());
    assert!(got.iter().all(|(_, code, started)| *code == 103 && !started), "{got:?}");
    let mut request = start_request(&["new"], &[]);
    request.topics[0].topic_id = Uuid([8; 16]);
    assert_eq!(start_codes(&request, all_of_the_source(), &Board::default())[0].1, 103);
}

#[test]
fn patterns_take_what_is_not_internal_and_a_bad_one_refuses_the_request() {
    let source = answer(&[source("new", 6, 1), source("newer", 7, 1), source("__x", 8, 1)]);
    let got = start_codes(&start_request(&[], &["new.*", "__x"]), source, &Board::default());
    assert_eq!(got, [("new".to_owned(), 0, true), ("newer".to_owned(), 0, true)]);
    let refusal = start_mirror_topics::question(&start_request(&[], &["("]), &world()).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::INVALID_REGULAR_EXPRESSION);
    let question = start_mirror_topics::question(&start_request(&["a"], &[]), &world()).unwrap();
    assert!(
        matches!(question.wanted, Wanted::Named(names) if names[0] == "a" && names.len() == 4),
        "and what a standby needs"
    );
}

#[test]
fn a_start_beyond_the_slots_of_the_board_is_refused_for_that_topic() {
    let got = start_codes(&start_request(&["new"], &[]), answer(&[source("new", 6, 4)]), &Board::default());
    assert_eq!(got, [("new".to_owned(), ErrorCode::POLICY_VIOLATION.0, false)]);
}

#[test]
fn a_log_that_does_not_end_where_mirroring_ended_is_not_continued() {
    let catalog = world();
    let slot = catalog.partition("m", "stopped", 0).unwrap().placement.as_ref().unwrap().slot;
    for (leo, code) in [(10, 0), (11, 1145), (9, 1145)] {
        let seen =
            PartitionProgress { leo, ..PartitionProgress::unknown(identity(Uuid([4; 16]), 0), SlotState::Stopped) };
        let board = Board([(slot, seen)].into());
        let got = start_codes(&start_request(&["stopped"], &[]), all_of_the_source(), &board);
        assert_eq!(got[0].1, code, "LEO {leo}");
    }
}

#[test]
fn without_its_source_a_start_waits_by_name_and_is_refused_by_pattern() {
    let catalog = world();
    let board = Board::default();
    let away = || Err(SourceError::Unreachable("s:1: refused".into()));
    let names = ["new", "stopped"];
    let (events, _) = start_mirror_topics::decide(&start_request(&names, &[]), away(), &catalog, &View::new(&board, 0));
    assert!(matches!(&events[0], MirrorEvent::StartedUnresolved { topic, .. } if topic == "new"));
    assert!(matches!(&events[1], MirrorEvent::Started { topic, .. } if topic.name == "stopped"), "all is known of it");
    for (request, source, code) in [
        (start_request(&[], &[".*"]), away(), ErrorCode::REQUEST_TIMED_OUT),
        (
            start_request(&["new"], &[]),
            Ok(Answer { cluster_id: "else".into(), ..Answer::default() }),
            ErrorCode::INVALID_REQUEST,
        ),
    ] {
        let (events, response) = start_mirror_topics::decide(&request, source, &catalog, &View::new(&board, 0));
        assert_eq!((events.len(), ErrorCode(response.error_code)), (0, code));
    }
}

#[test]
fn create_refuses_names_settings_and_sources_that_cannot_be() {
    let request = |name: &str, configs: &[(&str, &str)]| CreateMirrorRequest {
        mirror_name: name.into(),
        config: configs
            .iter()
            .map(|(name, value)| MirrorConfig { name: (*name).into(), value: Some((*value).into()) })
            .collect(),
    };
    let servers = ("bootstrap.servers", "s:1");
    let catalog = world();
    for (bad, code) in [
        (request("a b", &[servers]), 1135),
        (request("x.removed", &[servers]), 1135),
        (request(&"x".repeat(241), &[servers]), 1135),
        (request("m", &[servers]), 1136),
        (request("new", &[]), 40),
        (request("new", &[servers, ("no.such.key", "1")]), 40),
    ] {
        assert_eq!(create_mirror::question(&bad, &catalog).unwrap_err().code.0, code, "{bad:?}");
    }
    let fine = request("new", &[servers, ("mirror.source.cluster.id", "src")]);
    let settings = create_mirror::question(&fine, &catalog).unwrap();
    let decide = |source| create_mirror::decide(&fine, &settings, source, "own", &catalog);
    let (events, response) = decide(Ok("src".into()));
    assert_eq!((events.len(), response.error_code), (1, 0));
    let not_kafka = SourceError::NotKafka { server: "s:1".into(), why: "no".into() };
    for (source, code) in [
        (Ok("else".to_owned()), 40),
        (Ok("own".to_owned()), 40),
        (Err(SourceError::Unreachable("s:1".into())), 7),
        (Err(not_kafka), 40),
    ] {
        let (events, response) = decide(source);
        assert_eq!((events.len(), response.error_code), (0, code));
    }
}

#[test]
fn stop_takes_names_and_patterns_and_remembers_the_patterns() {
    let topic = |name: &str| stop::TopicData { topic_name: name.into(), ..Default::default() };
    let mut request = StopMirrorTopicsRequest {
        mirror_name: "m".into(),
        topics: vec![topic("stopped"), topic("nope"), topic("theirs"), topic("flows"), topic("flows")],
        patterns: vec!["pau.*".into()],
    };
    request.topics[0].topic_id = Uuid([4; 16]);
    let (events, response) = stop_mirror_topics::decide(&request, &world());
    let codes: Vec<(&str, i16)> = response.topics.iter().map(|t| (t.name.as_str(), t.error_code)).collect();
    assert_eq!(codes, [("flows", 0), ("nope", 3), ("paused", 0), ("stopped", 0), ("theirs", 1139)]);
    assert_eq!(events.len(), 3, "the patterns, flows and paused: {events:?}");
    assert_eq!(apply(&world(), events).mirror("m").unwrap().facts.exclude, ["pau.*"]);
    request.topics[0].topic_id = Uuid([5; 16]);
    assert_eq!(stop_mirror_topics::decide(&request, &world()).1.topics[3].error_code, 103);
    request.patterns = vec!["(".into()];
    assert_eq!(stop_mirror_topics::decide(&request, &world()).1.error_code, 128);
    request.mirror_name = "no".into();
    assert_eq!(stop_mirror_topics::decide(&request, &world()).1.error_code, 1137);
}

#[test]
fn pause_and_resume_need_the_states_that_they_lead_from() {
    let names = ["flows", "nope", "paused", "stopped", "theirs"];
    let topic = |name: &&str| pause_mirror_topics::TopicData { topic_name: (*name).into(), ..Default::default() };
    let request = PauseMirrorTopicsRequest { mirror_name: "m".into(), topics: names.iter().map(topic).collect() };
    let (events, response) = pause_resume::pause(&request, 1, &world());
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!((codes, events.len()), (vec![0, 3, 0, 1142, 1139], 1));
    // The first layout names no mirror: the topic's own one is meant. `theirs` is not MIRRORING yet.
    assert_eq!(pause_resume::pause(&request, 0, &world()).1.topics[4].error_code, 1145);

    let topic = |name: &&str| resume_mirror_topics::TopicData { topic_name: (*name).into(), ..Default::default() };
    let request = ResumeMirrorTopicsRequest { mirror_name: "m".into(), topics: names.iter().map(topic).collect() };
    let (events, response) = pause_resume::resume(&request, 1, &world());
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.error_code).collect();
    assert_eq!((codes, events.len()), (vec![0, 3, 0, 1141, 1139], 1));
}

#[test]
fn a_right_to_a_topic_tells_nobody_which_other_mirror_has_it() {
    let names = |text: Option<String>| text.unwrap().split(|c: char| !c.is_alphanumeric()).any(|word| word == "other");
    let start = start_mirror_topics::decide(
        &start_request(&["theirs"], &[]),
        Ok(all_of_the_source()),
        &world(),
        &View::new(&Board::default(), 0),
    );
    assert!(!names(start.1.error_message));
    let topics = vec![stop::TopicData { topic_name: "theirs".into(), ..Default::default() }];
    let request = StopMirrorTopicsRequest { mirror_name: "m".into(), topics, ..Default::default() };
    assert!(!names(stop_mirror_topics::decide(&request, &world()).1.error_message));
    let topics = vec![pause_mirror_topics::TopicData { topic_name: "theirs".into(), ..Default::default() }];
    let request = PauseMirrorTopicsRequest { mirror_name: "m".into(), topics };
    assert!(!names(pause_resume::pause(&request, 1, &world()).1.error_message));
    let topics = vec![resume_mirror_topics::TopicData { topic_name: "theirs".into(), ..Default::default() }];
    let request = ResumeMirrorTopicsRequest { mirror_name: "m".into(), topics };
    assert!(!names(pause_resume::resume(&request, 1, &world()).1.error_message));
}

#[test]
fn delete_wants_everything_stopped() {
    let delete = |name: &str, catalog: &Catalog| {
        delete_mirror::decide(&DeleteMirrorRequest { mirror_name: name.into(), ..Default::default() }, catalog)
            .1
            .error_code
    };
    assert_eq!((delete("no", &world()), delete("m", &world())), (1137, 1143));
    let stopping = apply(
        &world(),
        vec![MirrorEvent::Wanted {
            mirror: "other".into(),
            topic: "theirs".into(),
            desired: Desired::Stop,
            event: Event::Stop,
        }],
    );
    assert_eq!(delete("other", &stopping), 1145);
    let stopped =
        apply(&stopping, vec![MirrorEvent::detailed("other", "theirs", 0, Event::SlotStopped, Detail::Ended(None))]);
    assert_eq!(delete("other", &stopped), 0);
}

#[test]
fn the_first_drafts_add_and_remove_are_start_and_stop_with_its_codes() {
    let catalog = world();
    let board = Board::default();
    let topic = |name: &str, mirror: &str| add_topics_to_mirror::TopicData {
        topic_name: name.into(),
        mirror_name: mirror.into(),
        ..Default::default()
    };
    let topics = vec![topic("new", "m"), topic("stopping", "m"), topic("paused", "m"), topic("new", "no")];
    let starts = first_draft::starts(&AddTopicsToMirrorRequest { topics });
    let asked = starts.into_iter().map(|start| (start, Ok(all_of_the_source()))).collect();
    let (events, response) = first_draft::add(asked, &catalog, &View::new(&board, 0));
    let codes: Vec<(&str, i16)> = response.topics.iter().map(|t| (t.name.as_str(), t.error_code)).collect();
    assert_eq!((codes, events.len()), (vec![("new", 0), ("paused", 42), ("stopping", 42), ("new", 1137)], 1));

    let topic = |name: &str| remove_topics_from_mirror::TopicData { topic_name: name.into(), ..Default::default() };
    let request = RemoveTopicsFromMirrorRequest { topics: vec![topic("flows"), topic("nope"), topic("theirs")] };
    let (events, response) = first_draft::remove(&request, &catalog);
    let codes: Vec<(&str, i16)> = response.topics.iter().map(|t| (t.name.as_str(), t.error_code)).collect();
    assert_eq!((codes, events.len()), (vec![("flows", 0), ("nope", 3), ("theirs", 0)], 2));
}

#[test]
fn list_offsets_tells_the_ends_that_the_board_shows_and_no_times() {
    let catalog = world();
    let slot = catalog.partition("m", "flows", 0).unwrap().placement.as_ref().unwrap().slot;
    let seen = PartitionProgress {
        leo: 90,
        log_start: 5,
        source_high_watermark: 80,
        source_lso: 70,
        leader_epoch: 4,
        last_epoch: 3,
        ..PartitionProgress::unknown(identity(Uuid([1; 16]), 0), SlotState::Mirroring)
    };
    let board = Board([(slot, seen)].into());
    let ask = |topic: &str, timestamp, isolation_level, current_leader_epoch, version| {
        let partition = ListOffsetsPartition { partition_index: 0, current_leader_epoch, timestamp };
        let topics = vec![ListOffsetsTopic { name: topic.into(), partitions: vec![partition] }];
        let request = ListOffsetsRequest { isolation_level, topics, ..Default::default() };
        let answer = list_offsets::handle(&request, version, &catalog, &View::new(&board, 0));
        let found = &answer.topics[0].partitions[0];
        (found.error_code, found.offset, found.leader_epoch)
    };
    assert_eq!(ask("flows", -1, 0, -1, 8), (0, 80, 3));
    assert_eq!(ask("flows", -1, 1, 4, 8), (0, 70, 3));
    assert_eq!(ask("flows", -2, 0, -1, 8), (0, 5, -1));
    assert_eq!((ask("flows", -1, 0, 3, 8).0, ask("flows", -1, 0, 5, 8).0), (74, 75));
    assert_eq!((ask("flows", 1_700_000_000_000, 0, -1, 8).0, ask("nope", -1, 0, -1, 8).0), (35, 3));
    assert_eq!((ask("paused", -1, 0, -1, 8).0, ask("paused", -1, 0, -1, 4).0), (78, 5), "no data plane shows it");
}

#[test]
fn settings_of_a_mirror_change_as_a_whole_or_not_at_all() {
    let catalog = world();
    let alter = |resource_type, mirror: &str, configs: &[(&str, i8, Option<&str>)], validate_only| {
        let config = |(name, config_operation, value): &(&str, i8, Option<&str>)| AlterableConfig {
            name: (*name).into(),
            config_operation: *config_operation,
            value: value.map(Into::into),
        };
        let configs = configs.iter().map(config).collect();
        let resource = AlterConfigsResource { resource_type, resource_name: mirror.into(), configs };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only };
        let (events, response) = incremental_alter_configs::decide(&request, &Default::default(), &catalog);
        (response.responses[0].error_code, events)
    };
    let (code, events) = alter(64, "m", &[("client.id", 0, Some("x")), ("bootstrap.servers", 0, Some("t:2"))], false);
    assert_eq!(code, 0);
    let before = catalog.mirror("m").unwrap().facts.assignment_version;
    let changed = apply(&catalog, events);
    let facts = &changed.mirror("m").unwrap().facts;
    assert_eq!((facts.settings["bootstrap.servers"].as_str(), facts.assignment_version), ("t:2", before + 1));

    assert_eq!(alter(64, "m", &[("client.id", 0, Some("x"))], true), (0, Vec::new()), "only checked");
    for (resource_type, mirror, config, code) in [
        (64, "m", ("no.such.key", 0, Some("1")), 40),
        (64, "m", ("bootstrap.servers", 1, None), 40),
        (64, "m", ("client.id", 2, Some("y")), 40),
        (64, "no", ("client.id", 0, Some("x")), 1137),
        (2, "flows", ("segment.bytes", 0, Some("1")), 40),
        (4, "1", ("log.segment.bytes", 0, Some("1")), 42),
    ] {
        assert_eq!(alter(resource_type, mirror, &[config], false), (code, Vec::new()));
    }
}
