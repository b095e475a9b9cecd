//! Rows of the record of a hand-over, and of what is refused after one.

use super::{Answered, Matrix};
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::record_hand_over::Around;
use crate::rpc::tests::{apply, source};
use crate::rpc::{pause_resume, record_hand_over, start_mirror_topics};
use crate::source::topics::Answer;
use twinlog_proto::api;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::pause_mirror_topics::{self as pause, PauseMirrorTopicsRequest};
use twinlog_proto::messages::record_hand_over::{EndedPartition, RecordHandOverRequest, TopicData};
use twinlog_proto::messages::resume_mirror_topics::{self as resume, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self as start, StartMirrorTopicsRequest};

const NAMES: [&str; 7] = ["flows", "paused", "stopping", "stopped", "theirs", "nope", "stopped"];
const NODE: &str = "node 1";

pub(super) fn all(matrix: &mut Matrix, catalog: &Catalog) {
    records(matrix, catalog);
    takes_up(matrix, catalog);
    let (mirror, topic) = ("m".to_owned(), "stopped".to_owned());
    let away = apply(catalog, vec![MirrorEvent::HandedOver { mirror, topic, to: Some(NODE.into()) }]);
    later(matrix, &away);
    refused(matrix, &away);
}

fn row(matrix: &mut Matrix, catalog: &Catalog, case: &str, request: &RecordHandOverRequest) {
    let board = Board::default();
    let around = Around { source: Ok(answer()), directories: vec!["/d".into()] };
    let (events, response) = record_hand_over::decide(request, &around, catalog, &View::new(&board, 0));
    let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
    matrix.row(case, Answered::items(response.error_code, items, events.len()));
}

fn asked(names: &[&str]) -> RecordHandOverRequest {
    let topic = |name: &&str| TopicData { topic_name: (*name).into(), ..TopicData::default() };
    let topics = names.iter().map(topic).collect();
    RecordHandOverRequest { mirror_name: "m".into(), topics, handed_over_to: NODE.into(), ..Default::default() }
}

/// What the source says.
fn answer() -> Answer {
    let topics = [("stopped", source("stopped", 4, 1)), ("old", source("old", 9, 2))];
    let topics = topics.map(|(name, topic)| (name.to_owned(), Ok(topic))).into();
    Answer { cluster_id: "src".into(), topics, ..Answer::default() }
}

/// A topic that the mirror never had, with its directories.
fn taken_up() -> RecordHandOverRequest {
    let mut request = asked(&["old"]);
    request.topics[0].topic_id = Uuid([9; 16]);
    let one = |partition_index| EndedPartition {
        partition_index,
        data_directory: "/d".into(),
        last_mirrored_offset: 7,
        last_mirror_epoch: 1,
    };
    request.topics[0].partitions = vec![one(0), one(1)];
    request
}

fn takes_up(matrix: &mut Matrix, catalog: &Catalog) {
    let with = |change: &dyn Fn(&mut TopicData)| {
        let mut request = taken_up();
        change(&mut request.topics[0]);
        request
    };
    let mut row = |case: &str, request: &RecordHandOverRequest| row(matrix, catalog, case, request);
    row("a topic that the mirror never had, with directories", &taken_up());
    row("the same, ValidateOnly", &RecordHandOverRequest { validate_only: true, ..taken_up() });
    row("the same, Returned", &RecordHandOverRequest { returned: true, ..taken_up() });
    row("with another TopicId", &with(&|topic| topic.topic_id = Uuid([8; 16])));
    row("with a name that the source does not have", &with(&|topic| topic.topic_name = "nope".into()));
    row("with a name that another mirror has", &with(&|topic| topic.topic_name = "theirs".into()));
    row("with the name of an internal topic that is not followed", &with(&|topic| topic.topic_name = "__x".into()));
    row("with a partition missing", &with(&|topic| drop(topic.partitions.remove(0))));
    row("with a partition twice", &with(&|topic| topic.partitions[1].partition_index = 0));
    row("with a LastMirroredOffset below 0", &with(&|topic| topic.partitions[0].last_mirrored_offset = -1));
    row("with a DataDirectory that there is not", &with(&|topic| topic.partitions[0].data_directory = "/e".into()));
    row("of a topic that the mirror has", &with(&|topic| topic.topic_name = "stopped".into()));
}

fn records(matrix: &mut Matrix, catalog: &Catalog) {
    matrix.api(api::RECORD_HAND_OVER);
    let with = |change: fn(&mut RecordHandOverRequest)| {
        let mut request = asked(&["stopped"]);
        change(&mut request);
        request
    };
    let mut row = |case: &str, request: &RecordHandOverRequest| row(matrix, catalog, case, request);
    row("MirrorName unknown", &with(|request| request.mirror_name = "no".into()));
    row("Topics empty", &asked(&[]));
    row("topics of all kinds, one twice", &asked(&NAMES));
    row("TopicId of another topic", &with(|request| request.topics[0].topic_id = Uuid([77; 16])));
    row("HandedOverTo empty", &with(|request| request.handed_over_to = " ".into()));
    row("HandedOverTo too long", &with(|request| request.handed_over_to = "x".repeat(1_001)));
    row("HandedOverTo with a line feed", &with(|request| request.handed_over_to = "a\nb".into()));
    row("Returned, though it never was handed over", &with(|request| request.returned = true));
}

fn later(matrix: &mut Matrix, away: &Catalog) {
    let mut row = |case: &str, request: &RecordHandOverRequest| row(matrix, away, case, request);
    row("handed over there already", &asked(&["stopped"]));
    row(
        "to another while it is handed over",
        &RecordHandOverRequest { handed_over_to: "node 2".into(), ..asked(&["stopped"]) },
    );
    row("Returned", &RecordHandOverRequest { returned: true, ..asked(&["stopped"]) });
    let mut elsewhere = RecordHandOverRequest { returned: true, ..asked(&["stopped"]) };
    elsewhere.topics[0].partitions = vec![EndedPartition { last_mirrored_offset: 12, ..EndedPartition::default() }];
    row("Returned, ending elsewhere", &elsewhere);
    elsewhere.topics[0].partitions[0].partition_index = 3;
    row("Returned, with a partition that it does not have", &elsewhere);
}

/// What a handed-over topic answers to those who want it to flow.
fn refused(matrix: &mut Matrix, away: &Catalog) {
    matrix.api(api::START_MIRROR_TOPICS);
    let answer = answer();
    for from_scratch in [false, true] {
        let topics = vec![start::TopicData { topic_name: "stopped".into(), ..Default::default() }];
        let request = StartMirrorTopicsRequest { mirror_name: "m".into(), topics, from_scratch, ..Default::default() };
        let board = Board::default();
        let (events, response) = start_mirror_topics::decide(&request, Ok(answer.clone()), away, &View::new(&board, 0));
        let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
        let case =
            if from_scratch { "a topic that is handed over, from scratch" } else { "a topic that is handed over" };
        matrix.row(case, Answered::items(response.error_code, items, events.len()));
    }
    matrix.api(api::PAUSE_MIRROR_TOPICS);
    let topics = vec![pause::TopicData { topic_name: "stopped".into(), ..Default::default() }];
    let request = PauseMirrorTopicsRequest { mirror_name: "m".into(), topics };
    let (events, response) = pause_resume::pause(&request, 1, away);
    let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
    matrix.row("a topic that is handed over", Answered::items(response.error_code, items, events.len()));
    matrix.api(api::RESUME_MIRROR_TOPICS);
    let topics = vec![resume::TopicData { topic_name: "stopped".into(), ..Default::default() }];
    let request = ResumeMirrorTopicsRequest { mirror_name: "m".into(), topics };
    let (events, response) = pause_resume::resume(&request, 1, away);
    let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
    matrix.row("a topic that is handed over", Answered::items(response.error_code, items, events.len()));
}
