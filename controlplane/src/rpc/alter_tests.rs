//! What a pass proves: a mirror's settings and its patterns are one thing, changed by any of the four operations; what is not of
//! the data plane does not reach it; exclude wins; and secrets are never answered.

use super::incremental_alter_configs::{Sources, decide, question};
use super::tests::{apply, world};
use super::{describe_configs, start_mirror_topics};
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::plane::view::View;
use crate::plane::view::tests::Board;
use crate::source::SourceError;
use crate::source::topics::Answer;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn request(configs: &[(&str, i8, &str)]) -> IncrementalAlterConfigsRequest {
    let config = |(name, config_operation, value): &(&str, i8, &str)| AlterableConfig {
        name: (*name).to_owned(),
        config_operation: *config_operation,
        value: (*config_operation != DELETE).then(|| (*value).to_owned()),
    };
    let configs = configs.iter().map(config).collect();
    let resource = AlterConfigsResource { resource_type: 64, resource_name: "m".to_owned(), configs };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}

fn altered(catalog: &Catalog, configs: &[(&str, i8, &str)]) -> Catalog {
    let (events, response) = decide(&request(configs), &Sources::new(), catalog);
    assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
    apply(catalog, events)
}

fn refused(configs: &[(&str, i8, &str)], sources: &Sources) -> (i16, String) {
    let (events, response) = decide(&request(configs), sources, &world());
    assert!(events.is_empty(), "{events:?}");
    (response.responses[0].error_code, response.responses[0].error_message.clone().unwrap_or_default())
}

fn shown(catalog: &Catalog, key: &str) -> (Option<String>, bool, i8) {
    let resource =
        DescribeConfigsResource { resource_type: 64, resource_name: "m".to_owned(), configuration_keys: None };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = describe_configs::handle(&request, catalog, &super::read_tests::us());
    let config = answer.results[0].configs.iter().find(|config| config.name == key).unwrap();
    (config.value.clone(), config.is_sensitive, config.config_source)
}

#[test]
fn a_change_that_cannot_be_made_durable_is_told_of_each_item_and_in_words_of_the_first_ones() {
    use crate::limits::REFUSALS_WITH_WORDS_MAX;
    use crate::rpc::{Refusal, create_acls, delete_acls, incremental_alter_configs};
    use twinlog_proto::error_code::ErrorCode;
    use twinlog_proto::messages::create_acls::CreateAclsRequest;
    use twinlog_proto::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
    let refusal = Refusal::new(ErrorCode::KAFKA_STORAGE_ERROR, "the disk is full");
    let resource = |resource_type, name: &str| AlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs: Vec::new(),
    };
    let resources = vec![resource(64, "m"), resource(2, "flows")];
    let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
    let answer = incremental_alter_configs::refused(&request, &refusal);
    let named = |at: usize| {
        let told = &answer.responses[at];
        (told.resource_type, told.resource_name.as_str(), told.error_code)
    };
    assert_eq!((answer.responses.len(), named(0), named(1)), (2, (64, "m", 56), (2, "flows", 56)));

    let many = REFUSALS_WITH_WORDS_MAX + 3;
    let created = create_acls::refused(&CreateAclsRequest { creations: vec![Default::default(); many] }, &refusal);
    let words: usize = created.results.iter().map(|result| usize::from(result.error_message.is_some())).sum();
    assert_eq!((created.results.len(), words), (many, REFUSALS_WITH_WORDS_MAX));
    let filters = vec![DeleteAclsFilter::default(); 2];
    let deleted = delete_acls::refused(&DeleteAclsRequest { filters }, &refusal);
    assert_eq!(deleted.filter_results.iter().map(|result| result.error_code).collect::<Vec<_>>(), [56, 56]);
}

#[test]
fn patterns_are_set_added_to_taken_from_and_deleted_and_shown() {
    let start = StartMirrorTopicsRequest {
        mirror_name: "m".to_owned(),
        include_patterns: vec!["b{1,2}".to_owned()],
        ..Default::default()
    };
    let board = Board::default();
    let source = Ok(Answer { cluster_id: "src".to_owned(), ..Answer::default() });
    let (events, _) = start_mirror_topics::decide(&start, source, &world(), &View::new(&board, 0));
    let mut catalog = apply(&world(), events);
    let include = |catalog: &Catalog| shown(catalog, "mirror.topics.include").0;
    assert_eq!(include(&catalog).as_deref(), Some("b{1,2}"), "what start recorded");
    for (operation, value, wanted) in [
        (APPEND, "c.*,b{1,2}", "b{1,2},c.*"),
        (SUBTRACT, "b{1,2}", "c.*"),
        (SUBTRACT, "c.*", ""),
        (SET, "x,[y,z]", "x,[y,z]"),
        (DELETE, "", ""),
    ] {
        catalog = altered(&catalog, &[("mirror.topics.include", operation, value)]);
        assert_eq!(include(&catalog).as_deref(), Some(wanted), "after {operation} {value}");
    }
    assert_eq!(shown(&catalog, "mirror.internal.topics"), (Some("standby".to_owned()), false, 5), "a default");
}

#[test]
fn what_the_control_plane_alone_follows_changes_no_assignment() {
    let before = world();
    let version = |catalog: &Catalog| catalog.mirror("m").unwrap().facts.assignment_version;
    let ours = [
        ("mirror.topics.include", SET, "x.*"),
        ("mirror.metadata.refresh.interval.ms", SET, "500"),
        ("mirror.internal.topics", SET, "none"),
    ];
    let after = altered(&before, &ours);
    assert_eq!(version(&after), version(&before));
    let after = altered(&after, &[("mirror.fetch.max.bytes", SET, "500")]);
    assert_eq!(version(&after), version(&before) + 1);
    let again = decide(&request(&[("mirror.fetch.max.bytes", SET, "500")]), &Sources::new(), &after).0;
    assert!(again.is_empty(), "nothing new: {again:?}");
}

#[test]
fn a_topic_that_comes_to_match_exclude_is_stopped_and_is_not_started_by_name() {
    let (events, _) = decide(&request(&[("mirror.topics.exclude", SET, "flow.*,stop.*")]), &Sources::new(), &world());
    let stops: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            MirrorEvent::Wanted { topic, .. } => Some(topic.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(stops, ["flows"], "the others are stopped already, or do not match");
    let excluded = apply(&world(), events);
    let start = |name: &str, pattern: &[&str]| {
        let topic = TopicData { topic_name: name.to_owned(), ..Default::default() };
        let start = StartMirrorTopicsRequest {
            mirror_name: "m".to_owned(),
            topics: vec![topic],
            include_patterns: pattern.iter().map(|text| (*text).to_owned()).collect(),
            ..Default::default()
        };
        let topics = [("stopped".to_owned(), Ok(super::tests::source("stopped", 4, 1)))].into();
        let source = Ok(Answer { cluster_id: "src".to_owned(), topics, ..Answer::default() });
        let board = Board::default();
        start_mirror_topics::decide(&start, source, &excluded, &View::new(&board, 0)).1
    };
    let answer = start("stopped", &[]);
    assert_eq!(answer.topics[0].error_code, 42);
    assert!(answer.error_message.unwrap().contains("mirror.topics.exclude"));
    assert_eq!(start("stopped", &["stop.*"]).topics[0].error_code, 0, "the pattern is taken back");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let none = Sources::new();
    for (config, code, name) in [
        (("mirror.topics.includ", DELETE, ""), 40, "did you mean `mirror.topics.include`?"),
        (("mirror.topics.include", SET, "a,(b"), 40, "(b"),
        (("client.id", APPEND, "y"), 40, "is no list"),
        (("client.id", 9, "y"), 42, "no operation"),
        (("mirror.source.cluster.id", SET, "other"), 40, "src"),
        (("bootstrap.servers", SUBTRACT, "s:1"), 40, "bootstrap.servers"),
    ] {
        let (got, why) = refused(&[config], &none);
        assert!(got == code && why.contains(name), "{config:?}: {got} {why}");
    }
    assert_eq!(refused(&[("client.id", SET, "a"), ("client.id", SET, "b")], &none).0, 42);
}

#[test]
fn new_servers_must_be_the_same_cluster_if_they_can_be_asked() {
    let moved = [("bootstrap.servers", SET, "t:2")];
    assert_eq!(question(&request(&moved), &world())["m"], ["t:2"]);
    assert!(question(&request(&[("client.id", SET, "x")]), &world()).is_empty());
    let says = |source| Sources::from([("m".to_owned(), source)]);
    let (code, why) = refused(&moved, &says(Ok("other".to_owned())));
    assert!(code == 40 && why.contains("other") && why.contains("src"), "{why}");
    let away = says(Err(SourceError::Unreachable("t:2: refused".to_owned())));
    assert_eq!(decide(&request(&moved), &away, &world()).0.len(), 1, "servers that come later are taken");
}

#[test]
fn secrets_are_shown_as_null() {
    let catalog = altered(&world(), &[("sasl.jaas.config", SET, "hunter2")]);
    assert_eq!(shown(&catalog, "sasl.jaas.config"), (None, true, 1));
}
