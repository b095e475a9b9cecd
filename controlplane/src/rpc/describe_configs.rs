//! pure: DescribeConfigs: the settings of mirrors, of mirrored topics what is known of them, and of this node what stock tools ask.

use crate::mirror::catalog::{Catalog, MirrorFacts};
use crate::mirror::settings::{self, EXCLUDE, INCLUDE, INTERNAL_TOPICS};
use crate::rpc::node_configs::{self, RESOURCE_BROKER};
use crate::rpc::{Endpoint, Refusal, once, topic_configs};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult,
};

const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_MIRROR: i8 = 64;
/// Config source codes: set on the topic; set on the mirror is told the same way.
const SOURCE_RESOURCE: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;
const DEFAULTS: [(&str, &str); 3] = [(EXCLUDE, ""), (INCLUDE, ""), (INTERNAL_TOPICS, "standby")];

/// The answer.
#[must_use]
pub fn handle(request: &DescribeConfigsRequest, catalog: &Catalog, us: &Endpoint) -> DescribeConfigsResponse {
    let key = |r: &'_ DescribeConfigsResource| (r.resource_type, r.resource_name.clone(), r.configuration_keys.clone());
    let results = once(&request.resources, key).map(|resource| one(resource, request, catalog, us)).collect();
    DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() }
}

fn one(
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
    catalog: &Catalog,
    us: &Endpoint,
) -> DescribeConfigsResult {
    let name = resource.resource_name.as_str();
    let found = match resource.resource_type {
        RESOURCE_MIRROR => match catalog.mirror(name) {
            Some(mirror) => Ok(mirror_configs(&mirror.facts)),
            None => Err(Refusal::unknown_mirror(name)),
        },
        RESOURCE_TOPIC => match catalog.owner_of(name) {
            Some((_, topic)) => {
                Ok(topic_configs::described(topic, request.include_synonyms, request.include_documentation))
            }
            None => Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("no mirror has a topic {name}"))),
        },
        RESOURCE_BROKER => node_configs::described(name, us),
        other => {
            let message = format!("resources of type {other} have no settings here");
            Err(Refusal::new(ErrorCode::INVALID_REQUEST, message))
        }
    };
    let (code, message, configs) = match found {
        Ok(configs) => (ErrorCode::NONE, None, configs),
        Err(Refusal { code, message }) => (code, Some(message), Vec::new()),
    };
    let wanted = |config: &DescribeConfigsResourceResult| {
        resource.configuration_keys.as_ref().is_none_or(|keys| keys.is_empty() || keys.contains(&config.name))
    };
    DescribeConfigsResult {
        error_code: code.0,
        error_message: message,
        resource_type: resource.resource_type,
        resource_name: name.to_owned(),
        configs: configs.into_iter().filter(wanted).collect(),
    }
}

/// What is set, and of what is not set the defaults that people look for.
fn mirror_configs(facts: &MirrorFacts) -> Vec<DescribeConfigsResourceResult> {
    let set = facts.configured();
    let absent = DEFAULTS.iter().filter(|(key, _)| !set.contains_key(*key));
    let mut configs: Vec<DescribeConfigsResourceResult> =
        absent.map(|(key, value)| mirror_config(key, value, SOURCE_DEFAULT)).collect();
    configs.extend(set.iter().map(|(key, value)| mirror_config(key, value, SOURCE_RESOURCE)));
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    configs
}

fn mirror_config(key: &str, value: &str, config_source: i8) -> DescribeConfigsResourceResult {
    let secret = settings::is_secret(key);
    DescribeConfigsResourceResult {
        name: key.to_owned(),
        value: (!secret).then(|| value.to_owned()),
        is_sensitive: secret,
        config_source,
        ..DescribeConfigsResourceResult::default()
    }
}
