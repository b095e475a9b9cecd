//! Rows of the requests that move topics, and of the written states.

use super::{Answered, Matrix, board};
use crate::mirror::catalog::Catalog;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::tests::source;
use crate::rpc::{first_draft, pause_resume, start_mirror_topics, stop_mirror_topics, write_mirror_states};
use crate::source::SourceError;
use crate::source::topics::Answer;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::add_topics_to_mirror::{self as add, AddTopicsToMirrorRequest};
use twinlog_proto::messages::pause_mirror_topics::{self as pause, PauseMirrorTopicsRequest};
use twinlog_proto::messages::remove_topics_from_mirror::{self as remove, RemoveTopicsFromMirrorRequest};
use twinlog_proto::messages::resume_mirror_topics::{self as resume, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self as start, StartMirrorTopicsRequest};
use twinlog_proto::messages::stop_mirror_topics::{self as stop, StopMirrorTopicsRequest};
use twinlog_proto::messages::write_mirror_states::{self as write, WriteMirrorStatesRequest};

pub(super) fn all(matrix: &mut Matrix, catalog: &Catalog) {
    starts(matrix, catalog);
    stops(matrix, catalog);
    pauses(matrix, catalog);
    resumes(matrix, catalog);
    adds(matrix, catalog);
    removes(matrix, catalog);
    writes(matrix, catalog);
}

/// Every topic by name, a topic twice, and those that can only be wrong.
const NAMES: [&str; 10] =
    ["new", "flows", "paused", "stopping", "stopped", "theirs", "nope", "__consumer_offsets", "", "flows"];
const WRONG_ID: Uuid = Uuid([77; 16]);

fn all_of_the_source() -> Answer {
    let topic = |(id, name): (u8, &str)| (name.to_owned(), Ok(source(name, id, 1)));
    let names = ["flows", "paused", "stopping", "stopped", "theirs", "new", "__consumer_offsets"];
    let mut topics: std::collections::BTreeMap<_, _> = (1..).zip(names).map(topic).collect();
    topics.insert("secret".to_owned(), Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    Answer { cluster_id: "src".into(), topics, ..Answer::default() }
}

fn starts(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::START_MIRROR_TOPICS);
    let board = Board::default();
    let mut row = |case: &str, request: StartMirrorTopicsRequest, source: Result<Answer, SourceError>| {
        let answered = match start_mirror_topics::question(&request, catalog) {
            Err(refusal) => Answered::whole(refusal.code.0, 0),
            Ok(_) => {
                let (events, response) = start_mirror_topics::decide(&request, source, catalog, &View::new(&board, 0));
                let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
                Answered::items(response.error_code, items, events.len())
            }
        };
        matrix.row(case, answered);
    };
    let topic = |name: &&str| start::TopicData { topic_name: (*name).into(), ..Default::default() };
    let named = |names: &[&str]| StartMirrorTopicsRequest {
        mirror_name: "m".into(),
        topics: names.iter().map(topic).collect(),
        ..Default::default()
    };
    let patterns = |include: &[&str], exclude: &[&str]| StartMirrorTopicsRequest {
        include_patterns: include.iter().map(|text| (*text).into()).collect(),
        exclude_patterns: exclude.iter().map(|text| (*text).into()).collect(),
        ..named(&[])
    };
    let fine = || Ok(all_of_the_source());
    let away = || Err(SourceError::Unreachable("s:1".into()));
    row("MirrorName empty", StartMirrorTopicsRequest { mirror_name: String::new(), ..named(&["new"]) }, fine());
    row("MirrorName unknown", StartMirrorTopicsRequest { mirror_name: "no".into(), ..named(&["new"]) }, fine());
    row("Topics and patterns empty", named(&[]), fine());
    row("topics of all kinds, one twice", named(&NAMES), fine());
    row("a topic that the source keeps to itself", named(&["secret", "new"]), fine());
    let mut ids = named(&["new", "flows"]);
    ids.topics.iter_mut().for_each(|topic| topic.topic_id = WRONG_ID);
    row("TopicId of another topic", ids, fine());
    let mut count = named(&["new"]);
    count.topics[0].num_partitions = -5;
    row("NumPartitions below 0 (the source decides)", count, fine());
    row("IncludePatterns", patterns(&["ne.*"], &[]), fine());
    row("IncludePatterns not a pattern", patterns(&["("], &[]), fine());
    row("IncludePatterns empty text", patterns(&[""], &[]), fine());
    row("ExcludePatterns not a pattern", patterns(&[], &["["]), fine());
    row(
        "a topic that is excluded too",
        StartMirrorTopicsRequest { exclude_patterns: vec!["new".into()], ..named(&["new"]) },
        fine(),
    );
    let scratch = |names: &[&str]| StartMirrorTopicsRequest { from_scratch: true, ..named(names) };
    row("FromScratch", scratch(&NAMES), fine());
    row("FromScratch while the source is down", scratch(&["new", "stopped"]), away());
    row("FromScratch by pattern", StartMirrorTopicsRequest { from_scratch: true, ..patterns(&["ne.*"], &[]) }, fine());
    row("topics while the source is down", named(&["new", "stopped"]), away());
    row("patterns while the source is down", patterns(&["ne.*"], &[]), away());
    let other = Answer { cluster_id: "else".into(), ..Answer::default() };
    row("the source is another cluster", named(&["new"]), Ok(other));
    let wide = Answer { topics: [("new".to_owned(), Ok(source("new", 6, 99)))].into(), ..all_of_the_source() };
    row("more partitions than the data plane takes", named(&["new"]), Ok(wide));
}

fn stops(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::STOP_MIRROR_TOPICS);
    let mut row = |case: &str, mirror: &str, names: &[&str], id: Uuid, patterns: &[&str]| {
        let topic = |name: &&str| stop::TopicData { topic_id: id, topic_name: (*name).into() };
        let request = StopMirrorTopicsRequest {
            mirror_name: mirror.into(),
            topics: names.iter().map(topic).collect(),
            patterns: patterns.iter().map(|text| (*text).into()).collect(),
        };
        let (events, response) = stop_mirror_topics::decide(&request, catalog);
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    row("MirrorName empty", "", &["flows"], Uuid::ZERO, &[]);
    row("MirrorName unknown", "no", &["flows"], Uuid::ZERO, &[]);
    row("Topics and Patterns empty", "m", &[], Uuid::ZERO, &[]);
    row("topics of all kinds, one twice", "m", &NAMES, Uuid::ZERO, &[]);
    row("TopicId of another topic", "m", &["flows"], WRONG_ID, &[]);
    row("Patterns", "m", &[], Uuid::ZERO, &["f.*"]);
    row("Patterns that match nothing (kept for later)", "m", &[], Uuid::ZERO, &["x.*"]);
    row("Patterns not a pattern", "m", &["flows"], Uuid::ZERO, &["("]);
}

fn pauses(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::PAUSE_MIRROR_TOPICS);
    let mut row = |case: &str, version, mirror: &str, names: &[&str], topic_id: Uuid| {
        let topics = names.iter().map(|name| pause::TopicData { topic_id, topic_name: (*name).into() }).collect();
        let request = PauseMirrorTopicsRequest { mirror_name: mirror.into(), topics };
        let (events, response) = pause_resume::pause(&request, version, catalog);
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    row("MirrorName unknown", 1, "no", &["flows"], Uuid::ZERO);
    row("Topics empty", 1, "m", &[], Uuid::ZERO);
    row("topics of all kinds, one twice", 1, "m", &NAMES, Uuid::ZERO);
    row("the same without a mirror's name (v0)", 0, "", &NAMES, Uuid::ZERO);
    row("TopicId of another topic", 1, "m", &["flows"], WRONG_ID);
}

fn resumes(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::RESUME_MIRROR_TOPICS);
    let mut row = |case: &str, version, mirror: &str, names: &[&str], topic_id: Uuid| {
        let topics = names.iter().map(|name| resume::TopicData { topic_id, topic_name: (*name).into() }).collect();
        let request = ResumeMirrorTopicsRequest { mirror_name: mirror.into(), topics };
        let (events, response) = pause_resume::resume(&request, version, catalog);
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    row("MirrorName unknown", 1, "no", &["paused"], Uuid::ZERO);
    row("Topics empty", 1, "m", &[], Uuid::ZERO);
    row("topics of all kinds, one twice", 1, "m", &NAMES, Uuid::ZERO);
    row("the same without a mirror's name (v0)", 0, "", &NAMES, Uuid::ZERO);
    row("TopicId of another topic", 1, "m", &["paused"], WRONG_ID);
}

fn adds(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::ADD_TOPICS_TO_MIRROR);
    let board = Board::default();
    let mut row = |case: &str, topics: &[(&str, &str)]| {
        let topic = |(name, mirror): &(&str, &str)| add::TopicData {
            topic_name: (*name).into(),
            mirror_name: (*mirror).into(),
            ..Default::default()
        };
        let request = AddTopicsToMirrorRequest { topics: topics.iter().map(topic).collect() };
        let asked = first_draft::starts(&request).into_iter().map(|start| (start, Ok(all_of_the_source())));
        let (events, response) = first_draft::add(asked.collect(), catalog, &View::new(&board, 0));
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    row("Topics empty", &[]);
    row("topics of all kinds, one twice", &NAMES.map(|name| (name, "m")));
    row("MirrorName unknown for one of two", &[("new", "no"), ("stopped", "m")]);
    row("a topic for two mirrors", &[("new", "m"), ("new", "other")]);
}

fn removes(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::REMOVE_TOPICS_FROM_MIRROR);
    let mut row = |case: &str, names: &[&str], topic_id: Uuid| {
        let topics = names.iter().map(|name| remove::TopicData { topic_id, topic_name: (*name).into() }).collect();
        let (events, response) = first_draft::remove(&RemoveTopicsFromMirrorRequest { topics }, catalog);
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    row("Topics empty", &[], Uuid::ZERO);
    row("topics of all kinds, one twice", &NAMES, Uuid::ZERO);
    row("TopicId of another topic", &["flows"], WRONG_ID);
}

fn writes(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::WRITE_MIRROR_STATES);
    let board = board(catalog);
    let mut row = |case: &str, version, mirror: &str, topics: Vec<write::TopicData>, removed: &[&str]| {
        let removed_topics = removed.iter().map(|name| (*name).into()).collect();
        let request = WriteMirrorStatesRequest { mirror_name: mirror.into(), topics, removed_topics };
        let (events, response) = write_mirror_states::decide(&request, version, catalog, &View::new(&board, 0));
        let items = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| (format!("\"{}\"-{}", topic.name, p.partition_index), p.error_code))
        });
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    };
    let data = write::PartitionData::default;
    let one = |name: &str, partition| vec![write::TopicData { name: name.into(), partitions: vec![partition] }];
    let state = |state| write::PartitionData { state, ..data() };
    let pausing = || state(3);
    row("MirrorName unknown", 1, "no", one("flows", pausing()), &[]);
    row("Topics empty", 1, "m", Vec::new(), &[]);
    row("a state", 1, "m", one("flows", pausing()), &[]);
    row("Name unknown", 1, "m", one("nope", pausing()), &[]);
    row("Name of another mirror's topic", 1, "m", one("theirs", pausing()), &[]);
    row(
        "Name unknown, Partitions empty",
        1,
        "m",
        vec![write::TopicData { name: "nope".into(), partitions: Vec::new() }],
        &[],
    );
    row("PartitionIndex unknown", 1, "m", one("flows", write::PartitionData { partition_index: 7, ..pausing() }), &[]);
    row("a partition twice", 1, "m", [one("flows", pausing()), one("flows", pausing())].concat(), &[]);
    row("State that stands for nothing", 1, "m", one("flows", state(9)), &[]);
    row("State that does not follow", 1, "m", one("flows", state(0)), &[]);
    row("State of a start", 1, "m", one("stopped", state(0)), &[]);
    row("State UNKNOWN (16), no position", 1, "m", one("flows", state(16)), &[]);
    row("LeaderEpoch behind", 1, "m", one("flows", write::PartitionData { leader_epoch: 3, ..pausing() }), &[]);
    row("StateEpoch behind", 1, "m", one("flows", write::PartitionData { state_epoch: 0, ..pausing() }), &[]);
    row(
        "StateEpoch ahead (newer than what is known)",
        1,
        "m",
        one("flows", write::PartitionData { state_epoch: 99, ..pausing() }),
        &[],
    );
    row("LastMirrorOffset", 1, "m", one("flows", write::PartitionData { last_mirror_offset: 5, ..state(16) }), &[]);
    row(
        "LastMirrorOffset below -1",
        1,
        "m",
        one("flows", write::PartitionData { last_mirror_offset: -2, ..state(16) }),
        &[],
    );
    row("LastMirrorEpoch alone", 1, "m", one("flows", write::PartitionData { last_mirror_epoch: 2, ..state(16) }), &[]);
    row(
        "RetryAttempt out of range",
        1,
        "m",
        one("flows", write::PartitionData { retry_attempt: 40_000, ..state(7) }),
        &[],
    );
    row("RemovedTopics of all kinds (v0)", 0, "m", Vec::new(), &NAMES);
}
