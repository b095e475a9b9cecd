//! Rows of the record of a hand-over, and of what is refused after one.

use super::{Answered, Matrix};
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::tests::{apply, source};
use crate::rpc::{pause_resume, record_hand_over, start_mirror_topics};
use crate::source::topics::Answer;
use twinlog_proto::api;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::pause_mirror_topics::{self as pause, PauseMirrorTopicsRequest};
use twinlog_proto::messages::record_hand_over::{RecordHandOverRequest, TopicData};
use twinlog_proto::messages::resume_mirror_topics::{self as resume, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self as start, StartMirrorTopicsRequest};

const NAMES: [&str; 7] = ["flows", "paused", "stopping", "stopped", "theirs", "nope", "stopped"];
const NODE: &str = "node 1";

pub(super) fn all(matrix: &mut Matrix, catalog: &Catalog) {
    records(matrix, catalog);
    let (mirror, topic) = ("m".to_owned(), "stopped".to_owned());
    let away = apply(catalog, vec![MirrorEvent::HandedOver { mirror, topic, to: Some(NODE.into()) }]);
    later(matrix, &away);
    refused(matrix, &away);
}

fn row(matrix: &mut Matrix, catalog: &Catalog, case: &str, request: &RecordHandOverRequest) {
    let (events, response) = record_hand_over::decide(request, catalog);
    let items = response.topics.iter().map(|topic| (format!("{:?}", topic.name), topic.error_code));
    matrix.row(case, Answered::items(response.error_code, items, events.len()));
}

fn asked(names: &[&str]) -> RecordHandOverRequest {
    let topic = |name: &&str| TopicData { topic_id: Uuid::ZERO, topic_name: (*name).into() };
    let topics = names.iter().map(topic).collect();
    RecordHandOverRequest { mirror_name: "m".into(), topics, handed_over_to: NODE.into(), returned: false }
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
}

/// What a handed-over topic answers to those who want it to flow.
fn refused(matrix: &mut Matrix, away: &Catalog) {
    matrix.api(api::START_MIRROR_TOPICS);
    let answer = Answer {
        cluster_id: "src".into(),
        topics: [("stopped".to_owned(), Ok(source("stopped", 4, 1)))].into(),
        ..Answer::default()
    };
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
