//! A pass proves: what a source says becomes the events that it should, once, and nothing else is touched.

use super::*;
use crate::mirror::catalog::{MirrorFacts, TopicSettings};
use crate::mirror::decide::{Draft, Room as Places};
use crate::plane::events::told;
use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::ids::Uuid;

fn places() -> Places {
    Places { directories: vec!["/d".to_owned()], slots_max: 8, version_floor: 0 }
}

fn topic(name: &str, id: u8, partition_count: i32) -> SourceTopic {
    let settings = TopicSettings::default();
    SourceTopic {
        name: name.to_owned(),
        id: Uuid([id; 16]),
        partition_count,
        settings,
        internal: name.starts_with("__"),
    }
}

/// The catalog after some events.
fn taken(catalog: &Catalog, events: Vec<MirrorEvent>) -> Catalog {
    let places = places();
    let mut draft = Draft::new(catalog, &places);
    for event in events {
        draft.take(event).unwrap();
    }
    draft.finish().catalog
}

/// A mirror `m` of cluster `c` with these topics; everything that matches `a.*` is to follow.
fn catalog(topics: &[SourceTopic]) -> Catalog {
    let include = vec!["a.*".to_owned()];
    let facts = MirrorFacts { source_cluster_id: "c".to_owned(), include, ..MirrorFacts::default() };
    let start = |topic: &SourceTopic| MirrorEvent::Started { mirror: "m".to_owned(), topic: topic.clone() };
    let mut events = vec![MirrorEvent::Created { mirror: "m".to_owned(), facts }];
    events.extend(topics.iter().map(start));
    taken(&Catalog::default(), events)
}

fn learnt(cluster_id: &str, topics: &[SourceTopic]) -> Learnt {
    let topics = topics.iter().map(|topic| (topic.name.clone(), Ok(topic.clone()))).collect();
    let answer = Answer { cluster_id: cluster_id.to_owned(), topics, ..Answer::default() };
    Learnt { answer, gone: BTreeSet::new(), waiting: Vec::new() }
}

fn failed(catalog: &Catalog, topic: &str, partition: i32) -> String {
    let standing = &catalog.partition("m", topic, partition).unwrap().standing;
    assert_eq!((standing.state, standing.retry_attempt, standing.by_source), (MirrorState::Failed, -1, true));
    standing.message.clone().unwrap()
}

#[test]
fn a_source_that_answers_otherwise_each_time_is_judged_once() {
    let mirrored = catalog(&[topic("a", 1, 2)]);
    let ids = [learnt("c", &[topic("a", 2, 2)]), learnt("c", &[topic("a", 3, 2)])];
    let clusters = [learnt("d", &[topic("a", 1, 2)]), learnt("e", &[topic("a", 1, 2)])];
    for [first, then] in [ids, clusters] {
        let judged = taken(&mirrored, news(&mirrored, "m", &first, 6).events);
        let said = failed(&judged, "a", 0);
        let after = taken(&judged, news(&judged, "m", &then, 6).events);
        assert_eq!(failed(&after, "a", 0), said);
    }
}

#[test]
fn nothing_new_is_no_event() {
    let a = topic("a", 1, 2);
    let found = news(&catalog(std::slice::from_ref(&a)), "m", &learnt("c", &[a]), 6);
    assert!(found.events.is_empty() && found.notes.is_empty(), "{found:?}");
}

#[test]
fn partitions_that_were_added_start_and_those_that_failed_are_left_alone() {
    let detail = Detail::Failure { message: "diverged".to_owned(), retryable: false };
    let before = catalog(&[topic("a", 1, 2)]);
    let before = taken(&before, vec![MirrorEvent::detailed("m", "a", 0, Event::Failed, detail)]);
    let after = taken(&before, news(&before, "m", &learnt("c", &[topic("a", 1, 4)]), 6).events);
    let states: Vec<MirrorState> = (0..4).map(|p| after.partition("m", "a", p).unwrap().standing.state).collect();
    assert_eq!(states[0], MirrorState::Failed);
    assert_eq!(states[1..], [MirrorState::Preparing; 3]);
    let versions = |catalog: &Catalog| catalog.mirror("m").unwrap().facts.assignment_version;
    assert_eq!(versions(&after), versions(&before) + 1);
}

#[test]
fn settings_that_changed_are_taken_over_without_touching_a_partition() {
    let before = catalog(&[topic("a", 1, 1)]);
    let mut changed = topic("a", 1, 1);
    changed.settings.segment_bytes = 7;
    let after = taken(&before, news(&before, "m", &learnt("c", &[changed.clone()]), 6).events);
    assert_eq!(after.topic("m", "a").unwrap().facts.settings.segment_bytes, 7);
    assert_eq!(after.partition("m", "a", 0), before.partition("m", "a", 0));
    assert!(news(&after, "m", &learnt("c", &[changed]), 6).events.is_empty());
}

#[test]
fn a_topic_that_was_created_again_fails_with_both_ids_and_no_other_does() {
    let before = catalog(&[topic("a", 1, 2), topic("b", 2, 1)]);
    let learnt = learnt("c", &[topic("a", 3, 5), topic("b", 2, 1)]);
    let after = taken(&before, news(&before, "m", &learnt, 5).events);
    for partition in 0..2 {
        let message = failed(&after, "a", partition);
        assert!(message.starts_with(&told(FaultCode::RECREATED)), "{message}");
        assert!(message.contains(&Uuid([3; 16]).to_string()) && message.contains(&Uuid([1; 16]).to_string()));
    }
    assert_eq!(after.partition("m", "b", 0), before.partition("m", "b", 0));
    assert!(after.partition("m", "a", 2).is_none(), "the partitions of the new topic are not the old one's");
    assert!(news(&after, "m", &learnt, 5).events.is_empty(), "said once");
}

#[test]
fn a_topic_that_was_missing_twice_fails_and_comes_back_by_a_start_only() {
    let (a, b) = (topic("a", 1, 2), topic("b", 2, 1));
    let before = catalog(&[a.clone(), b.clone()]);
    let mut learnt_gone = learnt("c", std::slice::from_ref(&b));
    assert!(news(&before, "m", &learnt_gone, 5).events.is_empty(), "missing once says nothing");
    learnt_gone.gone.insert("a".to_owned());
    let gone = taken(&before, news(&before, "m", &learnt_gone, 5).events);
    assert!(failed(&gone, "a", 1).starts_with(&told(FaultCode::UNKNOWN_TOPIC)));
    assert!(news(&gone, "m", &learnt_gone, 5).events.is_empty(), "said once");
    assert!(news(&gone, "m", &learnt("c", &[a.clone(), b]), 5).events.is_empty(), "not by itself");
    let back = taken(&gone, vec![MirrorEvent::Started { mirror: "m".to_owned(), topic: a }]);
    let standing = &back.partition("m", "a", 1).unwrap().standing;
    assert_eq!((standing.state, standing.by_source), (MirrorState::Preparing, false));
    let stop = MirrorEvent::Wanted {
        mirror: "m".to_owned(),
        topic: "a".to_owned(),
        desired: Desired::Stop,
        event: Event::Stop,
    };
    let stopped = taken(&gone, vec![stop]);
    assert_eq!(stopped.partition("m", "a", 0).unwrap().standing.state, MirrorState::Stopping);
}

#[test]
fn another_cluster_fails_everything_with_both_ids() {
    let before = catalog(&[topic("a", 1, 2), topic("b", 2, 1)]);
    let after = taken(&before, news(&before, "m", &learnt("other", &[topic("a3", 9, 1)]), 5).events);
    for (name, partition) in [("a", 0), ("a", 1), ("b", 0)] {
        let message = failed(&after, name, partition);
        assert!(message.starts_with(&told(FaultCode::CLUSTER)), "{message}");
        assert!(message.contains("they are other") && message.contains("the source is c"), "{message}");
    }
    assert!(after.topic("m", "a3").is_none(), "nothing is discovered there");
}

#[test]
fn what_matches_is_discovered_and_what_does_not_fit_waits_with_a_note() {
    let before = catalog(&[]);
    let learnt = learnt("c", &[topic("a1", 1, 2), topic("a2", 2, 9), topic("b", 3, 1), topic("__a", 4, 1)]);
    let found = news(&before, "m", &learnt, 8);
    let after = taken(&before, found.events);
    assert_eq!(after.mirror("m").unwrap().topics.keys().collect::<Vec<_>>(), ["a1"]);
    assert!(found.notes.len() == 1 && found.notes[0].contains("a2"), "{:?}", found.notes);
}

fn stop(topic: &str) -> MirrorEvent {
    let (mirror, topic) = ("m".to_owned(), topic.to_owned());
    MirrorEvent::Wanted { mirror, topic, desired: Desired::Stop, event: Event::Stop }
}

#[test]
fn what_is_new_stays_at_the_source_once_every_topic_is_handed_over() {
    let handed = |topic: &str, to: Option<&str>| {
        let (mirror, topic, to) = ("m".to_owned(), topic.to_owned(), to.map(str::to_owned));
        MirrorEvent::HandedOver { mirror, topic, to }
    };
    let before = catalog(&[topic("a1", 1, 1), topic("a2", 2, 1), topic("__consumer_offsets", 7, 1)]);
    let new = learnt("c", &[topic("a3", 3, 1), topic("b", 4, 1)]);
    let half = taken(&before, vec![stop("a1"), handed("a1", Some("node 1"))]);
    assert_eq!(news(&half, "m", &new, 8).events.len(), 1, "some topics are mirrored on");
    let all = taken(&half, vec![stop("a2"), handed("a2", Some("node 1"))]);
    let found = news(&all, "m", &new, 8);
    assert!(found.events.is_empty() && found.notes.len() == 1 && found.notes[0].contains("a3"), "{found:?}");
    let back = taken(&all, vec![handed("a2", None)]);
    assert_eq!(news(&back, "m", &new, 8).events.len(), 1, "a topic came back");
}

#[test]
fn internal_topics_come_with_the_first_topic_once_they_exist_and_end_with_the_last() {
    let (offsets, other) = (topic("__consumer_offsets", 7, 2), topic("__mine", 8, 1));
    let learnt = learnt("c", &[offsets.clone(), other]);
    assert!(news(&catalog(&[]), "m", &learnt, 8).events.is_empty(), "a mirror without topics needs none");
    let before = catalog(&[topic("b", 1, 1), topic("b2", 2, 1)]);
    let after = taken(&before, news(&before, "m", &learnt, 6).events);
    assert_eq!(after.mirror("m").unwrap().topics.keys().collect::<Vec<_>>(), ["__consumer_offsets", "b", "b2"]);
    assert!(news(&after, "m", &learnt, 4).events.is_empty(), "once");

    let desired = |catalog: &Catalog| catalog.topic("m", "__consumer_offsets").unwrap().facts.desired;
    let one = taken(&after, vec![stop("b")]);
    assert_eq!(desired(&one), Desired::Mirror);
    let none = taken(&one, vec![stop("b2")]);
    assert_eq!(desired(&none), Desired::Stop);
    let by_name = taken(&after, vec![stop("__consumer_offsets")]);
    assert!(news(&by_name, "m", &learnt, 4).events.is_empty(), "a stopped one stays stopped");
}

#[test]
fn without_a_standby_no_internal_topic_is_mirrored_and_a_name_exists_once() {
    let learnt = learnt("c", &[topic("__consumer_offsets", 7, 2)]);
    let settings = [("mirror.internal.topics".to_owned(), "none".to_owned())].into();
    let before = catalog(&[topic("b", 1, 1)]);
    let none = taken(&before, vec![MirrorEvent::Settings { mirror: "m".to_owned(), settings }]);
    assert!(news(&none, "m", &learnt, 8).events.is_empty());

    let facts = MirrorFacts { source_cluster_id: "x".to_owned(), ..MirrorFacts::default() };
    let theirs = MirrorEvent::Started { mirror: "n".to_owned(), topic: topic("__consumer_offsets", 9, 1) };
    let both = taken(&before, vec![MirrorEvent::Created { mirror: "n".to_owned(), facts }, theirs]);
    let found = news(&both, "m", &learnt, 4);
    assert!(found.events.is_empty() && found.notes[0].contains("mirror.internal.topics=none"), "{found:?}");
    assert!(!found.notes[0].contains(" n,"), "who describes m may not know of n: {found:?}");
}

#[test]
fn what_follows_from_an_answer_is_said_in_the_words_of_a_sync() {
    use crate::follow::changes::{changes, kept};
    let before = catalog(&[topic("a", 1, 2), topic("a-other", 2, 1), topic("a-gone", 3, 2)]);
    let mut source = [topic("a", 1, 3), topic("a-new", 4, 2), topic("a-other", 9, 1)];
    source[0].settings.segment_bytes = 77;
    let mut learnt = learnt("c", &source);
    learnt.answer.absent = ["a-gone".to_owned()].into();
    let shown = |changes: Vec<crate::source::report::Change>| -> Vec<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let line = |c: &crate::source::report::Change| {
            format!("{} {} {} {} {}", c.action.name(), c.resource, c.key, text(&c.from), text(&c.to))
        };
        changes.iter().map(line).collect()
    };
    let told = changes(&before, &news(&before, "m", &learnt, 100).events);
    assert!(told.last().unwrap().reason.as_deref().unwrap().starts_with(told_recreated().as_str()), "{told:?}");
    let lines = [
        "grow a partitions 2 3",
        "settings a segment.bytes 1073741824 77",
        "start a-new partitions - 2",
        "fail a-other partitions 1 -",
    ];
    assert_eq!(shown(told), lines);
    assert_eq!(shown(kept(&before, "m", &learnt, &[])), ["keep a-gone * - -"], "not yet");
    learnt.gone = learnt.answer.absent.clone();
    let found = news(&before, "m", &learnt, 100);
    assert!(shown(changes(&before, &found.events)).contains(&"fail a-gone partitions 2 -".to_owned()));
    let after = taken(&before, found.events);
    let left = kept(&after, "m", &learnt, &["a note".to_owned()]);
    assert_eq!(shown(left), ["keep * * - -", "keep a-gone * - -", "keep a-other * - -"], "failed, and said again");
    assert!(changes(&after, &news(&after, "m", &learnt, 100).events).is_empty(), "once");
}

fn told_recreated() -> String {
    told(FaultCode::RECREATED).to_owned()
}
