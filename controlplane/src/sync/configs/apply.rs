//! Asks the source for the settings of mirrored topics and records what follows.

use crate::driver::Driver;
use crate::mirror::catalog::{Catalog, Desired};
use crate::mirror::event::MirrorEvent;
use crate::mirror::topic_configs::{ABOUT_RECORDS, Inherited, TopicConfigs};
use crate::source::SourceError;
use crate::source::report::{Action, Change, Report};
use crate::sync::book::Memory;
use crate::sync::cluster::Cluster;
use crate::sync::configs::destination;
use crate::sync::configs::plan::{self, FROM_TOPIC, Told};
use crate::sync::destination::{Known, meet};
use crate::sync::filters::{self, Filter};
use std::collections::BTreeMap;
use std::rc::Rc;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult,
};

/// Resource type of a topic in requests about settings.
pub(super) const RESOURCE_TOPIC: i8 = 2;
/// Topics in one question: a topic has some forty settings, so an answer stays far below the largest frame.
const TOPICS_PER_QUESTION: usize = 500;

/// What a cluster says of some topics' settings.
pub type Found = BTreeMap<String, Result<Told, ErrorCode>>;

/// Syncs the settings of a mirror's topics.
pub async fn run(
    driver: &Driver,
    mirror: &str,
    source: &mut Cluster,
    memory: &mut Memory,
    dry_run: bool,
    report: &mut Report,
) {
    let Some((topics, filter)) = driver.read(|catalog, _| question(catalog, mirror)) else {
        return report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone");
    };
    let filter = match filter {
        Ok(filter) => Rc::new(filter),
        Err(why) => return report.fail(ErrorCode::INVALID_CONFIG, why),
    };
    let mut destination = driver.read(|catalog, _| destination::of(catalog, mirror));
    let mut known = Known::Same;
    if let Some(cluster) = &mut destination {
        match meet(driver, mirror, cluster, memory, dry_run, report).await {
            Some(met) => known = met,
            // Our own topics follow the source all the same.
            None => destination = None,
        }
    }
    for topics in topics.chunks(TOPICS_PER_QUESTION) {
        let found = match settings_of(source, topics).await {
            Ok(found) => found,
            Err(cause) => return report.fail_at("the source", &cause),
        };
        let (name, filter) = (mirror.to_owned(), Rc::clone(&filter));
        let decide = move |catalog: &Catalog| {
            let (events, changes) = decide(catalog, &name, &found, &filter);
            let configs = wanted(catalog, &name, found.keys(), &events);
            (events, (changes, configs))
        };
        let (changes, mut configs) = if dry_run {
            driver.read(|catalog, _| decide(catalog).1)
        } else {
            match driver.change(move |catalog, _| decide(catalog)).await {
                Ok(decided) => decided,
                Err(cause) => return report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string()),
            }
        };
        changes.into_iter().for_each(|change| report.add(change));
        if known == Known::Other {
            configs.values_mut().for_each(|configs| configs.written.clear());
        }
        if let Some(destination) = &mut destination {
            destination::run(driver, mirror, destination, configs, dry_run, report).await;
        }
    }
}

type Question = (Vec<String>, Result<Filter, String>);

/// The topics that follow the source, and which of their settings do.
fn question(catalog: &Catalog, mirror: &str) -> Option<Question> {
    let known = catalog.mirror(mirror)?;
    let topics = known.topics.iter().filter(|(_, topic)| topic.facts.desired != Desired::Stop);
    let topics = topics.map(|(name, _)| name.clone()).collect();
    Some((topics, filters::properties(&known.facts.settings).map_err(|bad| bad.to_string())))
}

/// What follows from the source's answer, against what is recorded now.
fn decide(catalog: &Catalog, mirror: &str, found: &Found, filter: &Filter) -> (Vec<MirrorEvent>, Vec<Change>) {
    let (mut events, mut changes) = (Vec::new(), Vec::new());
    for (name, found) in found {
        let Some(topic) = catalog.topic(mirror, name).filter(|topic| topic.facts.desired != Desired::Stop) else {
            continue;
        };
        let source = match found {
            Ok(told) => told,
            Err(code) => {
                changes.push(refused(name, *code));
                continue;
            }
        };
        let known = topic.configs.clone().unwrap_or_default();
        let planned = plan::desired(name, source, filter, &known);
        if topic.configs.as_ref() != Some(&planned.configs) {
            let (mirror, topic) = (mirror.to_owned(), name.clone());
            events.push(MirrorEvent::Configs { mirror, topic, configs: planned.configs });
        }
        changes.extend(planned.changes);
    }
    (events, changes)
}

/// The settings that topics are to have once the events have happened.
fn wanted<'n>(
    catalog: &Catalog,
    mirror: &str,
    names: impl Iterator<Item = &'n String>,
    events: &[MirrorEvent],
) -> BTreeMap<String, TopicConfigs> {
    let known = |name: &String| Some((name.clone(), catalog.topic(mirror, name)?.configs.clone()?));
    let mut all: BTreeMap<String, TopicConfigs> = names.filter_map(known).collect();
    for event in events {
        if let MirrorEvent::Configs { topic, configs, .. } = event {
            all.insert(topic.clone(), configs.clone());
        }
    }
    all
}

fn refused(topic: &str, code: ErrorCode) -> Change {
    Change {
        resource: topic.to_owned(),
        key: "*".to_owned(),
        from: None,
        to: None,
        action: Action::Fail,
        reason: Some(format!("the source does not tell its settings: {code}")),
    }
}

/// The settings that were made on the topics themselves, and what else decides about their records.
///
/// # Errors
/// See [`SourceError`].
pub async fn settings_of(cluster: &mut Cluster, topics: &[String]) -> Result<Found, SourceError> {
    let resource = |name: &String| DescribeConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: name.clone(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: topics.iter().map(resource).collect(),
        include_synonyms: false,
        include_documentation: false,
    };
    let answer = cluster.ask(&request).await?;
    let topic = |result: DescribeConfigsResult| (result.resource_name.clone(), told(result));
    Ok(answer.results.into_iter().filter(|result| result.resource_type == RESOURCE_TOPIC).map(topic).collect())
}

fn told(result: DescribeConfigsResult) -> Result<Told, ErrorCode> {
    match ErrorCode(result.error_code) {
        ErrorCode::NONE => {}
        code => return Err(code),
    }
    let mut told = Told::default();
    for config in result.configs.into_iter().filter(|config| !config.is_sensitive) {
        let Some(value) = config.value else { continue };
        if config.config_source == FROM_TOPIC {
            told.own.insert(config.name, value);
        } else if ABOUT_RECORDS.contains(&config.name.as_str()) {
            told.others.insert(config.name, Inherited { value, origin: config.config_source });
        }
    }
    Ok(told)
}
