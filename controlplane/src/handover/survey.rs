//! Looks at everything that a hand-over needs to know: asks the control plane, reads the files. Changes nothing, and works while
//! mirroring goes on.

mod files;
pub mod resolve;

pub use files::{device_of, log_dir};

use crate::client::Client;
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::facts::{Facts, Files, Node, Partition, Shape, Source, Topic};
use crate::handover::past_epochs::{self, PastEpochs};
use crate::handover::quotas::Quota;
use crate::mirror::internal::FOLLOWED;
use crate::mirror::topic_configs::Inherited;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use twinlog_proto::assignment::{self, Assignment};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_acls::DescribeAclsRequest;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::describe_mirrors::{
    DescribeMirrorsRequest, DescribedMirror, PartitionDetail, TopicPartitions,
};
use twinlog_proto::messages::sync_mirror::SyncMirrorRequest;
use twinlog_proto::security::acl::{AclBinding, Codes};
use twinlog_proto::security::codes::CODE_ANY;

/// Resource type of a topic in requests about settings.
const RESOURCE_TOPIC: i8 = 2;
/// Where a setting comes from that was made for the topic.
const FROM_TOPIC: i8 = 1;

/// What is looked at.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The mirror.
    pub mirror: &'a str,
    /// Topics by name; none for all.
    pub topics: &'a [String],
    /// The state directory.
    pub state: &'a Path,
    /// What was found of the node.
    pub node: &'a Node,
    /// What is looked at instead of the mirror's own directories.
    pub copies: Option<&'a Copies>,
}

/// Copies of partitions that were made for a rehearsal.
#[derive(Debug, Clone)]
pub struct Copies {
    /// The mirror as it was described when they were made.
    pub described: DescribedMirror,
    /// The partitions; one that was not copied cannot be handed over.
    pub partitions: BTreeMap<(String, i32), Copied>,
}

/// A copy.
#[derive(Debug, Clone)]
pub struct Copied {
    /// The directory that it lies in.
    pub data: PathBuf,
    /// Where it ends.
    pub end: i64,
    /// The epoch of its last batch; -1 for none.
    pub last_epoch: i32,
}

/// Looks.
///
/// # Errors
/// When the control plane does not answer, does not know the mirror or a topic, or its assignment cannot be read.
pub fn survey(client: &mut Client, asked: &Asked<'_>) -> Result<Facts, Failure> {
    let answers = source_answers(client, asked.mirror)?;
    let described = match asked.copies {
        Some(copies) => copies.described.clone(),
        None => describe(client, asked.mirror, &[])?,
    };
    let assignment = read_assignment(asked.state, asked.mirror)?;
    let (chosen, left) = choose(&described.topics, asked.topics)?;
    let names: Vec<String> = chosen.iter().map(|topic| topic.topic_name.clone()).collect();
    let mut configs = topic_configs(client, &names)?;
    let directories = directories(&assignment);
    let past = past_epochs::load(asked.state, asked.mirror)?;
    let topics: Vec<Topic> = chosen
        .into_iter()
        .map(|topic| {
            let shape = shape(&assignment, &topic.topic_name);
            let (configs, inherited) = configs.remove(&topic.topic_name).unwrap_or_default();
            let looked = match asked.copies {
                Some(copies) => copied(self::topic(topic, shape, configs, &directories_of(copies), &past), copies),
                None => self::topic(topic, shape, configs, &directories, &past),
            };
            Topic { inherited, ..looked }
        })
        .collect();
    let resolution = resolve::resolve(&topics, now_ms());
    let quotas_known = Quota::known(&described);
    Ok(Facts {
        mirror: asked.mirror.to_owned(),
        source: Source {
            cluster_id: described.source_cluster_id.filter(|id| !id.is_empty()),
            bootstrap: described.source_bootstrap,
            answers,
            answered_at_ms: Some(described.source_answered_at_ms).filter(|at| *at >= 0),
        },
        topics,
        left,
        acls: acls(client, asked.mirror)?,
        quotas_known,
        quotas: described.quotas.into_iter().map(Quota::from).collect(),
        scram_users: described.scram_users,
        resolution,
        node: asked.node.clone(),
        user: rustix::process::geteuid().as_raw(),
        now_ms: now_ms(),
    })
}

/// The mirror as the control plane describes it; only `topics` when there are any.
///
/// # Errors
/// When the control plane does not answer, or does not know the mirror.
pub fn describe(client: &mut Client, mirror: &str, topics: &[String]) -> Result<DescribedMirror, Failure> {
    let request = DescribeMirrorsRequest {
        mirror_names: Some(vec![mirror.to_owned()]),
        topic_names: topics.to_vec(),
        ..DescribeMirrorsRequest::default()
    };
    let mut answer = client.ask(&request)?;
    let unknown = |code: ErrorCode| {
        let words = answer.error_message.clone().unwrap_or_else(|| "the control plane does not know it".to_owned());
        Failure::new(
            format_args!("mirror {mirror} is not described"),
            format_args!("{words} ({})", code.name()),
            "`twinlog mirrors list` shows the names",
        )
    };
    if answer.error_code != 0 {
        return Err(unknown(ErrorCode(answer.error_code)));
    }
    match answer.mirrors.pop() {
        Some(described) if described.error_code == 0 => Ok(described),
        Some(described) => Err(unknown(ErrorCode(described.error_code))),
        None => Err(unknown(ErrorCode::UNKNOWN_CLUSTER_MIRROR)),
    }
}

/// Has the control plane ask the source now.
fn source_answers(client: &mut Client, mirror: &str) -> Result<Result<(), String>, Failure> {
    let what = vec!["topics".to_owned()];
    let answer = client.ask(&SyncMirrorRequest { mirror_name: mirror.to_owned(), what, dry_run: true })?;
    let refused = |code: i16, message: Option<String>| {
        message.unwrap_or_else(|| format!("the control plane says {}", ErrorCode(code)))
    };
    if answer.error_code != 0 {
        let words = refused(answer.error_code, answer.error_message);
        return Err(Failure::told(format_args!("mirror {mirror} is not looked at"), words));
    }
    let failed = answer.kinds.into_iter().find(|kind| kind.error_code != 0);
    Ok(failed.map_or(Ok(()), |kind| Err(refused(kind.error_code, kind.error_message))))
}

/// The assignment of a mirror: it says where the files are.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn read_assignment(state: &Path, mirror: &str) -> Result<Assignment, Failure> {
    let path = state.join(assignment::FOLDER).join(assignment::file_name(mirror));
    let unusable = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("the files of mirror {mirror} are not known: {}", path.display()),
            cause,
            "run this on the host of `twinlog up`, with its --state, as a user who may read it",
        )
    };
    let bytes = std::fs::read(&path).map_err(|cause| unusable(&cause))?;
    assignment::decode(&bytes).map_err(|cause| unusable(&cause))
}

/// The topics that are handed over, and the names of the others. Internal topics come along with all of them only.
///
/// # Errors
/// When one that is wanted is not there, or none is.
pub fn choose(
    described: &[TopicPartitions],
    wanted: &[String],
) -> Result<(Vec<TopicPartitions>, Vec<String>), Failure> {
    let known: BTreeSet<&str> = described.iter().map(|topic| topic.topic_name.as_str()).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name.as_str())) {
        return Err(Failure::new(
            format_args!("topic {unknown} is not handed over"),
            "the mirror does not have it",
            "`twinlog mirrors describe` shows its topics",
        ));
    }
    let is_chosen = |topic: &&TopicPartitions| {
        wanted.is_empty() || wanted.contains(&topic.topic_name) || FOLLOWED.contains(&topic.topic_name.as_str())
    };
    let chosen: Vec<TopicPartitions> = described.iter().filter(is_chosen).cloned().collect();
    let left = described.iter().filter(|topic| !is_chosen(topic)).map(|topic| topic.topic_name.clone()).collect();
    if chosen.iter().all(|topic| FOLLOWED.contains(&topic.topic_name.as_str())) {
        return Err(Failure::new(
            "nothing is handed over",
            "the mirror has no topics",
            "`twinlog topics start MIRROR --topic T` starts some",
        ));
    }
    Ok((chosen, left))
}

pub(super) type Directories<'a> = BTreeMap<(&'a str, i32), &'a Path>;

pub(super) fn directories(assignment: &Assignment) -> Directories<'_> {
    let partitions = assignment.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
    partitions.map(|(topic, p)| ((topic.name.as_str(), p.index), Path::new(&p.data_directory))).collect()
}

fn directories_of(copies: &Copies) -> Directories<'_> {
    let partitions = copies.partitions.iter();
    partitions.map(|((topic, index), copied)| ((topic.as_str(), *index), copied.data.as_path())).collect()
}

/// Mirroring ended, as far as the copies go, where they end.
fn copied(mut topic: Topic, copies: &Copies) -> Topic {
    for partition in &mut topic.partitions {
        let copied = copies.partitions.get(&(topic.name.clone(), partition.index));
        partition.last_mirrored = copied.map(|copied| (copied.end, copied.last_epoch));
    }
    topic
}

/// What shapes the files of a topic.
pub(super) fn shape(assignment: &Assignment, name: &str) -> Shape {
    let defaults = crate::mirror::catalog::TopicSettings::default();
    let known = assignment.topics.iter().find(|topic| topic.name == name);
    Shape {
        segment_bytes: known.map_or(defaults.segment_bytes, |topic| topic.segment_bytes),
        segment_index_bytes: known.map_or(defaults.segment_index_bytes, |topic| topic.segment_index_bytes),
        index_interval_bytes: known.map_or(defaults.index_interval_bytes, |topic| topic.index_interval_bytes),
    }
}

fn topic(
    described: TopicPartitions,
    shape: Shape,
    configs: BTreeMap<String, String>,
    directories: &Directories<'_>,
    past: &PastEpochs,
) -> Topic {
    let name = described.topic_name;
    let past = past.get(&described.topic_id.to_string());
    let mut partitions: Vec<Partition> = described
        .partitions
        .into_iter()
        .map(|detail| {
            let files = match directories.get(&(name.as_str(), detail.partition_index)) {
                Some(data) => look(data, &name, &detail),
                None => Err("it has no directory yet".to_owned()),
            };
            let past = past.and_then(|past| past.get(&detail.partition_index)).copied();
            partition(detail, past.unwrap_or(-1), files)
        })
        .collect();
    partitions.sort_by_key(|partition| partition.index);
    let (id, handed_over_to) = (described.topic_id, described.handed_over_to);
    Topic { name, id, shape, configs, inherited: BTreeMap::new(), handed_over_to, partitions }
}

/// What is on disk for sure; of a stopped log all of it; the largest number there is when nobody tells.
pub(super) fn durable_end(detail: &PartitionDetail) -> i64 {
    match (known(detail.flushed_offset), known(detail.last_mirror_offset)) {
        (_, Some(last)) if detail.state == "STOPPED" => last,
        (Some(flushed), _) => flushed,
        (None, _) => i64::MAX,
    }
}

/// The files as far as they are on disk for sure.
fn look(data: &Path, topic: &str, detail: &PartitionDetail) -> Result<Files, String> {
    let files = files::look(data, topic, detail.partition_index, durable_end(detail))?;
    let start = log_start((files.start, files.end), known(detail.log_start_offset));
    Ok(Files { start, ..files })
}

/// The log start. The data plane knows it; the file that names one within a segment follows seconds later, and is all there is when the
/// data plane does not run.
fn log_start((start, end): (i64, i64), told: Option<i64>) -> i64 {
    told.map_or(start, |told| told.min(end).max(start))
}

fn partition(detail: PartitionDetail, past_epoch: i32, files: Result<Files, String>) -> Partition {
    Partition {
        index: detail.partition_index,
        state: detail.state,
        error: detail.error_message,
        source_end: known(detail.source_offset),
        end: known(detail.destination_offset),
        flushed: known(detail.flushed_offset),
        lag: known(detail.lag),
        lag_bytes: known(detail.lag_bytes),
        lag_ms: known(detail.lag_ms),
        last_mirrored: known(detail.last_mirror_offset).map(|offset| (offset, detail.last_mirror_epoch)),
        leader_epoch: (detail.leader_epoch >= 0).then_some(detail.leader_epoch),
        past_epoch,
        files,
    }
}

/// On the wire -1 stands for "unknown".
fn known(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}

/// The settings that were made for a topic, and what else holds for it at the source.
type Configs = (BTreeMap<String, String>, BTreeMap<String, Inherited>);

/// The settings that were made for the topics, at the source or here, and what else holds for them at the source.
fn topic_configs(client: &mut Client, names: &[String]) -> Result<BTreeMap<String, Configs>, Failure> {
    let resource = |name: &String| DescribeConfigsResource {
        resource_type: RESOURCE_TOPIC,
        resource_name: name.clone(),
        configuration_keys: None,
    };
    let resources = names.iter().map(resource).collect();
    let request = DescribeConfigsRequest { resources, include_synonyms: true, ..DescribeConfigsRequest::default() };
    let mut all = BTreeMap::new();
    for result in client.ask(&request)?.results {
        if result.error_code != 0 {
            let words = result.error_message.unwrap_or_else(|| ErrorCode(result.error_code).to_string());
            let what = format!("the settings of topic {} are not known", result.resource_name);
            return Err(Failure::told(what, words));
        }
        let (mut made, mut inherited) = Configs::default();
        for config in result.configs {
            // What has no synonym is not known from the source's settings.
            let (Some(value), Some(first)) = (config.value, config.synonyms.first()) else { continue };
            if config.config_source == FROM_TOPIC {
                made.insert(config.name, value);
            } else {
                inherited.insert(config.name, Inherited { value, origin: first.source });
            }
        }
        all.insert(result.resource_name, (made, inherited));
    }
    Ok(all)
}

/// The access rules for stock resources: those of the source, and those made here.
fn acls(client: &mut Client, mirror: &str) -> Result<Vec<AclBinding>, Failure> {
    let mut all = BTreeSet::new();
    for origin in [mirror, crate::mirror::acls::MADE_HERE] {
        let answer = client.ask(&DescribeAclsRequest {
            resource_type_filter: CODE_ANY,
            resource_name_filter: None,
            pattern_type_filter: CODE_ANY,
            principal_filter: None,
            host_filter: None,
            operation: CODE_ANY,
            permission_type: CODE_ANY,
            origin_mirror: origin.to_owned(),
        })?;
        if answer.error_code != 0 {
            let words = answer.error_message.unwrap_or_else(|| ErrorCode(answer.error_code).to_string());
            return Err(Failure::told("the access rules are not known", words));
        }
        for resource in answer.resources {
            for acl in resource.acls {
                let codes = Codes {
                    resource_type: resource.resource_type,
                    pattern_type: resource.pattern_type,
                    operation: acl.operation,
                    permission: acl.permission_type,
                };
                let binding = AclBinding::from_codes(codes, &resource.resource_name, &acl.principal, &acl.host);
                let unknown = |bad| Failure::new("an access rule cannot be handed over", bad, "remove it first");
                all.insert(binding.map_err(unknown)?);
            }
        }
    }
    Ok(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_start_that_no_file_names_yet_is_told_by_the_data_plane() {
        assert_eq!(log_start((10, 40), Some(15)), 15, "within the first batch");
        assert_eq!(log_start((15, 40), None), 15, "nobody tells: the file's");
        assert_eq!(log_start((15, 40), Some(10)), 15, "never back");
        assert_eq!(log_start((15, 15), Some(20)), 15, "never behind the end of what is there");
    }
}
