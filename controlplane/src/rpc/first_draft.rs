//! pure: AddTopicsToMirror and RemoveTopicsFromMirror: start and stop as the first draft laid them out. The handlers are
//! those of start and stop; what differs is that a topic names its mirror, and the code of a failed state check.

use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::rpc::{Refusal, Refused, start_mirror_topics, stop_mirror_topics};
use crate::source::SourceError;
use crate::source::topics::Answer;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::add_topics_to_mirror::{
    AddTopicsToMirrorRequest, AddTopicsToMirrorResponse, TopicResult as Added,
};
use twinlog_proto::messages::remove_topics_from_mirror::{
    RemoveTopicsFromMirrorRequest, RemoveTopicsFromMirrorResponse, TopicResult as Removed,
};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData as StartTopic};
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData as StopTopic};

/// One start for each mirror that is named.
#[must_use]
pub fn starts(request: &AddTopicsToMirrorRequest) -> Vec<StartMirrorTopicsRequest> {
    let mut by_mirror: BTreeMap<&str, Vec<StartTopic>> = BTreeMap::new();
    for topic in &request.topics {
        let (topic_id, topic_name) = (topic.topic_id, topic.topic_name.clone());
        by_mirror.entry(&topic.mirror_name).or_default().push(StartTopic { topic_id, topic_name, num_partitions: 0 });
    }
    let start = |(mirror, topics): (&str, Vec<StartTopic>)| StartMirrorTopicsRequest {
        mirror_name: mirror.to_owned(),
        topics,
        ..StartMirrorTopicsRequest::default()
    };
    by_mirror.into_iter().map(start).collect()
}

/// Decides the starts, each with what its source said.
#[must_use]
pub fn add(
    starts: Vec<(StartMirrorTopicsRequest, Result<Answer, SourceError>)>,
    catalog: &Catalog,
    view: &View<'_>,
) -> (Vec<MirrorEvent>, AddTopicsToMirrorResponse) {
    let (mut events, mut topics) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for (mut start, source) in starts {
        // Nothing is recorded yet, so the catalog does not show that another mirror of this request has the name.
        let is_known = catalog.mirror(&start.mirror_name).is_some();
        let is_free = |topic: &StartTopic| !is_known || !taken.contains(&topic.topic_name);
        let (free, twice): (Vec<StartTopic>, _) = start.topics.into_iter().partition(is_free);
        let error_code = ErrorCode::TOPIC_ALREADY_IN_CLUSTER_MIRROR.0;
        topics.extend(twice.into_iter().map(|topic| Added { name: topic.topic_name, error_code }));
        start.topics = free;
        let (more, response) = start_mirror_topics::decide(&start, source, catalog, view);
        events.extend(more);
        taken.extend(response.topics.iter().filter(|topic| topic.error_code == 0).map(|topic| topic.name.clone()));
        if response.error_code != 0 {
            let refused =
                |topic: &StartTopic| Added { name: topic.topic_name.clone(), error_code: response.error_code };
            topics.extend(start.topics.iter().map(refused));
        }
        let result = |topic: &twinlog_proto::messages::start_mirror_topics::TopicResult| Added {
            name: topic.name.clone(),
            error_code: first_draft_code(topic.error_code),
        };
        topics.extend(response.topics.iter().map(result));
    }
    (events, AddTopicsToMirrorResponse { topics, ..AddTopicsToMirrorResponse::default() })
}

/// Decides a removal: topics stop in whatever mirror has them.
#[must_use]
pub fn remove(
    request: &RemoveTopicsFromMirrorRequest,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, RemoveTopicsFromMirrorResponse) {
    let (mut events, mut topics) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let Some((mirror, _)) = catalog.owner_of(&topic.topic_name) else {
            let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
            topics.push(Removed { name: topic.topic_name.clone(), error_code });
            continue;
        };
        let one = StopTopic { topic_id: topic.topic_id, topic_name: topic.topic_name.clone() };
        let stop = StopMirrorTopicsRequest { mirror_name: mirror.to_owned(), topics: vec![one], patterns: Vec::new() };
        let (more, response) = stop_mirror_topics::decide(&stop, catalog);
        events.extend(more.into_iter().filter(|event| !events.contains(event)).collect::<Vec<_>>());
        let results = response.topics.into_iter();
        topics.extend(results.map(|t| Removed { name: t.name, error_code: first_draft_code(t.error_code) }));
    }
    (events, RemoveTopicsFromMirrorResponse { topics, ..RemoveTopicsFromMirrorResponse::default() })
}

/// A failed state check had no code of its own then.
fn first_draft_code(code: i16) -> i16 {
    match ErrorCode(code) {
        ErrorCode::INVALID_CLUSTER_MIRROR_STATES | ErrorCode::MIRROR_TOPIC_NOT_STOPPED => ErrorCode::INVALID_REQUEST.0,
        _ => code,
    }
}

impl Refused for AddTopicsToMirrorResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, ..Self::default() }
    }
}

impl Refused for RemoveTopicsFromMirrorResponse {
    fn refused(refusal: Refusal) -> Self {
        Self { error_code: refusal.code.0, ..Self::default() }
    }
}
