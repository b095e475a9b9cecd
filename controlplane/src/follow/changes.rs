//! pure: what follows from a source's answer, in the words of a sync: topics that start, grow, take over settings or fail.

use crate::follow::news::Learnt;
use crate::limits::GONE_AFTER;
use crate::mirror::catalog::{Catalog, Desired, TopicSettings};
use crate::mirror::event::{Detail, MirrorEvent, SourceTopic};
use crate::source::report::{Action, Change};
use std::collections::BTreeMap;

const PARTITIONS: &str = "partitions";

/// The changes that `events` make to the catalog as it is.
#[must_use]
pub fn changes(catalog: &Catalog, events: &[MirrorEvent]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut failures: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for event in events {
        match event {
            MirrorEvent::Started { mirror, topic } => {
                let known = catalog.topic(mirror, &topic.name).map(|known| known.facts.partition_count);
                let from = known.filter(|count| *count > 0);
                changes.push(counted(&topic.name, from, topic.partition_count, Action::Start));
            }
            MirrorEvent::Followed { mirror, topic } => changes.extend(followed(catalog, mirror, topic)),
            MirrorEvent::Partition {
                topic,
                detail: Detail::Verdict(why) | Detail::Failure { message: why, .. },
                ..
            } => {
                *failures.entry((topic, why)).or_default() += 1;
            }
            _ => {}
        }
    }
    changes.extend(failures.into_iter().map(|((topic, why), count)| Change {
        from: Some(count.to_string()),
        reason: Some(why.to_owned()),
        ..change(topic, PARTITIONS, Action::Fail)
    }));
    changes
}

/// What stays as it is although the source differs: what people should know, what has failed before, and what may be gone.
#[must_use]
pub fn kept(catalog: &Catalog, mirror: &str, learnt: &Learnt, notes: &[String]) -> Vec<Change> {
    let keep = |topic: &str, why: String| Change { reason: Some(why), ..change(topic, "*", Action::Keep) };
    let mut changes: Vec<Change> = notes.iter().map(|note| keep("*", note.clone())).collect();
    let Some(known) = catalog.mirror(mirror) else { return changes };
    let flows = known.topics.iter().filter(|(_, topic)| topic.facts.desired == Desired::Mirror);
    for (name, topic) in flows {
        let judged = topic.partitions.values().find(|partition| partition.standing.by_source);
        if let Some(why) = judged.and_then(|partition| partition.standing.message.as_deref()) {
            changes.push(keep(name, format!("FAILED before: {why}")));
        } else if learnt.answer.absent.contains(name) && !learnt.gone.contains(name) {
            let why = format!("the source lacks it now; it fails when a look after {GONE_AFTER:?} finds the same");
            changes.push(keep(name, why));
        }
    }
    changes
}

fn followed(catalog: &Catalog, mirror: &str, source: &SourceTopic) -> Vec<Change> {
    let Some(known) = catalog.topic(mirror, &source.name).map(|known| &known.facts) else { return Vec::new() };
    let (count, more) = (known.partition_count, source.partition_count);
    let grows = (more > count).then(|| counted(&source.name, Some(count), more, Action::Grow));
    let pairs = values(&known.settings).into_iter().zip(values(&source.settings));
    let differ = pairs.filter(|((_, ours), (_, theirs))| ours != theirs);
    let settings = differ.map(|((key, ours), (_, theirs))| Change {
        from: Some(ours),
        to: Some(theirs),
        ..change(&source.name, key, Action::Settings)
    });
    grows.into_iter().chain(settings).collect()
}

fn values(settings: &TopicSettings) -> [(&'static str, String); 7] {
    let policy = if settings.compacted { "compact" } else { "delete" };
    [
        ("segment.bytes", settings.segment_bytes.to_string()),
        ("segment.ms", settings.segment_ms.to_string()),
        ("segment.jitter.ms", settings.segment_jitter_ms.to_string()),
        ("segment.index.bytes", settings.segment_index_bytes.to_string()),
        ("index.interval.bytes", settings.index_interval_bytes.to_string()),
        ("cleanup.policy", policy.to_owned()),
        ("max.compaction.lag.ms", settings.max_compaction_lag_ms.to_string()),
    ]
}

fn counted(topic: &str, from: Option<i32>, to: i32, action: Action) -> Change {
    Change { from: from.map(|count| count.to_string()), to: Some(to.to_string()), ..change(topic, PARTITIONS, action) }
}

fn change(topic: &str, key: &str, action: Action) -> Change {
    Change { resource: topic.to_owned(), key: key.to_owned(), from: None, to: None, action, reason: None }
}
