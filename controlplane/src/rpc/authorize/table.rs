//! The printed table of rights, made by asking the code: each request is judged with no right at all, then with each right that it
//! turns out to lack, until it is answered.

use super::{Access, Authorizer, Guard, denied_code};
use crate::mirror::catalog::{Catalog, StateRecord};
use crate::rpc::authorize::tests::{caller, catalog};
use std::collections::BTreeSet;
use std::fmt::Write;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::{
    add_topics_to_mirror as add, api_versions, create_acls, create_mirror, delete_acls, delete_mirror, describe_acls,
    describe_cluster, describe_configs as configs, describe_mirrors, find_coordinator,
    incremental_alter_configs as alter, init_producer_id, last_mirrored_offsets as lmo, list_mirrors, list_offsets,
    metadata, pause_mirror_topics as pause, produce, read_mirror_states, record_hand_over,
    remove_topics_from_mirror as remove, resume_mirror_topics as resume, start_mirror_topics as start,
    stop_mirror_topics as stop, sync_mirror, write_mirror_states,
};
use twinlog_proto::security::acl::{AclBinding, CLUSTER_NAME};
use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};

const GOLDEN: &str = include_str!("../../../golden/authorization.txt");
const RIGHTS_MAX: usize = 5;

/// What a caller without a right sees, in words.
fn code(code: i16) -> String {
    if code == 0 { "answered".to_owned() } else { ErrorCode(code).to_string() }
}

fn left_out(left: usize) -> String {
    if left == 0 { "left out".to_owned() } else { "answered".to_owned() }
}

fn allow(catalog: &mut Catalog, operation: Operation, resource_type: ResourceType) {
    let name = if resource_type == ResourceType::Cluster { CLUSTER_NAME } else { "*" };
    let binding = AclBinding {
        resource_type,
        resource_name: name.to_owned(),
        pattern_type: PatternType::Literal,
        principal: "User:a".to_owned(),
        host: "*".to_owned(),
        operation,
        permission: Permission::Allow,
    };
    catalog.apply(&StateRecord::Acl { origin: String::new(), binding, present: true });
}

#[derive(Default)]
struct Table {
    text: String,
    keys: BTreeSet<i16>,
}

impl Table {
    /// Adds the rows of a request, which its handler answers with `answer`.
    fn add<R: Guard>(
        &mut self,
        what: &str,
        version: i16,
        request: &R,
        answer: impl Fn() -> R::Response,
        told: impl Fn(&R::Response) -> String,
    ) {
        self.keys.insert(R::API_KEY);
        let (mut catalog, authorizer, caller) =
            (catalog(), Authorizer::Acl { super_users: BTreeSet::new() }, caller("User:a"));
        let mut granted = BTreeSet::new();
        for _ in 0..RIGHTS_MAX {
            let access = Access::new(&authorizer, &catalog, &caller);
            let response = request.refuse(version, &access, &catalog).unwrap_or_else(|| {
                let mut response = answer();
                request.finish(version, &access, &mut response);
                response
            });
            let asked = access.asked.take();
            let name = format!("{} v{version}{what}", api::name(R::API_KEY));
            match asked.into_iter().find(|right| !granted.contains(right)) {
                Some((operation, kind)) => {
                    let told = told(&response);
                    assert!(told == "left out" || told == code(denied_code(kind).0), "{name}: {told}");
                    writeln!(self.text, "{name:<44} {:<34} {told}", format!("{operation} on {kind}")).unwrap();
                    granted.insert((operation, kind));
                    allow(&mut catalog, operation, kind);
                }
                None if granted.is_empty() => {
                    return writeln!(self.text, "{name:<44} {:<34} {}", "-", told(&response)).unwrap();
                }
                None => {
                    return assert_eq!(told(&response), "answered", "{name}");
                }
            }
        }
        panic!("{what} needs more rights than {RIGHTS_MAX}");
    }
}

fn name(text: &str) -> String {
    text.to_owned()
}

fn mirrors(table: &mut Table) {
    let request = create_mirror::CreateMirrorRequest { mirror_name: name("new"), ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
    let include = create_mirror::MirrorConfig { name: name("mirror.topics.include"), value: Some(name(".*")) };
    let request = create_mirror::CreateMirrorRequest { config: vec![include], ..request };
    table.add(" with patterns", 0, &request, Default::default, |r| code(r.error_code));
    let topics = || vec![start::TopicData { topic_name: name("orders"), ..Default::default() }];
    let request = start::StartMirrorTopicsRequest { mirror_name: name("dr"), topics: topics(), ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
    let scratch = start::StartMirrorTopicsRequest { from_scratch: true, ..request };
    table.add(" from scratch", 0, &scratch, Default::default, |r| code(r.error_code));
    let include_patterns = vec![name(".*")];
    let request = start::StartMirrorTopicsRequest { mirror_name: name("dr"), include_patterns, ..Default::default() };
    table.add(" by pattern", 0, &request, Default::default, |r| code(r.error_code));
    let topics = vec![stop::TopicData { topic_name: name("orders"), ..Default::default() }];
    let request = stop::StopMirrorTopicsRequest { mirror_name: name("dr"), topics, ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
    let request =
        stop::StopMirrorTopicsRequest { mirror_name: name("dr"), patterns: vec![name("ord.*")], ..Default::default() };
    table.add(" by pattern", 0, &request, Default::default, |r| code(r.error_code));
    let request = lmo::LastMirroredOffsetsRequest { mirror_name: name("dr"), ..Default::default() };
    table.add("", 1, &request, Default::default, |r| code(r.error_code));
    let listed = || list_mirrors::ListedMirror { mirror_name: name("dr"), ..Default::default() };
    let answer = || list_mirrors::ListMirrorsResponse { mirrors: vec![listed()], ..Default::default() };
    let request = list_mirrors::ListMirrorsRequest::default();
    table.add("", 1, &request, answer, |r| left_out(r.mirrors.len()));
    let described = || describe_mirrors::DescribedMirror { mirror_name: name("dr"), ..Default::default() };
    let answer = || describe_mirrors::DescribeMirrorsResponse { mirrors: vec![described()], ..Default::default() };
    let request = describe_mirrors::DescribeMirrorsRequest::default();
    table.add(" of all", 1, &request, answer, |r| left_out(r.mirrors.len()));
    let request =
        describe_mirrors::DescribeMirrorsRequest { mirror_names: Some(vec![name("dr")]), ..Default::default() };
    table.add(" by name", 1, &request, answer, |r| code(r.mirrors[0].error_code));
    let request = read_mirror_states::ReadMirrorStatesRequest { mirror_name: name("dr"), ..Default::default() };
    table.add("", 1, &request, Default::default, |r| code(r.error_code));
    let request = write_mirror_states::WriteMirrorStatesRequest { mirror_name: name("dr"), ..Default::default() };
    table.add("", 1, &request, Default::default, |r| code(r.error_code));
    for version in [0, 1] {
        let mirror_name = name(if version == 0 { "" } else { "dr" });
        let topics = vec![pause::TopicData { topic_name: name("orders"), ..Default::default() }];
        let request = pause::PauseMirrorTopicsRequest { mirror_name: mirror_name.clone(), topics };
        table.add("", version, &request, Default::default, |r| code(r.error_code));
        let topics = vec![resume::TopicData { topic_name: name("orders"), ..Default::default() }];
        let request = resume::ResumeMirrorTopicsRequest { mirror_name, topics };
        table.add("", version, &request, Default::default, |r| code(r.error_code));
    }
    let request = delete_mirror::DeleteMirrorRequest { mirror_name: name("dr"), ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
    let topics = vec![add::TopicData { topic_name: name("orders"), mirror_name: name("dr"), ..Default::default() }];
    table.add("", 0, &add::AddTopicsToMirrorRequest { topics }, Default::default, |r| code(r.error_code));
    let topics = vec![remove::TopicData { topic_name: name("orders"), ..Default::default() }];
    table.add("", 0, &remove::RemoveTopicsFromMirrorRequest { topics }, Default::default, |r| code(r.error_code));
    let request = sync_mirror::SyncMirrorRequest { mirror_name: name("dr"), ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
    let topics = vec![record_hand_over::TopicData { topic_name: name("orders"), ..Default::default() }];
    let request = record_hand_over::RecordHandOverRequest { mirror_name: name("dr"), topics, ..Default::default() };
    table.add("", 0, &request, Default::default, |r| code(r.error_code));
}

fn stock(table: &mut Table) {
    let refused = || produce::ProduceResponse {
        responses: vec![produce::TopicProduceResponse {
            partition_responses: vec![produce::PartitionProduceResponse { error_code: 44, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let of_first = |r: &produce::ProduceResponse| code(r.responses[0].partition_responses[0].error_code);
    table.add("", 13, &produce::ProduceRequest::default(), refused, of_first);
    let refused = || init_producer_id::InitProducerIdResponse { error_code: 31, ..Default::default() };
    table.add("", 5, &init_producer_id::InitProducerIdRequest::default(), refused, |r| code(r.error_code));
    table.add("", 4, &api_versions::ApiVersionsRequest::default(), Default::default, |r| code(r.error_code));
    let partitions = vec![list_offsets::ListOffsetsPartitionResponse { offset: 7, ..Default::default() }];
    let topic = list_offsets::ListOffsetsTopicResponse { name: name("orders"), partitions };
    let answer = || list_offsets::ListOffsetsResponse { topics: vec![topic.clone()], ..Default::default() };
    let of_first = |r: &list_offsets::ListOffsetsResponse| code(r.topics[0].partitions[0].error_code);
    table.add("", 11, &list_offsets::ListOffsetsRequest::default(), answer, of_first);
    let topic = || metadata::MetadataResponseTopic {
        name: Some(name("orders")),
        topic_id: Uuid([7; 16]),
        ..Default::default()
    };
    let answer = || metadata::MetadataResponse { topics: vec![topic()], ..Default::default() };
    let request = metadata::MetadataRequest { topics: None, ..Default::default() };
    table.add(" of all", 13, &request, answer, |r| left_out(r.topics.len()));
    let by_name = metadata::MetadataRequestTopic { name: Some(name("orders")), ..Default::default() };
    let by_id = metadata::MetadataRequestTopic { name: None, topic_id: Uuid([7; 16]) };
    for (what, asked) in [(" by name", by_name), (" by id", by_id)] {
        let request = metadata::MetadataRequest { topics: Some(vec![asked]), ..Default::default() };
        table.add(what, 13, &request, answer, |r| code(r.topics[0].error_code));
    }
    let request = describe_cluster::DescribeClusterRequest::default();
    table.add("", 2, &request, Default::default, |r| code(r.error_code));
    for (what, key_type) in [(" of a group", 0), (" of a transaction", 1), (" of a mirror", 3)] {
        let coordinator = || find_coordinator::Coordinator { key: name("dr"), ..Default::default() };
        let answer =
            || find_coordinator::FindCoordinatorResponse { coordinators: vec![coordinator()], ..Default::default() };
        let request = find_coordinator::FindCoordinatorRequest { key_type, ..Default::default() };
        table.add(what, 7, &request, answer, |r| code(r.coordinators[0].error_code));
    }
    for (what, kind) in [(" of a topic", 2), (" of a broker", 4), (" of a group", 32), (" of a mirror", 64)] {
        let result =
            || configs::DescribeConfigsResult { resource_type: kind, resource_name: name("dr"), ..Default::default() };
        let answer = || configs::DescribeConfigsResponse { results: vec![result()], ..Default::default() };
        table.add(what, 4, &configs::DescribeConfigsRequest::default(), answer, |r| code(r.results[0].error_code));
        let resource =
            alter::AlterConfigsResource { resource_type: kind, resource_name: name("dr"), ..Default::default() };
        let request = alter::IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        table.add(what, 1, &request, Default::default, |r| code(r.responses.first().map_or(0, |r| r.error_code)));
    }
    let request = describe_acls::DescribeAclsRequest::default();
    table.add("", 3, &request, Default::default, |r| code(r.error_code));
    let one = || create_acls::AclCreationResult::default();
    let answer = || create_acls::CreateAclsResponse { results: vec![one()], ..Default::default() };
    let request = create_acls::CreateAclsRequest { creations: vec![Default::default()] };
    table.add("", 3, &request, answer, |r| code(r.results[0].error_code));
    let one = || delete_acls::DeleteAclsFilterResult::default();
    let answer = || delete_acls::DeleteAclsResponse { filter_results: vec![one()], ..Default::default() };
    let request = delete_acls::DeleteAclsRequest { filters: vec![Default::default()] };
    table.add("", 3, &request, answer, |r| code(r.filter_results[0].error_code));
}

#[test]
fn the_printed_table_is_what_the_code_asks_for() {
    let mut table = Table::default();
    writeln!(table.text, "{:<44} {:<34} without it", "request", "right").unwrap();
    mirrors(&mut table);
    stock(&mut table);
    let served: BTreeSet<i16> = crate::server::dispatch::SERVED.iter().copied().collect();
    let missing: Vec<_> = served.difference(&table.keys).map(|key| api::name(*key)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    assert!(table.text == GOLDEN, "golden/authorization.txt is to be:\n{}", table.text);
}
