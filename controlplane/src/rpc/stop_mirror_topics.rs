//! pure: StopMirrorTopics: topics become their own masters; where mirroring ended is recorded when the data plane is done.

use crate::mirror::catalog::{Catalog, Desired, Topic};
use crate::mirror::event::MirrorEvent;
use crate::mirror::machine::Event;
use crate::mirror::patterns::Patterns;
use crate::rpc::topic_selection::{by_name, by_pattern, joined};
use crate::rpc::{Refusal, Refused};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, StopMirrorTopicsResponse, TopicResult};
use twinlog_proto::mirror_state::MirrorState;

/// Decides.
#[must_use]
pub fn decide(request: &StopMirrorTopicsRequest, catalog: &Catalog) -> (Vec<MirrorEvent>, StopMirrorTopicsResponse) {
    let name = &request.mirror_name;
    let Some(mirror) = catalog.mirror(name) else {
        return (Vec::new(), StopMirrorTopicsResponse::refused(Refusal::unknown_mirror(name)));
    };
    let patterns = match Patterns::compile(&request.patterns) {
        Ok(patterns) => patterns,
        Err(bad) => {
            let refusal = Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, bad.to_string());
            return (Vec::new(), StopMirrorTopicsResponse::refused(refusal));
        }
    };
    let mut selected = by_pattern(catalog, name, &patterns);
    selected.extend(by_name(catalog, Some(name), request.topics.iter().map(|t| (t.topic_id, t.topic_name.as_str()))));

    let mut events = Vec::new();
    if !request.patterns.is_empty() {
        let given = |pattern: &&String| request.patterns.contains(pattern);
        let include = mirror.facts.include.iter().filter(|pattern| !given(pattern)).cloned().collect();
        let mut exclude = mirror.facts.exclude.clone();
        exclude.extend(request.patterns.iter().filter(|pattern| !mirror.facts.exclude.contains(pattern)).cloned());
        // All together must be usable too: they are what discovery goes by later.
        if let Err(bad) = Patterns::compile(&exclude) {
            let refusal = Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, bad.to_string());
            return (Vec::new(), StopMirrorTopicsResponse::refused(refusal));
        }
        events.push(MirrorEvent::Patterns { mirror: name.clone(), include, exclude });
    }
    for (topic, found) in &selected {
        // What failed while it stopped is asked once more, for only a person can know that it may succeed now.
        if found.as_ref().is_ok_and(|(_, known)| known.facts.desired != Desired::Stop || has_failed(known)) {
            let (mirror, topic) = (name.clone(), topic.clone());
            events.push(MirrorEvent::Wanted { mirror, topic, desired: Desired::Stop, event: Event::Stop });
        }
    }
    let response = StopMirrorTopicsResponse {
        error_message: joined(selected.values().filter_map(|found| found.as_ref().err())),
        mirror_name: name.clone(),
        topics: selected
            .iter()
            .map(|(name, found)| TopicResult {
                name: name.clone(),
                error_code: found.as_ref().err().map_or(0, |refusal| refusal.code.0),
            })
            .collect(),
        ..StopMirrorTopicsResponse::default()
    };
    (events, response)
}

fn has_failed(topic: &Topic) -> bool {
    topic.partitions.values().any(|partition| partition.standing.state == MirrorState::Failed)
}

impl Refused for StopMirrorTopicsResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, error_message: Some(refusal.message), ..Self::default() }
    }
}
