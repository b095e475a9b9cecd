//! What a pass proves: decisions give the records that replay needs, in the right order, and nothing for an event that has
//! no place.

use super::*;
use crate::mirror::catalog::MirrorFacts;
use crate::mirror::event::TakenUp;
use crate::statelog::batch::KeyValue;
use crate::statelog::record;

fn room() -> Room {
    Room { directories: vec!["/a".into(), "/b".into()], slots_max: 6, version_floor: 0 }
}

fn source(name: &str, partition_count: i32) -> SourceTopic {
    let settings = TopicSettings { segment_bytes: 4096, compacted: true, ..TopicSettings::default() };
    SourceTopic { name: name.into(), id: Uuid([7; 16]), partition_count, settings, internal: false }
}

fn created() -> MirrorEvent {
    let settings = [("bootstrap.servers".to_owned(), "s:1".to_owned())].into();
    let facts = MirrorFacts { source_cluster_id: "src".into(), settings, ..MirrorFacts::default() };
    MirrorEvent::Created { mirror: "m".into(), facts }
}

fn started(partition_count: i32) -> MirrorEvent {
    MirrorEvent::Started { mirror: "m".into(), topic: source("t", partition_count) }
}

fn wanted(desired: Desired, event: Event) -> MirrorEvent {
    MirrorEvent::Wanted { mirror: "m".into(), topic: "t".into(), desired, event }
}

/// Takes the events as one group, and checks that the log gives the same catalog.
fn group(before: &Catalog, events: impl IntoIterator<Item = MirrorEvent>) -> Decided {
    let room = room();
    let mut draft = Draft::new(before, &room);
    for event in events {
        draft.take(event).unwrap();
    }
    let decided = draft.finish();
    let mut replayed = before.clone();
    for written in record::encode_all(&decided.records) {
        record::decode(&written).unwrap().iter().for_each(|fact| replayed.apply(fact));
    }
    assert_eq!(replayed, decided.catalog, "replay gives what was decided");
    decided
}

fn state(catalog: &Catalog, partition: i32) -> MirrorState {
    catalog.partition("m", "t", partition).unwrap().standing.state
}

#[test]
fn a_start_places_every_partition_and_asks_for_it_at_the_new_version() {
    let decided = group(&Catalog::default(), [created(), started(3)]);
    let places: Vec<Placement> =
        decided.catalog.partitions().map(|(.., partition)| partition.placement.clone().unwrap()).collect();
    let slots: Vec<(u32, &str, i64)> = places.iter().map(|p| (p.slot, p.directory.as_str(), p.asked_version)).collect();
    assert_eq!(slots, [(0, "/a", 1), (1, "/b", 1), (2, "/a", 1)]);
    assert_eq!(decided.send, ["m".to_owned()].into());
    assert_eq!(decided.catalog.topic("m", "t").unwrap().facts.settings.segment_bytes, 4096);
    assert_eq!(state(&decided.catalog, 2), MirrorState::Preparing);
}

#[test]
fn a_start_that_finds_no_room_changes_nothing() {
    let before = group(&Catalog::default(), [created()]).catalog;
    let room = room();
    let mut draft = Draft::new(&before, &room);
    assert_eq!(draft.take(started(7)), Err(NotTaken::Full(6)));
    assert!(draft.is_empty());
    assert_eq!(draft.finish().catalog, before);
}

#[test]
fn the_end_of_mirroring_is_recorded_with_the_stop_and_survives_the_next_start() {
    let running = group(&Catalog::default(), [created(), started(1)]).catalog;
    let stopping = group(&running, [wanted(Desired::Stop, Event::Stop)]);
    assert_eq!(state(&stopping.catalog, 0), MirrorState::Stopping);
    let last = LastMirrored { offset: 42, epoch: 5 };
    let stopped =
        group(&stopping.catalog, [MirrorEvent::detailed("m", "t", 0, Event::SlotStopped, Detail::Ended(Some(last)))]);
    assert_eq!(stopped.catalog.partition("m", "t", 0).unwrap().last_mirrored, Some(last));
    assert!(stopped.send.is_empty(), "the data plane knows it already");
    let again = group(&stopped.catalog, [started(1)]).catalog;
    assert_eq!(again.partition("m", "t", 0).unwrap().last_mirrored, Some(last));
    assert_eq!(again.topic("m", "t").unwrap().facts.desired, Desired::Mirror);
}

#[test]
fn failures_are_counted_kept_with_their_cause_and_a_retry_raises_the_attempt() {
    let mut catalog = group(&Catalog::default(), [created(), started(1)]).catalog;
    let failed = |retryable| {
        let detail = Detail::Failure { message: "x".repeat(ERROR_CHARS_MAX + 9), retryable };
        MirrorEvent::detailed("m", "t", 0, Event::Failed, detail)
    };
    for failures in 1..=2 {
        let decided = group(&catalog, [failed(true)]);
        assert_eq!(decided.armed.values().copied().collect::<Vec<i16>>(), [failures]);
        let standing = decided.catalog.partition("m", "t", 0).unwrap().standing.clone();
        assert_eq!((standing.previous, standing.retry_attempt), (MirrorState::Preparing, failures));
        assert_eq!(standing.message.unwrap().len(), ERROR_CHARS_MAX);
        catalog = group(&decided.catalog, [MirrorEvent::partition("m", "t", 0, Event::RetryDue)]).catalog;
        assert_eq!(catalog.partition("m", "t", 0).unwrap().placement.as_ref().unwrap().attempt, i32::from(failures));
        assert_eq!(state(&catalog, 0), MirrorState::Preparing);
    }
    let last = group(&catalog, [failed(false)]);
    assert!(last.armed.is_empty(), "what a retry cannot mend is not tried again");
    assert_eq!(last.catalog.partition("m", "t", 0).unwrap().standing.retry_attempt, -1);
    let by_hand = group(&last.catalog, [started(1)]).catalog;
    let standing = &by_hand.partition("m", "t", 0).unwrap().standing;
    assert_eq!((standing.state, standing.retry_attempt, &standing.message), (MirrorState::Preparing, 0, &None));
}

#[test]
fn a_topic_that_no_source_was_asked_about_stops_at_once_and_is_placed_when_it_is_resolved() {
    let unresolved = MirrorEvent::StartedUnresolved { mirror: "m".into(), topic: "t".into() };
    let waiting = group(&Catalog::default(), [created(), unresolved]);
    assert_eq!(state(&waiting.catalog, 0), MirrorState::Initializing);
    assert!(waiting.send.is_empty());
    let stopped = group(&waiting.catalog, [wanted(Desired::Stop, Event::Stop)]).catalog;
    assert_eq!(state(&stopped, 0), MirrorState::Stopped);
    let failed = MirrorEvent::detailed(
        "m",
        "t",
        0,
        Event::Failed,
        Detail::Failure { message: "no such topic".into(), retryable: false },
    );
    let failed = group(&waiting.catalog, [failed]).catalog;
    let stopped = group(&failed, [wanted(Desired::Stop, Event::Stop)]).catalog;
    assert_eq!(state(&stopped, 0), MirrorState::Stopped, "nobody else will say that it has stopped");
    let resolved = group(&waiting.catalog, [started(2)]).catalog;
    assert_eq!((state(&resolved, 0), state(&resolved, 1)), (MirrorState::Preparing, MirrorState::Preparing));
}

#[test]
fn only_a_mirror_whose_partitions_are_all_stopped_is_forgotten_and_its_slots_are_free_again() {
    let running = group(&Catalog::default(), [created(), started(2)]).catalog;
    let deleted = || MirrorEvent::Deleted { mirror: "m".into() };
    let room = room();
    assert!(matches!(Draft::new(&running, &room).take(deleted()), Err(NotTaken::Refused(_))));
    let ended = |index| MirrorEvent::detailed("m", "t", index, Event::SlotStopped, Detail::Ended(None));
    let stopped = group(&running, [wanted(Desired::Stop, Event::Stop), ended(0), ended(1)]).catalog;
    let gone = group(&stopped, [deleted()]);
    assert_eq!((gone.catalog.mirrors().count(), gone.removed), (0, ["m".to_owned()].into()));
    assert!(gone.catalog.slots().is_empty());
}

#[test]
fn a_stop_that_failed_is_asked_for_again_at_a_higher_attempt() {
    use crate::rpc::stop_mirror_topics;
    use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData};
    let failed = Detail::Failure { message: "the disk is full".into(), retryable: false };
    let failed = MirrorEvent::detailed("m", "t", 0, Event::Failed, failed);
    let running = group(&Catalog::default(), [created(), started(1)]).catalog;
    let stuck = group(&running, [wanted(Desired::Stop, Event::Stop), failed]).catalog;
    let topics = vec![TopicData { topic_name: "t".into(), ..TopicData::default() }];
    let request = StopMirrorTopicsRequest { mirror_name: "m".into(), topics, patterns: Vec::new() };
    let (events, _) = stop_mirror_topics::decide(&request, &stuck);
    let again = group(&stuck, events).catalog;
    assert_eq!(state(&again, 0), MirrorState::Stopping);
    assert_eq!(again.partition("m", "t", 0).unwrap().placement.as_ref().unwrap().attempt, 1);
}

#[test]
fn positions_of_a_deleted_mirror_are_not_those_of_one_that_is_created_again_in_the_same_group() {
    let running = group(&Catalog::default(), [created(), started(1)]).catalog;
    let last = Detail::Ended(Some(LastMirrored { offset: 9, epoch: 1 }));
    let ended = MirrorEvent::detailed("m", "t", 0, Event::SlotStopped, last);
    let deleted = MirrorEvent::Deleted { mirror: "m".into() };
    let again = group(&running, [wanted(Desired::Stop, Event::Stop), ended, deleted, created(), started(1)]).catalog;
    assert_eq!(again.partition("m", "t", 0).unwrap().last_mirrored, None);
}

#[test]
fn a_snapshot_of_the_catalog_replays_to_the_same_catalog_with_what_is_not_understood() {
    let foreign = KeyValue { key: vec![0, 99, 1], value: Some(vec![1, 2, 3]) };
    let mut catalog = group(&Catalog::default(), [created(), started(3)]).catalog;
    catalog.apply(&StateRecord::Foreign(foreign));
    let last = LastMirrored { offset: 9, epoch: -1 };
    catalog.apply(&StateRecord::LastMirrored { mirror: "m".into(), topic: "t".into(), partition: 1, last });
    let mut replayed = Catalog::default();
    for written in record::encode_all(&catalog.records().collect::<Vec<_>>()) {
        record::decode(&written).unwrap().iter().for_each(|fact| replayed.apply(fact));
    }
    assert_eq!(replayed, catalog);
}

#[test]
fn a_topic_that_begins_anew_forgets_where_mirroring_ended_and_flows_only_once_its_files_are_gone() {
    let running = group(&Catalog::default(), [created(), started(3)]).catalog;
    let stop = |index| {
        let last = Some(LastMirrored { offset: 42, epoch: 5 });
        MirrorEvent::detailed("m", "t", index, Event::SlotStopped, Detail::Ended(last))
    };
    let broken = Detail::Failure { message: "damaged".into(), retryable: false };
    let stopped = group(
        &running,
        [
            wanted(Desired::Stop, Event::Stop),
            stop(0),
            stop(1),
            MirrorEvent::detailed("m", "t", 2, Event::Failed, broken),
        ],
    )
    .catalog;
    let other = SourceTopic { id: Uuid([8; 16]), ..source("t", 2) };
    // Together with a last stop, whose position must not come back by the order of records.
    let anew = group(&stopped, [MirrorEvent::Anew { mirror: "m".into(), topic: other }]);
    assert_eq!(anew.send, ["m".to_owned()].into());
    let topic = anew.catalog.topic("m", "t").unwrap();
    assert_eq!((topic.facts.id, topic.facts.desired), (Uuid([8; 16]), Desired::Mirror));
    for index in 0..3 {
        let (before, after) = (stopped.partition("m", "t", index).unwrap(), &topic.partitions[&index]);
        let (old, new) = (before.placement.as_ref().unwrap(), after.placement.as_ref().unwrap());
        assert_eq!((state(&anew.catalog, index), after.last_mirrored), (MirrorState::Preparing, None));
        assert!(new.discard && new.attempt == old.attempt + 1, "{new:?}");
        assert_eq!((new.slot, &new.directory), (old.slot, &old.directory), "where the old files are");
        assert!(after.standing.state_epoch > before.standing.state_epoch && after.standing.message.is_none());
    }
    let room = room();
    let mut draft = Draft::new(&anew.catalog, &room);
    draft.take(wanted(Desired::Stop, Event::Stop)).unwrap();
    let early = draft.take(MirrorEvent::detailed("m", "t", 0, Event::SlotStopped, Detail::Ended(None)));
    assert!(early.is_err(), "a stop waits for the files to be gone");
    let gone = |index| MirrorEvent::partition("m", "t", index, Event::SlotDiscarded);
    let flows = group(&anew.catalog, [gone(0), gone(1), gone(2)]);
    assert_eq!(flows.send, ["m".to_owned()].into(), "the wish to mirror goes out now");
    let topic = flows.catalog.topic("m", "t").unwrap();
    assert!(!topic.partitions[&0].placement.as_ref().unwrap().discard);
    assert!(!topic.partitions.contains_key(&2), "the source has it no longer");
    assert_eq!(draft_of(&flows.catalog, gone(0)), Err(NotTaken::Absent), "told twice it is done once");
}

fn draft_of(catalog: &Catalog, event: MirrorEvent) -> Result<(), NotTaken> {
    Draft::new(catalog, &room()).take(event)
}

#[test]
fn a_position_that_was_recorded_in_the_same_group_does_not_outlive_the_topic() {
    let running = group(&Catalog::default(), [created(), started(1), wanted(Desired::Stop, Event::Stop)]).catalog;
    let last = Some(LastMirrored { offset: 42, epoch: 5 });
    let ended = MirrorEvent::detailed("m", "t", 0, Event::SlotStopped, Detail::Ended(last));
    let anew = MirrorEvent::Anew { mirror: "m".into(), topic: source("t", 1) };
    assert_eq!(group(&running, [ended, anew]).catalog.partition("m", "t", 0).unwrap().last_mirrored, None);
}

#[test]
fn a_new_topic_that_begins_from_scratch_trusts_no_folder_that_lies_there() {
    let anew = MirrorEvent::Anew { mirror: "m".into(), topic: source("t", 2) };
    let catalog = group(&Catalog::default(), [created(), anew]).catalog;
    assert!(catalog.partitions().all(|(.., partition)| partition.placement.as_ref().unwrap().discard));
}

#[test]
fn a_topic_that_comes_with_its_directories_is_stopped_and_a_brokers_until_it_is_given_back() {
    let before = group(&Catalog::default(), [created()]).catalog;
    let part = |partition, directory: &str, offset| TakenUp {
        partition,
        directory: directory.to_owned(),
        last: LastMirrored { offset, epoch: 3 },
    };
    let partitions = vec![part(0, "/b", 40), part(1, "/a", 0)];
    let taken = MirrorEvent::TakenUp { mirror: "m".into(), topic: source("t", 2), to: "node 1".into(), partitions };
    let decided = group(&before, [taken.clone()]);
    let topic = decided.catalog.topic("m", "t").unwrap();
    assert_eq!((topic.facts.desired, topic.handed_over.as_deref()), (Desired::Stop, Some("node 1")));
    let first = &topic.partitions[&0];
    assert_eq!(
        (first.standing.state, first.last_mirrored),
        (MirrorState::Stopped, Some(LastMirrored { offset: 40, epoch: 3 }))
    );
    assert_eq!(first.placement.as_ref().map(|p| (p.slot, p.directory.as_str())), Some((0, "/b")));
    assert_eq!(decided.send, ["m".to_owned()].into());
    let room = room();
    assert_eq!(Draft::new(&decided.catalog, &room).take(taken), Err(NotTaken::Absent), "it has the topic");
    assert_eq!(Draft::new(&decided.catalog, &room).take(started(2)), Err(NotTaken::HandedOver("node 1".into())));
    let back = MirrorEvent::HandedOver { mirror: "m".into(), topic: "t".into(), to: None };
    let flows = group(&decided.catalog, [back, started(3)]).catalog;
    assert_eq!(state(&flows, 0), MirrorState::Preparing);
    assert_eq!(flows.partition("m", "t", 0).unwrap().placement.as_ref().unwrap().directory, "/b");
}
