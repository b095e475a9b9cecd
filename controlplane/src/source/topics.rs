//! What a source says about itself and its topics.

use crate::limits::{CLUSTER_ID_BYTES_MAX, SOURCE_ASK, TOPIC_PARTITIONS_MAX};
use crate::mirror::catalog::TopicSettings;
use crate::mirror::event::SourceTopic;
use crate::mirror::internal::FOLLOWED;
use crate::mirror::loops::Trail;
use crate::mirror::patterns::Patterns;
use crate::source::SourceError;
use crate::source::connection::Connection;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::timeout;
use tracing::warn;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::is_legal_name;
use twinlog_proto::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic,
};

/// Resource type of a topic in config requests.
const RESOURCE_TOPIC: i8 = 2;
/// Topics in one question for settings.
const TOPICS_PER_QUESTION: usize = 500;
const SETTING_NAMES: [&str; 7] = [
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    "cleanup.policy",
    "max.compaction.lag.ms",
];

/// Which topics are asked for.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// These, and every topic that matches.
    Matching {
        /// By name.
        names: Vec<String>,
        /// By pattern.
        include: Patterns,
    },
    /// These.
    Named(Vec<String>),
}

/// What the source said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Its cluster id.
    pub cluster_id: String,
    /// Each topic, or why it is not described.
    pub topics: BTreeMap<String, Result<SourceTopic, ErrorCode>>,
    /// Whether the cluster may have mirrors itself.
    pub has_mirrors: bool,
    /// Where its topics come from in turn; looked for by `trail.rs`.
    pub trail: Trail,
    /// Topics that it has neither by name nor in its list; only when it was asked thoroughly.
    pub absent: BTreeSet<String>,
}

/// Asks for the cluster id.
///
/// # Errors
/// See [`SourceError`]; within the time limit of a question.
pub async fn cluster_id(servers: &[String]) -> Result<String, SourceError> {
    ask(servers, &Wanted::Named(Vec::new())).await.map(|answer| answer.cluster_id)
}

/// Asks for the cluster id and topics.
///
/// # Errors
/// See [`SourceError`]; within the time limit of a question.
pub async fn ask(servers: &[String], wanted: &Wanted) -> Result<Answer, SourceError> {
    within(servers, SOURCE_ASK, async { Ok(ask_unbounded(servers, wanted).await?.1) }).await
}

/// As [`ask`], and of topics that seem to be missing a second time in another way, for what one broker knows may be old.
///
/// # Errors
/// As [`ask`].
pub async fn ask_thoroughly(servers: &[String], wanted: &Wanted) -> Result<Answer, SourceError> {
    within(servers, SOURCE_ASK, async {
        let (mut connection, mut answer) = ask_unbounded(servers, wanted).await?;
        let there = |answer: &Answer, name: &String| match answer.topics.get(name) {
            None | Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)) => false,
            Some(Ok(_) | Err(_)) => true,
        };
        let (Wanted::Matching { names, .. } | Wanted::Named(names)) = wanted;
        // Most sources lack one of the internal topics, and none loses it.
        let names = names.iter().filter(|name| !FOLLOWED.contains(&name.as_str()));
        let lacking: Vec<String> = names.filter(|name| !there(&answer, name)).cloned().collect();
        if !lacking.is_empty() {
            let asked = if matches!(wanted, Wanted::Named(_)) { None } else { Some(lacking.as_slice()) };
            let metadata = metadata(&mut connection, asked).await?;
            let has: BTreeMap<String, ErrorCode> = metadata
                .topics
                .into_iter()
                .filter_map(|topic| Some((topic.name?, ErrorCode(topic.error_code))))
                .collect();
            let unknown = |code: &ErrorCode| *code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            answer.absent = lacking.into_iter().filter(|name| has.get(name).is_none_or(unknown)).collect();
        }
        Ok(answer)
    })
    .await
}

async fn within<T>(
    servers: &[String],
    limit: Duration,
    asking: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    timeout(limit, asking).await.unwrap_or_else(|_elapsed| {
        Err(SourceError::Unreachable(format!("{} did not answer within {limit:?}", servers.join(", "))))
    })
}

/// Describes these topics, or all.
async fn metadata(connection: &mut Connection, names: Option<&[String]>) -> Result<MetadataResponse, SourceError> {
    let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: names.map(|names| names.iter().map(named).collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let metadata: MetadataResponse = connection.ask(&request).await?;
    if metadata.error_code != 0 {
        return Err(SourceError::Refused { what: "to describe itself", code: ErrorCode(metadata.error_code) });
    }
    Ok(metadata)
}

async fn ask_unbounded(servers: &[String], wanted: &Wanted) -> Result<(Connection, Answer), SourceError> {
    let mut connection = Connection::open(servers).await?;
    let names = match wanted {
        Wanted::Matching { .. } => None,
        Wanted::Named(names) => Some(names.as_slice()),
    };
    let metadata = metadata(&mut connection, names).await?;
    let Some(cluster_id) = metadata.cluster_id.filter(|id| !id.is_empty()) else {
        return Err(SourceError::Unsupported(
            "it has no cluster id; a Kafka release since 0.10.1 is needed".to_owned(),
        ));
    };
    if cluster_id.len() > CLUSTER_ID_BYTES_MAX || !cluster_id.bytes().all(|byte| byte.is_ascii_graphic()) {
        // It is kept, shown on terminals and compared for ever.
        let why = format!("its cluster id is not 1 to {CLUSTER_ID_BYTES_MAX} printable characters without spaces");
        return Err(SourceError::Unsupported(why));
    }
    let mut topics: BTreeMap<String, Result<SourceTopic, ErrorCode>> =
        metadata.topics.into_iter().filter_map(described).collect();
    if let Wanted::Matching { names, include } = wanted {
        let names: BTreeSet<&String> = names.iter().collect();
        topics.retain(|name, _| names.contains(name) || include.matches(name));
    }
    learn_settings(&mut connection, &mut topics).await?;
    let has_mirrors = connection.has_mirrors();
    Ok((connection, Answer { cluster_id, topics, has_mirrors, ..Answer::default() }))
}

fn described(topic: MetadataResponseTopic) -> Option<(String, Result<SourceTopic, ErrorCode>)> {
    let name = topic.name?;
    let code = ErrorCode(topic.error_code);
    let partition_count = topic.partitions.len();
    // Partitions are numbered from 0 without a hole; anything else is not the whole topic.
    let mut seen: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition_index).collect();
    seen.sort_unstable();
    let whole = seen.iter().copied().eq(0..partition_count as i32);
    let described = if !code.is_none() {
        Err(code)
    } else if !is_legal_name(&name) || !whole || partition_count == 0 || partition_count > TOPIC_PARTITIONS_MAX {
        Err(ErrorCode::INVALID_TOPIC_EXCEPTION)
    } else if topic.topic_id.is_zero() {
        Err(ErrorCode::UNSUPPORTED_VERSION)
    } else {
        Ok(SourceTopic {
            name: name.clone(),
            id: topic.topic_id,
            partition_count: partition_count as i32,
            settings: TopicSettings::default(),
            internal: topic.is_internal,
        })
    };
    Some((name, described))
}

async fn learn_settings(
    connection: &mut Connection,
    topics: &mut BTreeMap<String, Result<SourceTopic, ErrorCode>>,
) -> Result<(), SourceError> {
    if connection.version_of::<DescribeConfigsRequest>().is_none() {
        warn!("the source does not tell topic settings; a stock broker's defaults are taken");
        return Ok(());
    }
    let names: Vec<String> = topics.iter().filter(|(_, topic)| topic.is_ok()).map(|(name, _)| name.clone()).collect();
    for names in names.chunks(TOPICS_PER_QUESTION) {
        let resource = |name: &String| DescribeConfigsResource {
            resource_type: RESOURCE_TOPIC,
            resource_name: name.clone(),
            configuration_keys: Some(SETTING_NAMES.map(str::to_owned).to_vec()),
        };
        let resources = names.iter().map(resource).collect();
        let request = DescribeConfigsRequest { resources, ..DescribeConfigsRequest::default() };
        for result in connection.ask(&request).await?.results {
            let Some(topic) = topics.get_mut(&result.resource_name) else { continue };
            match (ErrorCode(result.error_code), topic.as_mut()) {
                (ErrorCode::NONE, Ok(known)) => known.settings = settings_from(&result.configs),
                (code, Ok(_)) => *topic = Err(code),
                (_, Err(_)) => {}
            }
        }
    }
    Ok(())
}

fn settings_from(configs: &[DescribeConfigsResourceResult]) -> TopicSettings {
    let mut settings = TopicSettings::default();
    for config in configs {
        let Some(value) = config.value.as_deref() else { continue };
        // What no broker has is not believed, for the files are cut by it.
        let least = if config.name == "segment.jitter.ms" { 0 } else { 1 };
        let number = value.parse::<i64>().ok().filter(|number| *number >= least);
        let small = number.and_then(|number| i32::try_from(number).ok());
        match config.name.as_str() {
            "segment.bytes" => settings.segment_bytes = small.unwrap_or(settings.segment_bytes),
            "segment.ms" => settings.segment_ms = number.unwrap_or(settings.segment_ms),
            "segment.jitter.ms" => settings.segment_jitter_ms = number.unwrap_or(settings.segment_jitter_ms),
            "segment.index.bytes" => settings.segment_index_bytes = small.unwrap_or(settings.segment_index_bytes),
            "index.interval.bytes" => settings.index_interval_bytes = small.unwrap_or(settings.index_interval_bytes),
            "cleanup.policy" => settings.compacted = value.split(',').any(|policy| policy.trim() == "compact"),
            "max.compaction.lag.ms" => {
                settings.max_compaction_lag_ms = number.unwrap_or(settings.max_compaction_lag_ms);
            }
            _ => {}
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_no_broker_has_are_not_believed() {
        let config = |(name, value): (&str, &str)| DescribeConfigsResourceResult {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..DescribeConfigsResourceResult::default()
        };
        let odd =
            [("segment.bytes", "-1"), ("segment.ms", "0"), ("segment.index.bytes", "0"), ("segment.jitter.ms", "-5")];
        assert_eq!(settings_from(&odd.map(config)), TopicSettings::default());
        let fine = settings_from(&[("segment.bytes", "14"), ("segment.jitter.ms", "0")].map(config));
        assert_eq!((fine.segment_bytes, fine.segment_jitter_ms), (14, 0));
    }
}
