//! pure: what a source's answer brings that the catalog does not have: topics that are new and match, partitions that were
//! added, settings that changed, topics that waited for the source, and verdicts.
//!
//! A mirror whose topics are all handed over has done its work: whatever is new at the source since then stays there, until a person
//! starts one of these topics or takes one back.

use crate::follow::internal_starts;
use crate::follow::verdict;
use crate::limits::SOURCE_NOTES_MAX;
use crate::mirror::catalog::{Catalog, Desired, Mirror, Topic};
use crate::mirror::event::{Detail, MirrorEvent, SourceTopic};
use crate::mirror::internal::{self, is_internal};
use crate::mirror::machine::Event;
use crate::mirror::patterns::Patterns;
use crate::source::topics::Answer;
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::mirror_state::MirrorState;

/// What was learnt in one round.
#[derive(Debug, Clone)]
pub struct Learnt {
    /// What the source said.
    pub answer: Answer,
    /// Topics that it lacked in this round and in the one before.
    pub gone: BTreeSet<String>,
    /// Topics that waited for it.
    pub waiting: Vec<String>,
}

/// What follows from an answer.
#[derive(Debug, Default)]
pub struct News {
    /// They bring the catalog in line with the source.
    pub events: Vec<MirrorEvent>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// What an answer brings. Topics for which there is no room wait.
#[must_use]
pub fn news(catalog: &Catalog, name: &str, learnt: &Learnt, slots_free: usize) -> News {
    let Some(mirror) = catalog.mirror(name) else { return News::default() };
    let (there, ours) = (&learnt.answer.cluster_id, &mirror.facts.source_cluster_id);
    let mut events = resolved(catalog, name, mirror, learnt);
    if there != ours {
        events.extend(verdict::on_mirror(catalog, name, &verdict::other_cluster(there, ours)));
        return News { events, notes: Vec::new() };
    }
    for topic in &learnt.gone {
        if let Some(known) = mirror.topics.get(topic) {
            events.extend(verdict::on_topic(name, topic, known, &verdict::gone()));
        }
    }
    let mut room = Room::new(name, mirror, slots_free);
    room.notes.extend(learnt.answer.trail.notes.iter().cloned());
    for source in learnt.answer.topics.values().flatten() {
        if let Some(told) = learnt.answer.trail.would_loop(name, ours, &source.name) {
            events.extend(circled(name, mirror, source, &told, &mut room));
            continue;
        }
        match (catalog.owner_of(&source.name), mirror.topics.get(&source.name)) {
            (_, Some(known)) if known.facts.id.is_zero() => {}
            (_, Some(known)) => events.extend(followed(name, known, source, &mut room)),
            (Some(_), None) => {}
            (None, None) => events.extend(discovered(source, &mut room)),
        }
    }
    if internal::are_followed(&mirror.facts.settings) && internal::has_topics(mirror) {
        let (more, notes) =
            internal_starts::starts(catalog, name, &learnt.answer, false, &mut room.slots_free, |_| false);
        events.extend(more);
        room.notes.extend(notes);
    }
    News { events, notes: room.notes }
}

/// What may come in: by the patterns, and as far as slots are left.
struct Room<'a> {
    mirror: &'a str,
    include: Patterns,
    exclude: Patterns,
    slots_free: usize,
    /// Everything that the mirror has is a broker's by now.
    handed_over: bool,
    notes: Vec<String>,
}

impl<'a> Room<'a> {
    fn new(name: &'a str, mirror: &Mirror, slots_free: usize) -> Self {
        let patterns = |texts: &[String]| Patterns::compile(texts).unwrap_or_default();
        let (include, exclude) = (patterns(&mirror.facts.include), patterns(&mirror.facts.exclude));
        let handed_over = internal::is_handed_over(mirror);
        Self { mirror: name, include, exclude, slots_free, handed_over, notes: Vec::new() }
    }

    fn wants(&self, source: &SourceTopic) -> bool {
        !is_internal(source) && self.include.matches(&source.name) && !self.exclude.matches(&source.name)
    }

    fn takes(&mut self, topic: &str, more: i32) -> bool {
        let more = usize::try_from(more).unwrap_or(0);
        let fits = more <= self.slots_free;
        if fits {
            self.slots_free -= more;
        } else if self.notes.len() < SOURCE_NOTES_MAX {
            let free = self.slots_free;
            self.notes
                .push(format!("topic {topic} waits: {more} partitions and {free} free slots; raise the data plane's"));
        }
        fits
    }
}

/// A topic that would go in a circle: one that flows is ended, one that is new is not begun.
fn circled(name: &str, mirror: &Mirror, source: &SourceTopic, told: &str, room: &mut Room<'_>) -> Vec<MirrorEvent> {
    match mirror.topics.get(&source.name) {
        Some(known) => verdict::on_topic(name, &source.name, known, &verdict::circle(told)).collect(),
        None => {
            let wanted = room.wants(source) && room.notes.len() < SOURCE_NOTES_MAX;
            room.notes.extend(wanted.then(|| told.to_owned()));
            Vec::new()
        }
    }
}

fn discovered(source: &SourceTopic, room: &mut Room<'_>) -> Option<MirrorEvent> {
    if room.handed_over {
        let wanted = room.wants(source) && room.notes.len() < SOURCE_NOTES_MAX;
        room.notes.extend(wanted.then(|| {
            format!(
                "topic {} is new at the source and is not mirrored: all topics of the mirror are handed over; to have it all the same, \
                 start it, or exclude it from the patterns",
                source.name
            )
        }));
        return None;
    }
    // A stopped or paused topic is bound to the mirror, so it is not discovered again.
    (room.wants(source) && room.takes(&source.name, source.partition_count))
        .then(|| MirrorEvent::Started { mirror: room.mirror.to_owned(), topic: source.clone() })
}

/// What is new about a topic that the mirror has.
fn followed(name: &str, known: &Topic, source: &SourceTopic, room: &mut Room<'_>) -> Vec<MirrorEvent> {
    if known.facts.id != source.id {
        let message = verdict::recreated(source.id, known.facts.id);
        return verdict::on_topic(name, &source.name, known, &message).collect();
    }
    let flows = known.facts.desired == Desired::Mirror;
    let more = if flows { source.partition_count.saturating_sub(known.facts.partition_count).max(0) } else { 0 };
    let grows = more > 0 && room.takes(&source.name, more);
    let changed = known.facts.desired != Desired::Stop && known.facts.settings != source.settings;
    let partition_count = if grows { source.partition_count } else { known.facts.partition_count };
    let topic = SourceTopic { partition_count, ..source.clone() };
    Vec::from_iter((grows || changed).then(|| MirrorEvent::Followed { mirror: name.to_owned(), topic }))
}

/// What became of topics that waited for their source.
fn resolved(catalog: &Catalog, mirror: &str, known: &Mirror, learnt: &Learnt) -> Vec<MirrorEvent> {
    let failure = |topic: &str, message: String| {
        let detail = Detail::Failure { message, retryable: false };
        MirrorEvent::detailed(mirror, topic, 0, Event::Failed, detail)
    };
    let still_waits = |topic: &&String| {
        let partition = catalog.partition(mirror, topic, 0);
        partition.is_some_and(|partition| partition.standing.state == MirrorState::Initializing)
    };
    let mut events = Vec::new();
    for name in learnt.waiting.iter().filter(still_waits) {
        let (there, ours) = (&learnt.answer.cluster_id, &known.facts.source_cluster_id);
        if there != ours {
            events.push(failure(name, verdict::other_cluster(there, ours)));
            continue;
        }
        match learnt.answer.topics.get(name) {
            Some(Ok(topic)) => events.push(MirrorEvent::Started { mirror: mirror.to_owned(), topic: topic.clone() }),
            None | Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)) => {
                let message = "the source does not have this topic; stop it, or create it there and start it again";
                events.push(failure(name, message.to_owned()));
            }
            Some(Err(code)) if code.is_retriable() => {}
            Some(Err(code)) => events.push(failure(name, format!("the source says {code}"))),
        }
    }
    events
}

#[cfg(test)]
mod tests;
