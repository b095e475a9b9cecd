//! Gives a running destination the settings that its topics are to have, and records what it was given.

use crate::driver::Driver;
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::settings::destination_servers;
use crate::mirror::topic_configs::{TopicConfigs, Values};
use crate::source::SourceError;
use crate::source::report::{Action, Change, Report};
use crate::sync::cluster::Cluster;
use crate::sync::configs::apply::{RESOURCE_TOPIC, settings_of};
use crate::sync::configs::plan::{self, AtDestination};
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

const OPERATION_SET: i8 = 0;
const OPERATION_DELETE: i8 = 1;

/// The running destination of a mirror.
#[must_use]
pub fn of(catalog: &Catalog, mirror: &str) -> Option<Cluster> {
    let servers = destination_servers(&catalog.mirror(mirror)?.facts.settings);
    (!servers.is_empty()).then(|| Cluster::at(servers))
}

/// Brings some topics in line. The destination's own topics of the same names are never touched.
pub async fn run(
    driver: &Driver,
    mirror: &str,
    destination: &mut Cluster,
    mut configs: BTreeMap<String, TopicConfigs>,
    dry_run: bool,
    report: &mut Report,
) {
    configs.retain(|name, _| !name.starts_with("__"));
    let names: Vec<String> = configs.keys().cloned().collect();
    if names.is_empty() {
        return;
    }
    let there = match settings_of(destination, &names).await {
        Ok(there) => there,
        Err(cause) => return report.fail_at("the destination", &cause),
    };
    let mut plans = BTreeMap::new();
    for (name, found) in there {
        let Some(configs) = configs.get(&name) else { continue };
        match found {
            Ok(told) => drop(plans.insert(name.clone(), plan::destination(&name, configs, &told.own))),
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                report.add(whole(&name, Action::Keep, "the destination has no such topic".to_owned()));
            }
            Err(code) => report.add(whole(&name, Action::Fail, format!("the destination does not tell: {code}"))),
        }
    }
    if dry_run {
        let changes = plans.into_values().flat_map(|plan| plan.changes);
        return changes.for_each(|change| report.add(change));
    }
    match alter(destination, &plans).await {
        Ok(refusals) => record(driver, mirror, plans, &refusals, report).await,
        Err(cause) => report.fail_at("the destination", &cause),
    }
}

/// The topics whose changes were refused, each with the reason.
async fn alter(
    destination: &mut Cluster,
    plans: &BTreeMap<String, AtDestination>,
) -> Result<BTreeMap<String, String>, SourceError> {
    let config = |(name, value): (&String, &Option<String>)| AlterableConfig {
        name: name.clone(),
        config_operation: if value.is_some() { OPERATION_SET } else { OPERATION_DELETE },
        value: value.clone(),
    };
    let resource = |(name, plan): (&String, &AtDestination)| AlterConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: name.clone(),
        configs: plan.alter.iter().map(config).collect(),
    };
    let resources: Vec<AlterConfigsResource> =
        plans.iter().filter(|(_, plan)| !plan.alter.is_empty()).map(resource).collect();
    if resources.is_empty() {
        return Ok(BTreeMap::new());
    }
    let answer = destination.ask(&IncrementalAlterConfigsRequest { resources, validate_only: false }).await?;
    let refused = answer.responses.into_iter().filter(|response| response.error_code != 0);
    Ok(refused
        .map(|response| {
            let code = ErrorCode(response.error_code);
            let words = response.error_message.unwrap_or_default();
            (response.resource_name, format!("the destination refuses it: {code} {words}").trim_end().to_owned())
        })
        .collect())
}

async fn record(
    driver: &Driver,
    mirror: &str,
    plans: BTreeMap<String, AtDestination>,
    refusals: &BTreeMap<String, String>,
    report: &mut Report,
) {
    let mut written: BTreeMap<String, Values> = BTreeMap::new();
    for (name, plan) in plans {
        let refusal = refusals.get(&name);
        for change in plan.changes {
            let made = matches!(change.action, Action::Set | Action::Remove);
            report.add(match refusal.filter(|_| made) {
                Some(why) => Change { action: Action::Fail, reason: Some(why.clone()), ..change },
                None => change,
            });
        }
        if refusal.is_none() {
            written.insert(name, plan.written);
        }
    }
    let mirror = mirror.to_owned();
    let recorded = driver.change(move |catalog, _| (given(catalog, &mirror, written), ())).await;
    if let Err(cause) = recorded {
        report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string());
    }
}

/// What the destination was given, on top of what is recorded now.
fn given(catalog: &Catalog, mirror: &str, written: BTreeMap<String, Values>) -> Vec<MirrorEvent> {
    let event = |(topic, written): (String, Values)| {
        let known = catalog.topic(mirror, &topic)?.configs.as_ref()?;
        let configs = TopicConfigs { written, ..known.clone() };
        (known.written != configs.written).then(|| MirrorEvent::Configs { mirror: mirror.to_owned(), topic, configs })
    };
    written.into_iter().filter_map(event).collect()
}

fn whole(topic: &str, action: Action, reason: String) -> Change {
    let resource = format!("destination:{topic}");
    Change { resource, key: "*".to_owned(), from: None, to: None, action, reason: Some(reason) }
}
