//! pure: RecordHandOver: whose the directories of stopped topics are, said by the command that moves them.

use crate::limits::HANDED_OVER_CHARS_MAX;
use crate::mirror::catalog::{Catalog, Desired, Topic};
use crate::mirror::event::MirrorEvent;
use crate::rpc::topic_selection::{by_name, joined};
use crate::rpc::{Refusal, Refused};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::record_hand_over::{RecordHandOverRequest, RecordHandOverResponse, TopicResult};
use twinlog_proto::mirror_state::MirrorState;

/// Decides.
#[must_use]
pub fn decide(request: &RecordHandOverRequest, catalog: &Catalog) -> (Vec<MirrorEvent>, RecordHandOverResponse) {
    let name = &request.mirror_name;
    if catalog.mirror(name).is_none() {
        return (Vec::new(), RecordHandOverResponse::refused(Refusal::unknown_mirror(name)));
    }
    let to = match receiver(request) {
        Ok(to) => to,
        Err(refusal) => return (Vec::new(), RecordHandOverResponse::refused(refusal)),
    };
    let mut selected = by_name(catalog, Some(name), request.topics.iter().map(|t| (t.topic_id, t.topic_name.as_str())));
    let mut events = Vec::new();
    for (topic, found) in &mut selected {
        let Ok((_, known)) = *found else { continue };
        match check(topic, known, to.as_deref()) {
            Err(refusal) => *found = Err(refusal),
            Ok(()) if known.handed_over == to => {}
            Ok(()) => {
                let (mirror, topic) = (name.clone(), topic.clone());
                events.push(MirrorEvent::HandedOver { mirror, topic, to: to.clone() });
            }
        }
    }
    let response = RecordHandOverResponse {
        error_message: joined(selected.values().filter_map(|found| found.as_ref().err())),
        mirror_name: name.clone(),
        topics: selected
            .iter()
            .map(|(name, found)| TopicResult {
                name: name.clone(),
                error_code: found.as_ref().err().map_or(0, |refusal| refusal.code.0),
            })
            .collect(),
        ..RecordHandOverResponse::default()
    };
    (events, response)
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
