//! pure: the settings that the embedded source shows for its topics.

use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult,
};

use super::store::Store;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const FROM_TOPIC: i8 = 1;
const FROM_DEFAULT: i8 = 5;
const TYPE_STRING: i8 = 2;
const TYPE_INT: i8 = 3;
const TYPE_LONG: i8 = 5;
const TYPE_LIST: i8 = 7;
/// A broker's default for `max.message.bytes`.
const MESSAGE_BYTES_MAX: u32 = 1_048_588;

/// Answers DescribeConfigs: the topic's settings are a stock broker's defaults, but nothing is ever deleted.
#[must_use]
pub fn describe(store: &Store, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    let results = request.resources.iter().map(|asked| describe_resource(store, asked)).collect();
    DescribeConfigsResponse { results, ..Default::default() }
}

fn describe_resource(store: &Store, asked: &DescribeConfigsResource) -> DescribeConfigsResult {
    let mut result = DescribeConfigsResult {
        resource_type: asked.resource_type,
        resource_name: asked.resource_name.clone(),
        ..Default::default()
    };
    match asked.resource_type {
        TOPIC if store.topic_named(&asked.resource_name).is_some() => {
            let is_wanted = |name: &str| match &asked.configuration_keys {
                None => true,
                Some(keys) => keys.is_empty() || keys.iter().any(|key| key == name),
            };
            result.configs = topic_settings(store).into_iter().filter(|setting| is_wanted(&setting.name)).collect();
        }
        TOPIC => result.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
        BROKER => {}
        _ => result.error_code = ErrorCode::INVALID_REQUEST.0,
    }
    result
}

fn topic_settings(store: &Store) -> Vec<DescribeConfigsResourceResult> {
    let message_bytes_max = store.batches().shape().batch_bytes.max(MESSAGE_BYTES_MAX);
    let setting = |name: &str, value: &str, config_type: i8, config_source: i8| DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        config_source,
        config_type,
        ..Default::default()
    };
    vec![
        setting("cleanup.policy", "delete", TYPE_LIST, FROM_DEFAULT),
        setting("compression.type", "producer", TYPE_STRING, FROM_DEFAULT),
        setting("index.interval.bytes", "4096", TYPE_INT, FROM_DEFAULT),
        setting("max.compaction.lag.ms", "9223372036854775807", TYPE_LONG, FROM_DEFAULT),
        setting("max.message.bytes", &message_bytes_max.to_string(), TYPE_INT, FROM_TOPIC),
        setting("message.timestamp.type", "CreateTime", TYPE_STRING, FROM_DEFAULT),
        setting("retention.bytes", "-1", TYPE_LONG, FROM_DEFAULT),
        setting("retention.ms", "-1", TYPE_LONG, FROM_TOPIC),
        setting("segment.bytes", "1073741824", TYPE_INT, FROM_DEFAULT),
        setting("segment.index.bytes", "10485760", TYPE_INT, FROM_DEFAULT),
        setting("segment.jitter.ms", "0", TYPE_LONG, FROM_DEFAULT),
        setting("segment.ms", "604800000", TYPE_LONG, FROM_DEFAULT),
    ]
}
