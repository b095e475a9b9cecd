//! pure: IncrementalAlterConfigs: the settings of a mirror, the patterns among them. What a setting may be is checked as at its
//! creation; servers that can be asked must still be the same cluster.

use crate::follow::exclusion;
use crate::mirror::catalog::{Catalog, Mirror};
use crate::mirror::event::MirrorEvent;
use crate::mirror::internal;
use crate::mirror::patterns::Patterns;
use crate::mirror::settings::{self, BOOTSTRAP_SERVERS, BadSetting, SOURCE_CLUSTER_ID, Settings};
use crate::rpc::{Refusal, each, topic_configs};
use crate::source::SourceError;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};

const RESOURCE_MIRROR: i8 = 64;
const OPERATION_SET: i8 = 0;
const OPERATION_DELETE: i8 = 1;
const OPERATION_APPEND: i8 = 2;
const OPERATION_SUBTRACT: i8 = 3;

/// What the clusters behind new servers say of themselves, by mirror.
pub type Sources = BTreeMap<String, Result<String, SourceError>>;

/// The mirrors that would get other servers, with these.
#[must_use]
pub fn question(request: &IncrementalAlterConfigsRequest, catalog: &Catalog) -> BTreeMap<String, Vec<String>> {
    let moved = |resource: &AlterConfigsResource| {
        let (mirror, settings) = altered(resource, catalog).ok()?;
        let servers = settings::bootstrap_servers(&settings);
        (servers != settings::bootstrap_servers(&mirror.facts.settings))
            .then(|| (resource.resource_name.clone(), servers))
    };
    request.resources.iter().filter_map(moved).collect()
}

/// Decides, given what the new servers say.
#[must_use]
pub fn decide(
    request: &IncrementalAlterConfigsRequest,
    sources: &Sources,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, IncrementalAlterConfigsResponse) {
    let (mut events, mut responses) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for resource in &request.resources {
        let outcome = if seen.insert((resource.resource_type, &resource.resource_name)) {
            match resource.resource_type {
                topic_configs::RESOURCE_TOPIC => topic_configs::altered(resource, catalog).map(|event| vec![event]),
                _ => one(resource, sources.get(&resource.resource_name), catalog),
            }
        } else {
            Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("{} is named twice", resource.resource_name)))
        };
        let refusal = match outcome {
            Ok(changes) => {
                events.extend(changes.into_iter().filter(|_| !request.validate_only));
                None
            }
            Err(refusal) => Some(refusal),
        };
        responses.push(AlterConfigsResourceResponse {
            error_code: refusal.as_ref().map_or(0, |refusal| refusal.code.0),
            error_message: refusal.map(|refusal| refusal.message),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name.clone(),
        });
    }
    (events, IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() })
}

fn one(
    resource: &AlterConfigsResource,
    source: Option<&Result<String, SourceError>>,
    catalog: &Catalog,
) -> Result<Vec<MirrorEvent>, Refusal> {
    let (mirror, settings) = altered(resource, catalog)?;
    let ours = &mirror.facts.source_cluster_id;
    let refuse = |message: String| Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
    if settings.get(SOURCE_CLUSTER_ID).is_some_and(|wanted| wanted != ours) {
        return refuse(format!(
            "the source of this mirror is cluster {ours}, which stays so; create another mirror instead"
        ));
    }
    match source {
        Some(Ok(there)) if there != ours => {
            let why = format!(
                "the servers belong to cluster {there}, but this mirror's source is {ours}; check {BOOTSTRAP_SERVERS}"
            );
            return refuse(why);
        }
        Some(Err(cause)) if !cause.is_unreachable() => return refuse(cause.to_string()),
        // Servers that are not there yet may be set: the data plane stops at another cluster.
        _ => {}
    }
    let name = resource.resource_name.clone();
    let mut after = mirror.facts.clone();
    after.configure(settings.clone());
    let exclude = Patterns::compile(&after.exclude)
        .map_err(|bad| Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, bad.to_string()))?;
    let mut events = exclusion::stops(&name, mirror, &exclude);
    if !internal::are_followed(&after.settings) {
        events.extend(exclusion::internal_stops(&name, mirror));
    }
    if settings != mirror.facts.configured() {
        events.push(MirrorEvent::Settings { mirror: name, settings });
    }
    Ok(events)
}

/// The mirror, and its settings as they would be.
fn altered<'c>(resource: &AlterConfigsResource, catalog: &'c Catalog) -> Result<(&'c Mirror, Settings), Refusal> {
    if resource.resource_type != RESOURCE_MIRROR {
        let message = "only the settings of mirrors (resource type 64) and of mirrored topics (2) can be changed here";
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    }
    let mirror =
        catalog.mirror(&resource.resource_name).ok_or_else(|| Refusal::unknown_mirror(&resource.resource_name))?;
    let mut changed = mirror.facts.configured();
    let mut named = BTreeSet::new();
    let invalid = |bad: BadSetting| Refusal::new(ErrorCode::INVALID_CONFIG, bad.0);
    for config in &resource.configs {
        settings::known(&config.name).map_err(invalid)?;
        if !named.insert(&config.name) {
            let message = format!("`{}` is named twice", config.name);
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
        }
        apply(config, &mut changed)?;
    }
    let given = changed.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
    Ok((mirror, settings::checked(given).map_err(invalid)?))
}

fn apply(config: &AlterableConfig, settings: &mut Settings) -> Result<(), Refusal> {
    match (config.config_operation, &config.value) {
        (OPERATION_SET, Some(value)) => drop(settings.insert(config.name.clone(), value.clone())),
        (OPERATION_SET, None) | (OPERATION_DELETE, _) => drop(settings.remove(&config.name)),
        (operation @ (OPERATION_APPEND | OPERATION_SUBTRACT), value) => {
            let Some(given) = settings::entries(&config.name, value.as_deref().unwrap_or_default()) else {
                let message = format!("`{}` is no list; set it as a whole", config.name);
                return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
            };
            let old = settings.get(&config.name).and_then(|old| settings::entries(&config.name, old));
            let mut list = old.unwrap_or_default();
            if operation == OPERATION_APPEND {
                let fresh: Vec<String> = given.into_iter().filter(|entry| !list.contains(entry)).collect();
                list.extend(fresh);
            } else {
                list.retain(|entry| !given.contains(entry));
            }
            if list.is_empty() {
                settings.remove(&config.name);
            } else {
                settings.insert(config.name.clone(), list.join(","));
            }
        }
        (other, _) => {
            let message = format!("`{}`: {other} is no operation; set, delete, append and subtract are", config.name);
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
        }
    }
    Ok(())
}

/// The answer when all of the request is refused: there is no error for the whole, so every resource gets it.
#[must_use]
pub fn refused(request: &IncrementalAlterConfigsRequest, refusal: &Refusal) -> IncrementalAlterConfigsResponse {
    let one = |(resource, error_code, error_message): (&AlterConfigsResource, _, _)| AlterConfigsResourceResponse {
        error_code,
        error_message,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
    };
    let responses = each(&request.resources, refusal).map(one).collect();
    IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() }
}
