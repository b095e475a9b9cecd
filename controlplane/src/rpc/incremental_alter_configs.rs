//! pure: IncrementalAlterConfigs: the settings of a mirror. What a setting may be is checked as at its creation; that new
//! servers are still the same cluster is checked by the data plane, which stops at another one.

use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::settings::{self, Settings};
use crate::rpc::{Refusal, Refused, topic_configs};
use std::collections::BTreeSet;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

const RESOURCE_MIRROR: i8 = 64;
const OPERATION_SET: i8 = 0;
const OPERATION_DELETE: i8 = 1;
const OPERATION_APPEND: i8 = 2;
const OPERATION_SUBTRACT: i8 = 3;

/// Decides.
#[must_use]
pub fn decide(
    request: &IncrementalAlterConfigsRequest,
    catalog: &Catalog,
) -> (Vec<MirrorEvent>, IncrementalAlterConfigsResponse) {
    let (mut events, mut responses) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for resource in &request.resources {
        let outcome = if seen.insert((resource.resource_type, &resource.resource_name)) {
            match resource.resource_type {
                topic_configs::RESOURCE_TOPIC => topic_configs::altered(resource, catalog),
                _ => one(resource, catalog).map(|settings| {
                    let mirror = resource.resource_name.clone();
                    MirrorEvent::Settings { mirror, settings }
                }),
            }
        } else {
            Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("{} is named twice", resource.resource_name)))
        };
        let refusal = match outcome {
            Ok(changed) => {
                events.extend((!request.validate_only).then_some(changed));
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

fn one(resource: &AlterConfigsResource, catalog: &Catalog) -> Result<Settings, Refusal> {
    if resource.resource_type != RESOURCE_MIRROR {
        let message = "only the settings of mirrors (resource type 64) and of mirrored topics (2) can be changed here";
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    }
    let mirror =
        catalog.mirror(&resource.resource_name).ok_or_else(|| Refusal::unknown_mirror(&resource.resource_name))?;
    let mut changed = mirror.facts.settings.clone();
    let mut named = BTreeSet::new();
    for config in &resource.configs {
        if !named.insert(config.name.as_str()) {
            return Err(Refusal::new(ErrorCode::INVALID_REQUEST, format!("`{}` is named twice", config.name)));
        }
        // What is not set can be deleted, what does not exist cannot.
        settings::known(&config.name).map_err(|bad| Refusal::new(ErrorCode::INVALID_CONFIG, bad.0))?;
        match (config.config_operation, &config.value) {
            (OPERATION_SET, Some(value)) => drop(changed.insert(config.name.clone(), value.clone())),
            (OPERATION_SET, None) | (OPERATION_DELETE, _) => drop(changed.remove(&config.name)),
            (OPERATION_APPEND | OPERATION_SUBTRACT, _) => {
                let message = format!("`{}` is no list to append to or to take from; set it as a whole", config.name);
                return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
            }
            (unknown, _) => {
                let message = format!("`{}`: {unknown} stands for no operation", config.name);
                return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
            }
        }
    }
    let given = changed.iter().map(|(name, value)| (name.as_str(), Some(value.as_str())));
    settings::checked(given).map_err(|bad| Refusal::new(ErrorCode::INVALID_CONFIG, bad.0))
}

/// There is no error for the whole: every resource gets it.
impl Refused for IncrementalAlterConfigsResponse {
    fn refused(refusal: Refusal) -> Self {
        let response = AlterConfigsResourceResponse {
            error_code: refusal.code.0,
            error_message: Some(refusal.message),
            resource_type: RESOURCE_MIRROR,
            ..AlterConfigsResourceResponse::default()
        };
        Self { responses: vec![response], ..Self::default() }
    }
}
