//! pure: Metadata: the mirrored topics with the ids of their source, this node as broker and leader of all.

use crate::mirror::catalog::{Catalog, Topic};
use crate::mirror::internal::FOLLOWED;
use crate::plane::view::View;
use crate::rpc::{Endpoint, OPERATIONS_NOT_ASKED, once};
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::{Uuid, is_legal_name};
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

/// Up to version 0, no topics means all of them.
const EMPTY_IS_ALL_UP_TO: i16 = 0;

/// The answer.
#[must_use]
pub fn handle(
    request: &MetadataRequest,
    version: i16,
    catalog: &Catalog,
    view: &View<'_>,
    us: &Endpoint,
) -> MetadataResponse {
    let all = match &request.topics {
        None => true,
        Some(topics) => topics.is_empty() && version <= EMPTY_IS_ALL_UP_TO,
    };
    let topics = if all {
        // What the source has not described yet does not exist for clients.
        let known = catalog.topics().filter(|(_, _, topic)| !topic.facts.id.is_zero());
        known.map(|(_, name, topic)| described(name, topic, view, us)).collect()
    } else {
        let asked = once(request.topics.as_deref().unwrap_or_default(), |topic| (topic.topic_id, &topic.name));
        let ids = by_id(request, catalog);
        asked.map(|topic| one(topic, (catalog, &ids), view, us)).collect()
    };
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: us.node_id,
            host: us.host.clone(),
            port: us.port,
            ..MetadataResponseBroker::default()
        }],
        cluster_id: Some(us.cluster_id.clone()),
        controller_id: us.node_id,
        topics,
        ..MetadataResponse::default()
    }
}

/// The topics that are asked for by id, in one look at all of them.
fn by_id<'c>(request: &MetadataRequest, catalog: &'c Catalog) -> BTreeMap<Uuid, (&'c str, &'c Topic)> {
    let asked = request.topics.iter().flatten().map(|topic| topic.topic_id);
    let asked: BTreeSet<Uuid> = asked.filter(|id| !id.is_zero()).collect();
    if asked.is_empty() {
        return BTreeMap::new();
    }
    let found = catalog.topics().filter(|(_, _, topic)| asked.contains(&topic.facts.id));
    found.map(|(_, name, topic)| (topic.facts.id, (name, topic))).collect()
}

fn one(
    asked: &MetadataRequestTopic,
    (catalog, ids): (&Catalog, &BTreeMap<Uuid, (&str, &Topic)>),
    view: &View<'_>,
    us: &Endpoint,
) -> MetadataResponseTopic {
    let absent = |code: ErrorCode, name: Option<String>| MetadataResponseTopic {
        error_code: code.0,
        name,
        topic_id: asked.topic_id,
        topic_authorized_operations: OPERATIONS_NOT_ASKED,
        ..MetadataResponseTopic::default()
    };
    // Stock clients send an empty name along with an id.
    let name = asked.name.as_ref().filter(|_| asked.topic_id.is_zero());
    match name {
        Some(name) if !is_legal_name(name) => absent(ErrorCode::INVALID_TOPIC_EXCEPTION, Some(name.clone())),
        Some(name) => match catalog.owner_of(name).filter(|(_, topic)| !topic.facts.id.is_zero()) {
            Some((_, topic)) => described(name, topic, view, us),
            None => absent(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(name.clone())),
        },
        None if asked.topic_id.is_zero() => absent(ErrorCode::INVALID_REQUEST, None),
        None => match ids.get(&asked.topic_id) {
            Some((name, topic)) => described(name, topic, view, us),
            None => absent(ErrorCode::UNKNOWN_TOPIC_ID, None),
        },
    }
}

fn described(name: &str, topic: &Topic, view: &View<'_>, us: &Endpoint) -> MetadataResponseTopic {
    let partition = |index: &i32| MetadataResponsePartition {
        partition_index: *index,
        leader_id: us.node_id,
        leader_epoch: view.progress(topic, *index).map_or(-1, |seen| seen.leader_epoch),
        replica_nodes: vec![us.node_id],
        isr_nodes: vec![us.node_id],
        ..MetadataResponsePartition::default()
    };
    MetadataResponseTopic {
        name: Some(name.to_owned()),
        topic_id: topic.facts.id,
        is_internal: FOLLOWED.contains(&name),
        partitions: topic.partitions.keys().map(partition).collect(),
        topic_authorized_operations: OPERATIONS_NOT_ASKED,
        ..MetadataResponseTopic::default()
    }
}
