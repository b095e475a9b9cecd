//! What a caller learns and may do, and what not; answers are the same for what exists and what does not.

use super::*;
use crate::mirror::catalog::{Desired, MirrorFacts, StateRecord, TopicFacts, TopicSettings};
use std::collections::BTreeSet;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, DescribeMirrorsResponse, DescribedMirror};
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};
use twinlog_proto::messages::remove_topics_from_mirror::{RemoveTopicsFromMirrorRequest, TopicData as RemovedTopic};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData};
use twinlog_proto::messages::stop_mirror_topics::StopMirrorTopicsRequest;
use twinlog_proto::security::acl::{AclBinding, Codes};

pub(super) fn caller(principal: &str) -> Caller {
    Caller { principal: principal.to_owned(), host: "10.0.0.1".to_owned() }
}

/// A mirror `dr` with a topic `orders`.
pub(super) fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    catalog.apply(&StateRecord::Mirror { mirror: "dr".into(), facts: Some(MirrorFacts::default()) });
    let facts = TopicFacts {
        id: Uuid([7; 16]),
        desired: Desired::Mirror,
        partition_count: 1,
        settings: TopicSettings::default(),
    };
    catalog.apply(&StateRecord::Topic { mirror: "dr".into(), topic: "orders".into(), facts: Some(facts) });
    catalog
}

/// [`catalog`], and User:a may do these, each as operation, kind, name; a name that ends in `+` is a prefix.
fn allowing(rights: &[(Operation, ResourceType, &str)]) -> Catalog {
    let mut catalog = catalog();
    for (operation, kind, name) in rights {
        let pattern_type = if name.ends_with('+') { 4 } else { 3 };
        let codes = Codes { resource_type: kind.code(), pattern_type, operation: operation.code(), permission: 3 };
        let binding = AclBinding::from_codes(codes, name.trim_end_matches('+'), "User:a", "*").unwrap();
        catalog.apply(&StateRecord::Acl { origin: String::new(), binding, present: true });
    }
    catalog
}

fn judged() -> Authorizer {
    Authorizer::Acl { super_users: BTreeSet::from(["User:root".to_owned()]) }
}

const MIRROR: ResourceType = ResourceType::ClusterMirror;
const TOPIC: ResourceType = ResourceType::Topic;

#[test]
fn without_an_authorizer_everybody_may_everything_and_is_told_all_operations() {
    let (catalog, caller) = (catalog(), caller("User:a"));
    let access = Access::new(&Authorizer::None, &catalog, &caller);
    let start = StartMirrorTopicsRequest { include_patterns: vec![".*".into()], ..Default::default() };
    assert!(start.refuse(0, &access, &catalog).is_none() && !access.is_enforced());
    let mirror_bits = (1 << 5) | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 10) | (1 << 11);
    assert_eq!(access.operations(MIRROR, "dr"), mirror_bits);
}

#[test]
fn operations_are_told_as_bits_and_those_of_the_cluster_only_to_who_may_describe_it() {
    let catalog =
        allowing(&[(Operation::Read, TOPIC, "ord+"), (Operation::Create, ResourceType::Cluster, CLUSTER_NAME)]);
    let (judged, caller) = (judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    assert_eq!(access.operations(TOPIC, "orders"), (1 << 3) | (1 << 8));
    assert_eq!((access.operations(TOPIC, "other"), access.cluster_operations()), (0, 0));
}

#[test]
fn entries_of_a_source_give_no_right_here() {
    let mut catalog = catalog();
    let codes = Codes { resource_type: 8, pattern_type: 3, operation: 2, permission: 3 };
    let binding = AclBinding::from_codes(codes, "*", "User:a", "*").unwrap();
    catalog.apply(&StateRecord::Acl { origin: "dr".into(), binding, present: true });
    let (judged, caller) = (judged(), caller("User:a"));
    assert!(!Access::new(&judged, &catalog, &caller).may(Operation::Describe, MIRROR, "dr"));
}

#[test]
fn a_refusal_names_the_caller_the_right_and_the_command_that_gives_it() {
    let (catalog, judged, caller) = (catalog(), judged(), caller("User:a"));
    let refusal = Access::new(&judged, &catalog, &caller).need(Operation::Alter, MIRROR, "dr").unwrap_err();
    assert_eq!(refusal.code, ErrorCode::CLUSTER_MIRROR_AUTHORIZATION_FAILED);
    for part in ["User:a from 10.0.0.1 lacks ALTER on CLUSTER_MIRROR dr", "--resource mirror:dr", "--operation ALTER"] {
        assert!(refusal.message.contains(part), "{part}: {}", refusal.message);
    }
    assert!(!refusal.message.contains("--host"), "{}", refusal.message);
}

#[test]
fn the_command_for_a_caller_who_did_not_log_in_gives_the_right_to_its_address_alone() {
    let (catalog, judged, caller) = (catalog(), judged(), caller(ANONYMOUS));
    let refusal = Access::new(&judged, &catalog, &caller).need(Operation::Alter, MIRROR, "dr").unwrap_err();
    assert!(refusal.message.contains("--principal User:ANONYMOUS --host 10.0.0.1 --operation"), "{}", refusal.message);
}

#[test]
fn a_start_is_refused_as_a_whole_when_one_topic_is_denied_and_before_anything_is_looked_up() {
    let rights = [(Operation::Alter, MIRROR, "dr"), (Operation::AlterConfigs, TOPIC, "orders")];
    let (catalog, judged, caller) = (allowing(&rights), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let refused = |mirror: &str, names: &[&str]| {
        let topics = names.iter().map(|name| TopicData { topic_name: (*name).into(), ..Default::default() }).collect();
        let request = StartMirrorTopicsRequest { mirror_name: mirror.into(), topics, ..Default::default() };
        request.refuse(0, &access, &catalog).map_or(0, |response| response.error_code)
    };
    assert_eq!(refused("dr", &["orders"]), 0);
    assert_eq!(refused("dr", &["orders", "payments"]), 29);
    assert_eq!(refused("nowhere", &["orders"]), 1144);
}

#[test]
fn a_pattern_needs_the_right_to_all_that_it_may_match() {
    let rights = [(Operation::Alter, MIRROR, "dr"), (Operation::AlterConfigs, TOPIC, "team-+")];
    let (catalog, judged, caller) = (allowing(&rights), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let start = |pattern: &str| {
        let include_patterns = vec![pattern.to_owned()];
        let request = StartMirrorTopicsRequest { mirror_name: "dr".into(), include_patterns, ..Default::default() };
        request.refuse(0, &access, &catalog).map_or(0, |response| response.error_code)
    };
    assert_eq!([start("team-.*"), start("team-a"), start("team.*"), start(".*")], [0, 0, 29, 29]);
    let stop = |pattern: &str| {
        let request =
            StopMirrorTopicsRequest { mirror_name: "dr".into(), patterns: vec![pattern.into()], ..Default::default() };
        request.refuse(0, &access, &catalog).map_or(0, |response| response.error_code)
    };
    // The mirror has `orders` alone.
    assert_eq!([stop("team-.*"), stop("ord.*"), stop("(")], [0, 29, 0]);
}

#[test]
fn a_mirror_that_may_not_be_described_is_left_out_or_denied_whether_it_exists_or_not() {
    let (catalog, judged, caller) = (catalog(), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let answer = |names: Option<Vec<String>>, existing: bool| {
        let found =
            DescribedMirror { mirror_name: "dr".into(), source_cluster_id: Some("c".into()), ..Default::default() };
        let absent = DescribedMirror { mirror_name: "dr".into(), error_code: 1137, ..Default::default() };
        let mirrors = vec![if existing { found } else { absent }];
        let mut response = DescribeMirrorsResponse { mirrors, ..Default::default() };
        let request = DescribeMirrorsRequest { mirror_names: names, ..Default::default() };
        request.finish(1, &access, &mut response);
        response
    };
    assert!(answer(None, true).mirrors.is_empty() && answer(Some(Vec::new()), true).error_message.is_none());
    let named = answer(Some(vec!["dr".into()]), true);
    assert_eq!((named.mirrors[0].error_code, &named.mirrors[0].source_cluster_id), (1144, &None));
    assert_eq!(named, answer(Some(vec!["dr".into()]), false));
    assert!(named.error_message.unwrap().contains("DESCRIBE"));
}

#[test]
fn who_knows_a_denied_topic_by_name_learns_no_id_and_who_knows_its_id_no_name() {
    let (catalog, judged, caller) = (catalog(), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let answer = |asked: MetadataRequestTopic| {
        let topic =
            MetadataResponseTopic { name: Some("orders".into()), topic_id: Uuid([7; 16]), ..Default::default() };
        let mut response = MetadataResponse { topics: vec![topic], ..Default::default() };
        MetadataRequest { topics: Some(vec![asked]), ..Default::default() }.finish(13, &access, &mut response);
        let topic = response.topics.remove(0);
        (topic.error_code, topic.name, topic.topic_id)
    };
    let by_name = MetadataRequestTopic { name: Some("orders".into()), ..Default::default() };
    assert_eq!(answer(by_name), (29, Some("orders".into()), Uuid::ZERO));
    assert_eq!(answer(MetadataRequestTopic { name: None, topic_id: Uuid([7; 16]) }), (29, None, Uuid([7; 16])));
}

#[test]
fn settings_are_changed_where_that_is_allowed_and_each_denied_resource_is_told() {
    let rights = [(Operation::AlterConfigs, MIRROR, "dr"), (Operation::AlterConfigs, TOPIC, "team-+")];
    let (catalog, judged, caller) = (allowing(&rights), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let resource = |kind: i8, name: &str, key: &str, value: &str| AlterConfigsResource {
        resource_type: kind,
        resource_name: name.into(),
        configs: vec![AlterableConfig { name: key.into(), value: Some(value.into()), ..Default::default() }],
    };
    let resources = vec![
        resource(64, "dr", "mirror.topics.include", "team-.*, team-x"),
        resource(64, "other", "mirror.fetch.max.bytes", "1"),
        resource(64, "dr", "mirror.topics.include", "team-.*,.*"),
        resource(2, "orders", "retention.ms", "1"),
    ];
    let request = IncrementalAlterConfigsRequest { resources, ..Default::default() };
    let permitted = request.permitted(&access).unwrap();
    assert_eq!(permitted.resources, request.resources[..1]);
    let mut response = IncrementalAlterConfigsResponse::default();
    request.finish(1, &access, &mut response);
    assert_eq!(response.responses.iter().map(|r| r.error_code).collect::<Vec<_>>(), [1144, 29, 29]);
    let all = IncrementalAlterConfigsRequest { resources: permitted.resources, ..Default::default() };
    assert!(all.permitted(&access).is_none());
}

#[test]
fn what_a_mirror_leaves_out_needs_the_right_to_the_topics_for_it_stops_them_and_lets_them_start() {
    let rights = [
        (Operation::Alter, MIRROR, "dr"),
        (Operation::AlterConfigs, MIRROR, "dr"),
        (Operation::AlterConfigs, TOPIC, "team-+"),
    ];
    let mut catalog = allowing(&rights);
    let exclude = vec!["secret-.*".to_owned(), "team-x".to_owned()];
    let facts = MirrorFacts { exclude, ..MirrorFacts::default() };
    catalog.apply(&StateRecord::Mirror { mirror: "dr".into(), facts: Some(facts) });
    let (judged, caller) = (judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let permitted = |config_operation: i8, value: Option<&str>| {
        let name = "mirror.topics.exclude".to_owned();
        let configs = vec![AlterableConfig { name, config_operation, value: value.map(str::to_owned) }];
        let resource = AlterConfigsResource { resource_type: 64, resource_name: "dr".into(), configs };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        request.permitted(&access).is_none()
    };
    let (set, delete, append, subtract) = (0, 1, 2, 3);
    for (operation, value) in
        [(set, Some("secret-.*")), (set, Some("secret-.*,team-y")), (append, Some("team-y,secret-.*"))]
    {
        assert!(permitted(operation, value), "{operation} {value:?}");
    }
    assert!(permitted(subtract, Some("team-x,absent")));
    for (operation, value) in [
        (set, None),
        (set, Some("team-x")),
        (set, Some("secret-.*,.*")),
        (delete, None),
        (append, Some(".*")),
        (subtract, Some("secret-.*")),
    ] {
        assert!(!permitted(operation, value), "{operation} {value:?}");
    }
    let start = |pattern: &str| {
        let exclude_patterns = vec![pattern.to_owned()];
        let request = StartMirrorTopicsRequest { mirror_name: "dr".into(), exclude_patterns, ..Default::default() };
        request.refuse(0, &access, &catalog).map_or(0, |response| response.error_code)
    };
    // The mirror has `orders`, which is not the caller's to stop.
    assert_eq!([start("team-.*"), start("ord.*"), start(".*")], [0, 29, 29]);
}

#[test]
fn a_topic_tells_nobody_the_name_of_a_mirror_that_is_hidden() {
    let (catalog, judged, caller) =
        (allowing(&[(Operation::AlterConfigs, TOPIC, "orders")]), judged(), caller("User:a"));
    let topics = vec![RemovedTopic { topic_name: "orders".into(), ..Default::default() }];
    let refused =
        RemoveTopicsFromMirrorRequest { topics }.refuse(0, &Access::new(&judged, &catalog, &caller), &catalog);
    let refused = format!("{:?}", refused.unwrap());
    assert!(refused.contains("1144") && !refused.contains("\"dr\"") && !refused.contains("mirror:dr"), "{refused}");
}

#[test]
fn an_answer_full_of_refusals_has_words_for_the_first_of_them_only() {
    let (catalog, judged, caller) = (catalog(), judged(), caller("User:a"));
    let access = Access::new(&judged, &catalog, &caller);
    let request =
        twinlog_proto::messages::create_acls::CreateAclsRequest { creations: vec![Default::default(); 1_000] };
    let response = request.refuse(3, &access, &catalog).unwrap();
    let with_words = response.results.iter().filter(|result| result.error_message.is_some()).count();
    assert_eq!((response.results.len(), with_words), (1_000, REFUSALS_WITH_WORDS_MAX));
    assert!(response.results.iter().all(|result| result.error_code == 31));
}
