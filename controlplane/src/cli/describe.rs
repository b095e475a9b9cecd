//! What the control plane says of mirrors, as the JSON that scripts rely on, and the questions that several commands ask.

use super::sums::Sums;
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::quotas::Quota;
use serde::Serialize;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_mirrors::{
    DescribeMirrorsRequest, DescribedMirror, PartitionDetail, TopicPartitions,
};

/// One mirror of `twinlog mirrors describe --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mirror {
    /// Its name.
    pub(super) mirror: String,
    /// The source's cluster id, when it is known.
    pub(super) source_cluster_id: Option<String>,
    /// Its topics.
    pub(super) topics: Vec<Topic>,
    /// All its partitions together.
    pub(super) summary: Sums,
    /// What follows the source besides records.
    pub(super) syncs: Vec<super::sync::Sync>,
    /// What clients of the source may use at most.
    pub(super) quotas: Vec<Quota>,
    /// Users of the source with a SCRAM password.
    pub(super) scram_users: Vec<String>,
}

/// A topic of a mirror.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Topic {
    /// Its name.
    pub(super) topic: String,
    /// Its id, the same as at the source.
    pub(super) topic_id: Option<String>,
    /// The broker that has its directories now.
    pub(super) handed_over_to: Option<String>,
    /// Its partitions.
    pub(super) partitions: Vec<Partition>,
    /// All of them together.
    pub(super) summary: Sums,
}

/// A partition of a topic. `None` is "unknown".
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Partition {
    /// Its index.
    pub(super) partition: i32,
    /// Its state by name.
    pub(super) state: String,
    /// The state before a failure.
    pub(super) previous_state: Option<String>,
    /// The source leader's epoch.
    pub(super) leader_epoch: Option<i64>,
    /// The source's high watermark.
    pub(super) source_offset: Option<i64>,
    /// Our log end offset.
    pub(super) destination_offset: Option<i64>,
    /// What is durable.
    pub(super) flushed_offset: Option<i64>,
    /// Where our log starts.
    pub(super) log_start_offset: Option<i64>,
    /// Records that are missing here.
    pub(super) lag_records: Option<i64>,
    /// Bytes that are missing here.
    pub(super) lag_bytes: Option<i64>,
    /// How long ago our end last was the source's; 0 when it is.
    pub(super) lag_ms: Option<i64>,
    /// Records that open transactions hold back from transactional readers; no lag of the mirror.
    pub(super) lso_lag_records: Option<i64>,
    /// Bytes that came in a second, of late.
    pub(super) bytes_per_second: Option<i64>,
    /// How far a partition that fell behind is; `None` when it is not behind.
    pub(super) catch_up_percent: Option<f64>,
    /// When it has everything, at the rate of late.
    pub(super) eta_ms: Option<i64>,
    /// Whether it comes nearer; `None` when it is not behind, or was not measured for long enough.
    pub(super) catching_up: Option<bool>,
    /// Where mirrored data ended at the last stop.
    pub(super) last_mirrored_offset: Option<i64>,
    /// The epoch of the last mirrored batch at the last stop.
    pub(super) last_mirror_epoch: Option<i64>,
    /// Automatic retries so far; -1: a failure that is not retried.
    pub(super) retry_attempt: i16,
    /// Why it failed.
    pub(super) error_message: Option<String>,
}

/// Describes `name`, or every mirror; only `topics` when there are any.
///
/// # Errors
/// When the control plane does not answer, or does not know the mirror.
pub(super) fn ask(client: &mut Client, name: Option<&str>, topics: &[String]) -> Result<Vec<Mirror>, Failure> {
    let request = DescribeMirrorsRequest {
        mirror_names: name.map(|name| vec![name.to_owned()]),
        topic_names: topics.to_vec(),
        ..DescribeMirrorsRequest::default()
    };
    let answer = client.ask(&request)?;
    refuse(answer.error_code, answer.error_message.as_deref(), "the mirrors are not described")?;
    if let (Some(name), [mirror]) = (name, answer.mirrors.as_slice()) {
        refuse(mirror.error_code, answer.error_message.as_deref(), &format!("mirror {name} is not described"))?;
    }
    Ok(answer.mirrors.into_iter().map(Mirror::from).collect())
}

/// Turns an error code of an answer into a failure with the remedy that people know it by.
///
/// # Errors
/// When `code` is not 0.
pub(super) fn refuse(code: i16, message: Option<&str>, what: &str) -> Result<(), Failure> {
    let code = ErrorCode(code);
    if code.is_none() {
        return Ok(());
    }
    Err(match message {
        // The control plane's own words end with a remedy.
        Some(message) => Failure::told(what, format_args!("{message} ({})", code.name())),
        None => Failure::new(what, code, remedy(code)),
    })
}

/// What a person can do about an error code of the control plane.
fn remedy(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_CLUSTER_MIRROR => {
            "`twinlog mirrors list` shows the names; `twinlog mirrors create` makes one"
        }
        ErrorCode::CLUSTER_MIRROR_ALREADY_EXISTS => "choose another name, or go on with the mirror that is there",
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "check the topic's name at the source",
        ErrorCode::TOPIC_ALREADY_IN_CLUSTER_MIRROR => "stop the topic in the other mirror first",
        ErrorCode::INCONSISTENT_TOPIC_ID => "the topic was recreated; its old copy must be removed first",
        ErrorCode::INVALID_CLUSTER_MIRROR_STATES => "`twinlog mirrors describe` shows the states",
        ErrorCode::INVALID_CONFIG => "correct the setting that is named",
        ErrorCode::REQUEST_TIMED_OUT | ErrorCode::NETWORK_EXCEPTION => "check the source's address and that it runs",
        _ => "`twinlog status` shows what is wrong",
    }
}

impl From<DescribedMirror> for Mirror {
    fn from(mirror: DescribedMirror) -> Self {
        let topics: Vec<Topic> = mirror.topics.into_iter().map(Topic::from).collect();
        Self {
            mirror: mirror.mirror_name,
            source_cluster_id: mirror.source_cluster_id.filter(|id| !id.is_empty()),
            summary: Sums::of(topics.iter().flat_map(|topic| &topic.partitions)),
            topics,
            syncs: mirror.syncs.into_iter().map(super::sync::Sync::from).collect(),
            quotas: mirror.quotas.into_iter().map(Quota::from).collect(),
            scram_users: mirror.scram_users,
        }
    }
}

impl From<TopicPartitions> for Topic {
    fn from(topic: TopicPartitions) -> Self {
        let mut partitions: Vec<Partition> = topic.partitions.into_iter().map(Partition::from).collect();
        partitions.sort_by_key(|partition| partition.partition);
        Self {
            topic: topic.topic_name,
            handed_over_to: topic.handed_over_to,
            topic_id: (!topic.topic_id.is_zero()).then(|| topic.topic_id.to_string()),
            summary: Sums::of(partitions.iter()),
            partitions,
        }
    }
}

impl From<PartitionDetail> for Partition {
    fn from(detail: PartitionDetail) -> Self {
        Self {
            partition: detail.partition_index,
            state: detail.state,
            previous_state: detail.previous_state,
            leader_epoch: known(detail.leader_epoch.into()),
            source_offset: known(detail.source_offset),
            destination_offset: known(detail.destination_offset),
            flushed_offset: known(detail.flushed_offset),
            log_start_offset: known(detail.log_start_offset),
            lag_records: known(detail.lag),
            lag_bytes: known(detail.lag_bytes),
            lag_ms: known(detail.lag_ms),
            lso_lag_records: known(detail.lso_lag_records),
            bytes_per_second: known(detail.bytes_per_second),
            catch_up_percent: (detail.catch_up_per_mille >= 0).then(|| f64::from(detail.catch_up_per_mille) / 10.0),
            eta_ms: known(detail.catch_up_eta_ms),
            catching_up: match detail.catch_up_eta_ms {
                NOT_CATCHING_UP => Some(false),
                eta_ms => (eta_ms >= 0).then_some(true),
            },
            last_mirrored_offset: known(detail.last_mirror_offset),
            last_mirror_epoch: known(detail.last_mirror_epoch.into()),
            retry_attempt: detail.retry_attempt,
            error_message: detail.error_message,
        }
    }
}

/// On the wire, in the place of a time: the source is as fast as the mirror.
const NOT_CATCHING_UP: i64 = -2;

/// On the wire -1 stands for "unknown".
fn known(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}
