//! pure: the settings of mirrored topics in DescribeConfigs and IncrementalAlterConfigs.
//!
//! A topic has what its source has. A setting that is made here is an override: it wins until it is deleted, and a description shows
//! both values.

use crate::mirror::catalog::{Catalog, Topic, TopicSettings};
use crate::mirror::event::MirrorEvent;
use crate::mirror::topic_configs::{TopicConfigs, fits, has_room};
use crate::rpc::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsSynonym};
use twinlog_proto::messages::incremental_alter_configs::AlterConfigsResource;

/// Resource type of a topic.
pub const RESOURCE_TOPIC: i8 = 2;
const OPERATION_SET: i8 = 0;
const OPERATION_DELETE: i8 = 1;
/// Where a value comes from: made on the topic (by the source or here), below it what an override hides, or a default. What only holds at
/// the source is never shown as made on the topic; its one synonym says where the source has it from.
const FROM_TOPIC: i8 = 1;
const FROM_SOURCE: i8 = 3;
const FROM_DEFAULT: i8 = 5;

/// What a setting of a topic may be.
#[derive(Debug, Clone, Copy)]
enum Form {
    Number(i64),
    Ratio,
    Switch,
    Text,
}

/// The topic settings of a stock broker, sorted.
const TOPIC_SETTINGS: [(&str, Form); 33] = [
    ("cleanup.policy", Form::Text),
    ("compression.gzip.level", Form::Number(-1)),
    ("compression.lz4.level", Form::Number(1)),
    ("compression.type", Form::Text),
    ("compression.zstd.level", Form::Number(-131_072)),
    ("delete.retention.ms", Form::Number(0)),
    ("file.delete.delay.ms", Form::Number(0)),
    ("flush.messages", Form::Number(1)),
    ("flush.ms", Form::Number(0)),
    ("follower.replication.throttled.replicas", Form::Text),
    ("index.interval.bytes", Form::Number(0)),
    ("leader.replication.throttled.replicas", Form::Text),
    ("local.retention.bytes", Form::Number(-2)),
    ("local.retention.ms", Form::Number(-2)),
    ("max.compaction.lag.ms", Form::Number(1)),
    ("max.message.bytes", Form::Number(0)),
    ("message.timestamp.after.max.ms", Form::Number(0)),
    ("message.timestamp.before.max.ms", Form::Number(0)),
    ("message.timestamp.type", Form::Text),
    ("min.cleanable.dirty.ratio", Form::Ratio),
    ("min.compaction.lag.ms", Form::Number(0)),
    ("min.insync.replicas", Form::Number(1)),
    ("preallocate", Form::Switch),
    ("remote.copy.disable", Form::Switch),
    ("remote.log.delete.on.disable", Form::Switch),
    ("remote.storage.enable", Form::Switch),
    ("retention.bytes", Form::Number(-1)),
    ("retention.ms", Form::Number(-1)),
    ("segment.bytes", Form::Number(14)),
    ("segment.index.bytes", Form::Number(4)),
    ("segment.jitter.ms", Form::Number(0)),
    ("segment.ms", Form::Number(1)),
    ("unclean.leader.election.enable", Form::Switch),
];

/// The overrides of a topic after a change.
///
/// # Errors
/// A topic that is not mirrored, or a setting that a topic does not have.
pub fn altered(resource: &AlterConfigsResource, catalog: &Catalog) -> Result<MirrorEvent, Refusal> {
    let name = resource.resource_name.as_str();
    let Some((mirror, topic)) = catalog.owner_of(name) else {
        return Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("no mirror has a topic {name}")));
    };
    let mut configs = topic.configs.clone().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for config in &resource.configs {
        let key = config.name.as_str();
        if !seen.insert(key) {
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("the setting `{key}` is given twice")));
        }
        match (config.config_operation, &config.value) {
            (OPERATION_SET, Some(value)) => {
                check(key, value)?;
                if !has_room(&configs.overrides, key) {
                    return Err(Refusal::new(ErrorCode::INVALID_CONFIG, "the topic has too many overrides"));
                }
                configs.overrides.insert(key.to_owned(), value.clone());
            }
            (OPERATION_SET, None) | (OPERATION_DELETE, _) => drop(configs.overrides.remove(key)),
            _ => {
                let message = format!("`{key}` cannot be appended to here; set it as a whole");
                return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
            }
        }
    }
    Ok(MirrorEvent::Configs { mirror: mirror.to_owned(), topic: name.to_owned(), configs })
}

fn check(key: &str, value: &str) -> Result<(), Refusal> {
    let bad = |why: String| Err(Refusal::new(ErrorCode::INVALID_CONFIG, format!("the topic setting `{key}` {why}")));
    let Ok(at) = TOPIC_SETTINGS.binary_search_by_key(&key, |(name, _)| name) else {
        return bad("is not known; a topic's settings are those of a stock broker, such as retention.ms".to_owned());
    };
    if !fits(key, value) {
        return bad("is too long".to_owned());
    }
    match TOPIC_SETTINGS[at].1 {
        Form::Number(min) if value.parse::<i64>().is_ok_and(|number| number >= min) => Ok(()),
        Form::Number(min) => bad(format!("must be a number of at least {min}, not {value:?}")),
        Form::Ratio if value.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)) => Ok(()),
        Form::Ratio => bad(format!("must be a number from 0 to 1, not {value:?}")),
        Form::Switch if matches!(value, "true" | "false") => Ok(()),
        Form::Switch => bad(format!("must be true or false, not {value:?}")),
        Form::Text => Ok(()),
    }
}

/// The settings of a topic: those that the source or an administrator made, and what else shapes the files.
#[must_use]
pub fn described(topic: &Topic, synonyms: bool, documentation: bool) -> Vec<DescribeConfigsResourceResult> {
    let nothing = TopicConfigs::default();
    let configs = topic.configs.as_ref().unwrap_or(&nothing);
    let mut all: BTreeMap<&str, DescribeConfigsResourceResult> = shaping(&topic.facts.settings)
        .into_iter()
        .map(|(name, value)| (name, result(name, &value, FROM_DEFAULT)))
        .collect();
    for (name, inherited) in &configs.inherited {
        let shown_as = if inherited.origin == FROM_TOPIC { FROM_SOURCE } else { inherited.origin };
        let mut shown = result(name, &inherited.value, shown_as);
        if synonyms {
            let (name, value) = (name.clone(), Some(inherited.value.clone()));
            shown.synonyms.push(DescribeConfigsSynonym { name, value, source: inherited.origin });
        }
        if documentation {
            shown.documentation = Some("holds at the source; given to the topic when it is handed over".to_owned());
        }
        all.insert(name, shown);
    }
    for (name, value) in configs.effective() {
        let mut shown = result(name, value, FROM_TOPIC);
        let hidden = configs.overrides.get(name).map(|_| configs.synced.get(name));
        if synonyms {
            let from = |value: &str, source| DescribeConfigsSynonym {
                name: name.to_owned(),
                value: Some(value.to_owned()),
                source,
            };
            shown.synonyms.push(from(value, FROM_TOPIC));
            shown.synonyms.extend(hidden.flatten().map(|value| from(value, FROM_SOURCE)));
        }
        if documentation {
            let text = match hidden {
                None => "follows the source".to_owned(),
                Some(Some(value)) => format!("set here; the source has {value}"),
                Some(None) => "set here; the source has none".to_owned(),
            };
            shown.documentation = Some(text.chars().take(1_000).collect());
        }
        all.insert(name, shown);
    }
    all.into_values().collect()
}

fn result(name: &str, value: &str, config_source: i8) -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        config_source,
        ..DescribeConfigsResourceResult::default()
    }
}

fn shaping(settings: &TopicSettings) -> [(&'static str, String); 7] {
    let policy = if settings.compacted { "compact" } else { "delete" };
    [
        ("cleanup.policy", policy.to_owned()),
        ("index.interval.bytes", settings.index_interval_bytes.to_string()),
        ("max.compaction.lag.ms", settings.max_compaction_lag_ms.to_string()),
        ("segment.bytes", settings.segment_bytes.to_string()),
        ("segment.index.bytes", settings.segment_index_bytes.to_string()),
        ("segment.jitter.ms", settings.segment_jitter_ms.to_string()),
        ("segment.ms", settings.segment_ms.to_string()),
    ]
}

#[cfg(test)]
#[path = "topic_configs_tests.rs"]
mod tests;
