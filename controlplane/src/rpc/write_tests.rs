//! Writes of states by another node. What a pass proves: what each written state does in each state, that the epochs in the
//! answers are those that are recorded, and that a fenced or wrong write changes nothing.

use super::golden;
use super::tests::{apply, source, world};
use crate::mirror::catalog::{Catalog, Desired, LastMirrored, Standing, StateRecord};
use crate::mirror::decide::{Draft, Room};
use crate::mirror::event::MirrorEvent;
use crate::mirror::machine::{Event, STATES};
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::rpc::{pause_resume, read_mirror_states, start_mirror_topics, write_mirror_states};
use crate::source::topics::Answer;
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::pause_mirror_topics::{self, PauseMirrorTopicsRequest};
use twinlog_proto::messages::read_mirror_states::{PartitionResult as Read, ReadMirrorStatesRequest};
use twinlog_proto::messages::resume_mirror_topics::{self, ResumeMirrorTopicsRequest};
use twinlog_proto::messages::start_mirror_topics::{self as start, StartMirrorTopicsRequest};
use twinlog_proto::messages::write_mirror_states::{
    PartitionData, PartitionResult, TopicData, WriteMirrorStatesRequest, WriteMirrorStatesResponse,
};
use twinlog_proto::mirror_state::MirrorState;

const V1: i16 = 1;

fn write(topic: &str, index: i32, state: MirrorState) -> (String, PartitionData) {
    (topic.to_owned(), PartitionData { partition_index: index, state: state.code(), ..PartitionData::default() })
}

fn request(writes: impl IntoIterator<Item = (String, PartitionData)>) -> WriteMirrorStatesRequest {
    let topic = |(name, partition)| TopicData { name, partitions: vec![partition] };
    WriteMirrorStatesRequest {
        mirror_name: "m".into(),
        topics: writes.into_iter().map(topic).collect(),
        ..WriteMirrorStatesRequest::default()
    }
}

fn decide(
    request: &WriteMirrorStatesRequest,
    version: i16,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, WriteMirrorStatesResponse) {
    write_mirror_states::decide(request, version, catalog, &View::new(&Board::default(), 0))
}

/// One write; the answer, and the catalog after it.
fn one(catalog: &Catalog, change: (String, PartitionData)) -> (PartitionResult, Catalog) {
    let (events, mut response) = decide(&request([change]), V1, catalog);
    (response.topics.remove(0).partitions.remove(0), apply(catalog, events))
}

fn standing(catalog: &Catalog, topic: &str) -> Standing {
    catalog.partition("m", topic, 0).unwrap().standing.clone()
}

fn read(catalog: &Catalog, topic: &str, board: &Board) -> Read {
    let request = ReadMirrorStatesRequest { mirror_name: "m".into(), topics: Vec::new() };
    let answer = read_mirror_states::handle(&request, catalog, &View::new(board, 0));
    answer.topics.into_iter().find(|found| found.name == topic).unwrap().partitions.remove(0)
}

fn with_standing(mut catalog: Catalog, topic: &str, standing: Standing) -> Catalog {
    let (mirror, topic, topic_id, partition) = ("m".into(), topic.into(), Uuid([1; 16]), 0);
    catalog.apply(&StateRecord::Standing { mirror, topic, topic_id, partition, standing });
    catalog
}

/// What a written state comes to for `flows`-0 in state `now`; `None` when nothing changes.
fn outcome(now: MirrorState, wanted: MirrorState, placed: bool) -> Option<String> {
    let room = Room { directories: vec!["/d".into()], slots_max: 8, version_floor: 0 };
    let previous = if now == MirrorState::Failed { MirrorState::Mirroring } else { MirrorState::Unknown };
    let before = Standing { state: now, previous, state_epoch: 5, ..Standing::default() };
    let mut catalog = world();
    if !placed {
        let facts = catalog.topic("m", "flows").unwrap().facts.clone();
        for facts in [None, Some(facts)] {
            catalog.apply(&StateRecord::Topic { mirror: "m".into(), topic: "flows".into(), facts });
        }
    }
    let catalog = with_standing(catalog, "flows", before.clone());
    let (events, response) = decide(&request([write("flows", 0, wanted)]), V1, &catalog);
    let answer = &response.topics[0].partitions[0];
    let mut draft = Draft::new(&catalog, &room);
    events.into_iter().for_each(|event| draft.take(event).unwrap());
    let decided = draft.finish();
    let after = standing(&decided.catalog, "flows");
    match (answer.error_code, answer.state_epoch) {
        (0, -1) => {
            assert_eq!(after, before, "{now:?} {wanted:?}");
            assert!(answer.error_message.is_some(), "it is said why nothing changed");
            None
        }
        (0, epoch) => {
            assert_eq!(epoch, after.state_epoch, "{now:?} {wanted:?}");
            let told = if decided.send.is_empty() { "" } else { ", the data plane is told" };
            Some(format!("{}{told}", after.state.name()))
        }
        (code, epoch) => {
            assert_eq!((epoch, &after), (-1, &before));
            Some(ErrorCode(code).to_string())
        }
    }
}

#[test]
fn what_a_written_state_does_in_each_state_is_what_the_golden_file_says() {
    let mut printed = String::from(
        "state, written state -> state after it, or the refusal (what is not listed changes nothing and is no error)\n",
    );
    for now in STATES.into_iter().filter(|now| *now != MirrorState::EpochFencing) {
        printed.push('\n');
        for wanted in STATES.into_iter().filter(|wanted| *wanted != MirrorState::Unknown) {
            let [placed, nowhere] = [true, false].map(|placed| outcome(now, wanted, placed));
            let names = format!("{:<13} {:<13}", now.name(), wanted.name());
            let differs = nowhere.filter(|nowhere| {
                placed.as_ref().is_none_or(|placed| placed.split(',').next() != nowhere.split(',').next())
            });
            printed.extend(placed.map(|line| format!("{names} -> {line}\n")));
            printed.extend(differs.map(|line| {
                format!("{names} -> {} when it is placed nowhere\n", line.split(',').next().unwrap_or_default())
            }));
        }
    }
    golden::assert("written_states.txt", &printed);
}

#[test]
fn writers_are_fenced_by_the_epochs_that_a_read_shows_and_a_fenced_write_changes_nothing() {
    let catalog = world();
    let slot = catalog.partition("m", "flows", 0).unwrap().placement.as_ref().unwrap().slot;
    let shown = PartitionProgress {
        leader_epoch: 4,
        ..PartitionProgress::unknown(identity(Uuid([1; 16]), 0), SlotState::Mirroring)
    };
    let board = Board([(slot, shown)].into());
    let now = read(&catalog, "flows", &board);
    assert_eq!((now.leader_epoch, now.state_epoch), (4, standing(&catalog, "flows").state_epoch));
    let at = |catalog: &Catalog, leader_epoch, state_epoch| {
        let (topic, data) = write("flows", 0, MirrorState::Pausing);
        let request = request([(topic, PartitionData { leader_epoch, state_epoch, ..data })]);
        let (events, response) = write_mirror_states::decide(&request, V1, catalog, &View::new(&board, 0));
        (events, response.topics[0].partitions[0].error_code, response.topics[0].partitions[0].state_epoch)
    };
    assert_eq!(at(&catalog, 3, now.state_epoch), (Vec::new(), 74, -1));
    assert_eq!(at(&catalog, 4, now.state_epoch - 1), (Vec::new(), 124, -1));
    assert_eq!(at(&catalog, -1, -1).1, 0, "-1 is not checked");
    let (events, code, epoch) = at(&catalog, 6, now.state_epoch);
    assert_eq!((code, epoch), (0, now.state_epoch + 1));
    let after = apply(&catalog, events);
    let read_again = read(&after, "flows", &board);
    assert_eq!((read_again.leader_epoch, read_again.state_epoch, read_again.state), (6, epoch, 3));
    assert_eq!(at(&after, 5, epoch).1, 74, "a later writer fences the earlier ones, also without a data plane");
    assert_eq!(read(&after, "flows", &Board::default()).leader_epoch, 6);
}

#[test]
fn a_reported_failure_keeps_what_the_writer_says_of_it_and_is_taken_back_by_the_state_before() {
    let report = |data: PartitionData| {
        let failed = PartitionData { error_message: Some("disk".into()), state: 7, ..data };
        one(&world(), ("flows".to_owned(), failed)).1
    };
    let counted = standing(&report(PartitionData::default()), "flows");
    assert_eq!(
        (counted.state, counted.previous, counted.retry_attempt),
        (MirrorState::Failed, MirrorState::Mirroring, 1)
    );
    assert_eq!(counted.message.as_deref(), Some("disk"));
    let given = report(PartitionData { retry_attempt: 7, ..PartitionData::default() });
    assert_eq!(standing(&given, "flows").retry_attempt, 7);
    let lasting = report(PartitionData { retry_attempt: 7, non_retryable: true, ..PartitionData::default() });
    assert_eq!(standing(&lasting, "flows").retry_attempt, -1);
    let (answer, recovered) = one(&lasting, write("flows", 0, MirrorState::Mirroring));
    let after = standing(&recovered, "flows");
    assert_eq!((answer.state_epoch, after.state, after.retry_attempt), (after.state_epoch, MirrorState::Mirroring, 0));
    let attempt = |catalog: &Catalog| catalog.partition("m", "flows", 0).unwrap().placement.as_ref().unwrap().attempt;
    assert_eq!(attempt(&recovered), attempt(&lasting) + 1, "the data plane is asked to try again");
}

#[test]
fn positions_are_recorded_with_or_without_a_state_and_each_layout_has_its_own_word_for_none() {
    let position = |offset, epoch| PartitionData {
        last_mirror_offset: offset,
        last_mirror_epoch: epoch,
        state: MirrorState::Unknown.code(),
        ..PartitionData::default()
    };
    let catalog = world();
    let recorded = |catalog: &Catalog, topic: &str| catalog.partition("m", topic, 0).unwrap().last_mirrored;
    let (answer, after) = one(&catalog, ("flows".to_owned(), position(0, 2)));
    assert_eq!((answer.error_code, answer.state_epoch), (0, -1), "only the position");
    assert_eq!(recorded(&after, "flows"), Some(LastMirrored { offset: 0, epoch: 2 }), "0 is a value");
    assert_eq!(standing(&after, "flows"), standing(&catalog, "flows"));
    let (_, after) = one(&catalog, ("stopped".to_owned(), position(-1, 9)));
    assert_eq!(recorded(&after, "stopped"), Some(LastMirrored { offset: 10, epoch: 9 }));
    let both = PartitionData { state: MirrorState::Stopping.code(), ..position(33, 3) };
    let (answer, after) = one(&catalog, ("flows".to_owned(), both));
    assert_eq!(recorded(&after, "flows"), Some(LastMirrored { offset: 33, epoch: 3 }));
    assert_eq!(
        (answer.state_epoch, standing(&after, "flows").state),
        (standing(&after, "flows").state_epoch, MirrorState::Stopping)
    );

    let first = |last_mirrored_offset| {
        let data = PartitionData { last_mirrored_offset, state: 16, ..PartitionData::default() };
        let (events, _) = decide(&request([("stopped".to_owned(), data)]), 0, &catalog);
        recorded(&apply(&catalog, events), "stopped").unwrap()
    };
    assert_eq!(first(12), LastMirrored { offset: 12, epoch: -1 });
    assert_eq!((first(0).offset, first(-1).offset), (10, 10), "a known position is not lost");
}

#[test]
fn one_wrong_write_refuses_itself_alone() {
    let wrong = |change: PartitionData| ("flows".to_owned(), PartitionData { state: 16, ..change });
    let default = PartitionData::default;
    let writes = [
        write("paused", 0, MirrorState::Stopping),
        write("paused", 0, MirrorState::Mirroring),
        write("paused", 7, MirrorState::Stopping),
        write("nope", 0, MirrorState::Stopping),
        write("theirs", 0, MirrorState::Stopping),
        write("stopped", 0, MirrorState::Preparing),
        ("stopping".to_owned(), PartitionData { state: 9, ..default() }),
        wrong(PartitionData { last_mirror_epoch: 3, ..default() }),
        wrong(PartitionData { partition_index: 0, last_mirror_offset: -2, ..default() }),
    ];
    let (events, response) = decide(&request(writes), V1, &world());
    let codes: Vec<i16> = response.topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    assert_eq!(codes, [0, 42, 3, 3, 3, 1145, 42, 42, 42]);
    assert!(response.topics[1..].iter().all(|topic| topic.partitions[0].error_message.is_some()));
    assert_eq!(events.len(), 1, "{events:?}");
    for retry_attempt in [-2, 40_000] {
        let answer = one(&world(), wrong(PartitionData { retry_attempt, ..default() })).0;
        assert_eq!((answer.error_code, answer.state_epoch), (42, -1));
    }
    let whole = TopicData { name: "nope".into(), partitions: Vec::new() };
    let mut whole =
        WriteMirrorStatesRequest { mirror_name: "m".into(), topics: vec![whole], removed_topics: Vec::new() };
    let answer = &decide(&whole, V1, &world()).1.topics[0].partitions[0];
    assert_eq!((answer.partition_index, answer.error_code), (-1, 3));
    whole.mirror_name = "no".into();
    assert_eq!(decide(&whole, V1, &world()).1.error_code, 1137);
}

#[test]
fn removed_topics_stop_and_each_has_an_entry() {
    let names = ["flows", "stopped", "nope", "theirs"];
    let removed_topics = names.map(String::from).into();
    let request = WriteMirrorStatesRequest { mirror_name: "m".into(), topics: Vec::new(), removed_topics };
    let (events, response) = decide(&request, 0, &world());
    let told: Vec<_> = response.topics.iter().map(|t| (t.name.as_str(), t.partitions[0].error_code)).collect();
    assert_eq!(told, [("flows", 0), ("nope", 3), ("stopped", 0), ("theirs", 1139)]);
    let after = apply(&world(), events);
    assert_eq!(after.topic("m", "flows").unwrap().facts.desired, Desired::Stop);
    assert_eq!(standing(&after, "flows").state, MirrorState::Stopping);
}

#[test]
fn a_topic_of_which_another_node_moved_one_partition_still_follows_its_operator() {
    let started = MirrorEvent::Started { mirror: "m".into(), topic: source("wide", 9, 2) };
    let flows = [0, 1].map(|index| MirrorEvent::partition("m", "wide", index, Event::SlotMirroring));
    let wide = apply(&world(), std::iter::once(started).chain(flows).collect());
    let states = |catalog: &Catalog| [0, 1].map(|i| catalog.partition("m", "wide", i).unwrap().standing.state);
    let paused = one(&wide, write("wide", 1, MirrorState::Pausing)).1;
    let paused = apply(&paused, vec![MirrorEvent::partition("m", "wide", 1, Event::SlotPaused)]);
    assert_eq!(states(&paused), [MirrorState::Mirroring, MirrorState::Paused]);

    let topics = vec![resume_mirror_topics::TopicData { topic_name: "wide".into(), ..Default::default() }];
    let request = ResumeMirrorTopicsRequest { mirror_name: "m".into(), topics };
    let (events, response) = pause_resume::resume(&request, V1, &paused);
    assert_eq!(response.topics[0].error_code, 0);
    assert_eq!(states(&apply(&paused, events)), [MirrorState::Mirroring; 2]);
    let topics = vec![pause_mirror_topics::TopicData { topic_name: "wide".into(), ..Default::default() }];
    let request = PauseMirrorTopicsRequest { mirror_name: "m".into(), topics };
    let (events, response) = pause_resume::pause(&request, V1, &paused);
    assert_eq!(response.topics[0].error_code, 0);
    assert_eq!(states(&apply(&paused, events)), [MirrorState::Pausing, MirrorState::Paused]);

    let stopped = one(&wide, write("wide", 1, MirrorState::Stopping)).1;
    let stopped = apply(&stopped, vec![MirrorEvent::partition("m", "wide", 1, Event::SlotStopped)]);
    let topics = vec![start::TopicData { topic_name: "wide".into(), ..Default::default() }];
    let request = StartMirrorTopicsRequest { mirror_name: "m".into(), topics, ..Default::default() };
    let topics = [("wide".to_owned(), Ok(source("wide", 9, 2)))].into();
    let answer = Answer { cluster_id: "src".into(), topics, ..Answer::default() };
    let board = Board::default();
    let (events, response) = start_mirror_topics::decide(&request, Ok(answer), &stopped, &View::new(&board, 0));
    assert_eq!(response.topics[0].error_code, 0);
    assert_eq!(states(&apply(&stopped, events)), [MirrorState::Mirroring, MirrorState::Preparing]);
}
