//! Settings of mirrored topics: overrides are checked, win, are shown with what they hide, and go again.

use super::*;
use crate::mirror::catalog::{Desired, MirrorFacts, StateRecord, TopicFacts};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::incremental_alter_configs::AlterableConfig;

fn catalog(synced: &[(&str, &str)]) -> Catalog {
    let mut catalog = Catalog::default();
    let facts = TopicFacts {
        id: Uuid([1; 16]),
        desired: Desired::Mirror,
        partition_count: 1,
        settings: TopicSettings::default(),
    };
    let synced = synced.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let configs = TopicConfigs { synced, ..TopicConfigs::default() };
    let (mirror, topic) = ("m".to_owned(), "t".to_owned());
    catalog.apply(&StateRecord::Mirror { mirror: mirror.clone(), facts: Some(MirrorFacts::default()) });
    catalog.apply(&StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) });
    catalog.apply(&StateRecord::Configs { mirror, topic, configs: Some(configs) });
    catalog
}

fn alter(catalog: &Catalog, changes: &[(&str, i8, Option<&str>)]) -> Result<TopicConfigs, Refusal> {
    let config = |(name, operation, value): &(&str, i8, Option<&str>)| AlterableConfig {
        name: (*name).to_owned(),
        config_operation: *operation,
        value: value.map(str::to_owned),
    };
    let configs = changes.iter().map(config).collect();
    let resource = AlterConfigsResource { resource_type: RESOURCE_TOPIC, resource_name: "t".into(), configs };
    match altered(&resource, catalog)? {
        MirrorEvent::Configs { configs, .. } => Ok(configs),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_override_wins_is_shown_with_what_it_hides_and_goes_when_it_is_deleted() {
    let mut catalog = catalog(&[("retention.ms", "1000"), ("segment.ms", "7")]);
    let configs = alter(&catalog, &[("retention.ms", 0, Some("9"))]).unwrap();
    let record = StateRecord::Configs { mirror: "m".into(), topic: "t".into(), configs: Some(configs) };
    catalog.apply(&record);
    let shown = described(catalog.topic("m", "t").unwrap(), true, true);
    let find = |name: &str| shown.iter().find(|config| config.name == name).unwrap();
    let retention = find("retention.ms");
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("9"), FROM_TOPIC));
    let synonyms: Vec<_> = retention.synonyms.iter().map(|s| (s.value.as_deref(), s.source)).collect();
    assert_eq!(synonyms, [(Some("9"), FROM_TOPIC), (Some("1000"), FROM_SOURCE)]);
    assert_eq!(retention.documentation.as_deref(), Some("set here; the source has 1000"));
    assert_eq!(find("segment.ms").value.as_deref(), Some("7"));
    assert_eq!(find("segment.bytes").config_source, FROM_DEFAULT);
    for delete in [("retention.ms", 1, None), ("retention.ms", 0, None)] {
        assert!(alter(&catalog, &[delete]).unwrap().overrides.is_empty());
    }
}

#[test]
fn a_setting_that_no_topic_has_or_may_have_is_refused_by_name() {
    let catalog = catalog(&[]);
    for (name, value) in [
        ("retention.msec", "1"),
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "1.5"),
    ] {
        let refusal = alter(&catalog, &[(name, 0, Some(value))]).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::INVALID_CONFIG, "{name}={value}");
        assert!(refusal.message.contains(name), "{}", refusal.message);
    }
    assert!(alter(&catalog, &[("cleanup.policy", 2, Some("compact"))]).is_err(), "append");
    let twice = [("segment.ms", 0, Some("1")), ("segment.ms", 0, Some("2"))];
    assert_eq!(alter(&catalog, &twice).unwrap_err().code, ErrorCode::INVALID_REQUEST);
    let unknown = AlterConfigsResource { resource_type: 2, resource_name: "other".into(), configs: Vec::new() };
    assert_eq!(altered(&unknown, &catalog).unwrap_err().code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn the_table_is_sorted() {
    assert!(TOPIC_SETTINGS.is_sorted_by_key(|(name, _)| *name));
}
