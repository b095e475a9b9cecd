//! pure: PauseMirrorTopics and ResumeMirrorTopics: records wait, or go on where they stopped.

use crate::mirror::catalog::{Catalog, Desired, Topic};
use crate::mirror::event::MirrorEvent;
use crate::mirror::machine::{self, Event};
use crate::rpc::topic_selection::{Selected, by_name, joined, not_handed_over};
use crate::rpc::{Refusal, Refused};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::pause_mirror_topics::{
    PauseMirrorTopicsRequest, PauseMirrorTopicsResponse, TopicResult as Paused,
};
use twinlog_proto::messages::resume_mirror_topics::{
    ResumeMirrorTopicsRequest, ResumeMirrorTopicsResponse, TopicResult as Resumed,
};
use twinlog_proto::mirror_state::MirrorState;

/// The layout that names the mirror.
const NAMED_FROM: i16 = 1;

/// Decides a pause.
#[must_use]
pub fn pause(
    request: &PauseMirrorTopicsRequest,
    version: i16,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, PauseMirrorTopicsResponse) {
    let name = (version >= NAMED_FROM).then_some(request.mirror_name.as_str());
    let asked = request.topics.iter().map(|topic| (topic.topic_id, topic.topic_name.as_str()));
    let (events, selected) = match decide(catalog, name, asked, may_pause, Desired::Pause, Event::Pause) {
        Ok(decided) => decided,
        Err(refusal) => return (Vec::new(), PauseMirrorTopicsResponse::refused(refusal)),
    };
    let topics = results(&selected).map(|(name, error_code)| Paused { name, error_code }).collect();
    let error_message = joined(selected.values().filter_map(|found| found.as_ref().err()));
    let mirror_name = request.mirror_name.clone();
    (events, PauseMirrorTopicsResponse { topics, error_message, mirror_name, ..PauseMirrorTopicsResponse::default() })
}

/// Decides a resume.
#[must_use]
pub fn resume(
    request: &ResumeMirrorTopicsRequest,
    version: i16,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, ResumeMirrorTopicsResponse) {
    let name = (version >= NAMED_FROM).then_some(request.mirror_name.as_str());
    let asked = request.topics.iter().map(|topic| (topic.topic_id, topic.topic_name.as_str()));
    let (events, selected) = match decide(catalog, name, asked, may_resume, Desired::Mirror, Event::Resume) {
        Ok(decided) => decided,
        Err(refusal) => return (Vec::new(), ResumeMirrorTopicsResponse::refused(refusal)),
    };
    let topics = results(&selected).map(|(name, error_code)| Resumed { name, error_code }).collect();
    let error_message = joined(selected.values().filter_map(|found| found.as_ref().err()));
    let mirror_name = request.mirror_name.clone();
    (events, ResumeMirrorTopicsResponse { topics, error_message, mirror_name, ..ResumeMirrorTopicsResponse::default() })
}

type Check = fn(&str, &Topic) -> Result<(), Refusal>;

fn decide<'c, 'r>(
    catalog: &'c Catalog,
    mirror: Option<&str>,
    asked: impl Iterator<Item = (twinlog_proto::ids::Uuid, &'r str)>,
    check: Check,
    desired: Desired,
    event: Event,
) -> Result<(Vec<MirrorEvent>, Selected<'c>), Refusal> {
    if let Some(name) = mirror.filter(|name| catalog.mirror(name).is_none()) {
        return Err(Refusal::unknown_mirror(name));
    }
    let mut selected = by_name(catalog, mirror, asked);
    let mut events = Vec::new();
    for (name, found) in &mut selected {
        let Ok((owner, topic)) = *found else { continue };
        match check(name, topic) {
            Err(refusal) => *found = Err(refusal),
            Ok(()) if topic.facts.desired == desired && !is_awaited(topic, event) => {}
            Ok(()) => {
                events.push(MirrorEvent::Wanted { mirror: owner.to_owned(), topic: name.clone(), desired, event });
            }
        }
    }
    Ok((events, selected))
}

/// Whether a partition has still to take the step: another node may have sent it elsewhere since the topic was asked.
fn is_awaited(topic: &Topic, event: Event) -> bool {
    topic.partitions.values().any(|partition| machine::step(partition.standing.state, event).is_ok())
}

fn results<'s>(selected: &'s Selected<'_>) -> impl Iterator<Item = (String, i16)> + 's {
    selected.iter().map(|(name, found)| (name.clone(), found.as_ref().err().map_or(0, |refusal| refusal.code.0)))
}

fn may_pause(name: &str, topic: &Topic) -> Result<(), Refusal> {
    not_handed_over(name, topic)?;
    match topic.facts.desired {
        Desired::Pause => Ok(()),
        Desired::Stop => {
            let message = format!("topic {name}: it is stopped; start it first");
            Err(Refusal::new(ErrorCode::MIRROR_TOPIC_BEING_STOPPED, message))
        }
        Desired::Mirror => all_are(name, topic, MirrorState::Mirroring, &[MirrorState::Pausing, MirrorState::Paused]),
    }
}

fn may_resume(name: &str, topic: &Topic) -> Result<(), Refusal> {
    not_handed_over(name, topic)?;
    match topic.facts.desired {
        Desired::Mirror => Ok(()),
        Desired::Stop => {
            let message = format!("topic {name}: it is stopped, not paused; start it");
            Err(Refusal::new(ErrorCode::MIRROR_TOPIC_NOT_PAUSED, message))
        }
        Desired::Pause => all_are(name, topic, MirrorState::Paused, &[MirrorState::Mirroring]),
    }
}

/// Whether all partitions are where the step leads from, or where it leads to.
fn all_are(name: &str, topic: &Topic, wanted: MirrorState, or_already: &[MirrorState]) -> Result<(), Refusal> {
    let misplaced = |state| state != wanted && !or_already.contains(&state);
    match topic.partitions.iter().find(|(_, partition)| misplaced(partition.standing.state)) {
        None => Ok(()),
        Some((index, partition)) => {
            let (found, wanted) = (partition.standing.state.name(), wanted.name());
            let message = format!("topic {name}: partition {index} is {found}, not {wanted}; wait or mend it first");
            Err(Refusal::new(ErrorCode::INVALID_CLUSTER_MIRROR_STATES, message))
        }
    }
}

impl Refused for PauseMirrorTopicsResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}

impl Refused for ResumeMirrorTopicsResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
