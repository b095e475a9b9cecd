//! pure: RecordHandOver: whose the directories of stopped topics are, said by the command that moves them.
//!
//! A topic that the mirror never had may come with them, as one that is stopped and that a broker has: that broker was its source
//! once, and gives its directories to the mirror of the cluster that took over from it.

mod take_up;

use crate::limits::HANDED_OVER_CHARS_MAX;
use crate::mirror::catalog::{Catalog, Desired, LastMirrored, Topic};
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::rpc::topic_selection::{by_name, joined};
use crate::rpc::{Refusal, Refused};
use std::collections::BTreeMap;
pub use take_up::{Around, question};
use twinlog_proto::error_code::ErrorCode;
pub use twinlog_proto::messages::record_hand_over::RecordHandOverResponse;
use twinlog_proto::messages::record_hand_over::{EndedPartition, RecordHandOverRequest, TopicData, TopicResult};
use twinlog_proto::mirror_state::MirrorState;

/// Decides; `around` is what new topics are judged by.
#[must_use]
pub fn decide(
    request: &RecordHandOverRequest,
    around: &Around,
    catalog: &Catalog,
    view: &View<'_>,
) -> (Vec<MirrorEvent>, RecordHandOverResponse) {
    let name = &request.mirror_name;
    let Some(mirror) = catalog.mirror(name) else {
        return (Vec::new(), RecordHandOverResponse::refused(Refusal::unknown_mirror(name)));
    };
    let to = match receiver(request) {
        Ok(to) => to,
        Err(refusal) => return (Vec::new(), RecordHandOverResponse::refused(refusal)),
    };
    let asked: BTreeMap<&str, &TopicData> = request.topics.iter().map(|t| (t.topic_name.as_str(), t)).collect();
    let selected = by_name(catalog, Some(name), request.topics.iter().map(|t| (t.topic_id, t.topic_name.as_str())));
    let mut new = take_up::TakeUp::new(name, mirror, around, catalog, view);
    let mut events = Vec::new();
    let mut results: BTreeMap<String, Result<(), Refusal>> = BTreeMap::new();
    for (topic, found) in selected {
        let given = asked.get(topic.as_str()).map_or(&[][..], |asked| &asked.partitions);
        let outcome = match (found, &to) {
            (Ok((_, known)), to) => known_topic(name, &topic, known, to.as_deref(), given),
            (Err(_), Some(to)) if !given.is_empty() && catalog.owner_of(&topic).is_none() => {
                asked.get(topic.as_str()).map_or(Ok(Vec::new()), |asked| new.topic(asked, to).map(|event| vec![event]))
            }
            (Err(refusal), _) => Err(refusal),
        };
        results.insert(topic, outcome.map(|more| events.extend(more)));
    }
    if request.validate_only {
        events.clear();
    }
    let response = RecordHandOverResponse {
        error_message: joined(results.values().filter_map(|outcome| outcome.as_ref().err())),
        mirror_name: name.clone(),
        topics: results
            .iter()
            .map(|(name, outcome)| TopicResult {
                name: name.clone(),
                error_code: outcome.as_ref().err().map_or(0, |refusal| refusal.code.0),
            })
            .collect(),
        ..RecordHandOverResponse::default()
    };
    (events, response)
}

/// What follows for a topic that the mirror has. Where mirroring ended is given only with what comes back.
fn known_topic(
    mirror: &str,
    name: &str,
    topic: &Topic,
    to: Option<&str>,
    given: &[EndedPartition],
) -> Result<Vec<MirrorEvent>, Refusal> {
    check(name, topic, to)?;
    let mut events = Vec::new();
    for ended in given {
        let last = LastMirrored { offset: ended.last_mirrored_offset, epoch: ended.last_mirror_epoch };
        let partition = ended.partition_index;
        let why = match topic.partitions.get(&partition) {
            None => format!("it has no partition {partition}"),
            Some(known) if known.last_mirrored == Some(last) => continue,
            Some(_) if to.is_some() => {
                "the mirror has it already, and mirroring of it ended elsewhere, as when it was started again meanwhile; take the \
                 hand-over back (--undo) and begin anew, or take the topic back from where it is"
                    .to_owned()
            }
            Some(_) if last.offset < 0 => format!("partition {partition} cannot end at {}", last.offset),
            Some(known) if known.standing.state != MirrorState::Stopped => {
                format!("partition {partition} is {}, not STOPPED", known.standing.state.name())
            }
            Some(_) => {
                let (mirror, topic) = (mirror.to_owned(), name.to_owned());
                events.push(MirrorEvent::Position { mirror, topic, partition, last });
                continue;
            }
        };
        return Err(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, format!("topic {name}: {why}")));
    }
    if topic.handed_over.as_deref() != to {
        let (mirror, topic) = (mirror.to_owned(), name.to_owned());
        events.push(MirrorEvent::HandedOver { mirror, topic, to: to.map(ToOwned::to_owned) });
    }
    Ok(events)
}

/// Who has the directories from now on; `None`: they are ours again.
fn receiver(request: &RecordHandOverRequest) -> Result<Option<String>, Refusal> {
    if request.returned {
        return Ok(None);
    }
    let to = &request.handed_over_to;
    let why = if to.trim().is_empty() {
        "HandedOverTo is empty; say who has the directories now"
    } else if to.chars().count() > HANDED_OVER_CHARS_MAX || to.chars().any(char::is_control) {
        "HandedOverTo is too long or holds control characters; node id, cluster id and path are enough"
    } else {
        return Ok(Some(to.clone()));
    };
    Err(Refusal::new(ErrorCode::INVALID_REQUEST, why))
}

fn check(name: &str, topic: &Topic, to: Option<&str>) -> Result<(), Refusal> {
    let Some(to) = to else { return Ok(()) };
    let refuse =
        |why: String| Err(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, format!("topic {name}: {why}")));
    if let Some(other) = topic.handed_over.as_deref().filter(|other| *other != to) {
        return refuse(format!("it is handed over to {other} already; take it back from there first"));
    }
    let moving = topic.partitions.iter().find(|(_, partition)| partition.standing.state != MirrorState::Stopped);
    match moving {
        Some((index, partition)) => {
            let state = partition.standing.state.name();
            refuse(format!("partition {index} is {state}, not STOPPED; stop the topic and wait, then hand it over"))
        }
        None if topic.facts.desired != Desired::Stop => refuse("it is not stopped; stop it first".to_owned()),
        None => Ok(()),
    }
}

impl Refused for RecordHandOverResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
