//! The running broker, looked at by its answers and by its log directory. Changes nothing.

use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::handover::facts::LogDir;
use crate::handover::{locks, survey};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use twinlog_proto::messages::describe_cluster::DescribeClusterRequest;
use twinlog_proto::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use twinlog_proto::messages::describe_log_dirs::DescribeLogDirsRequest;
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use twinlog_proto::storage::kraft::METADATA_LOG;
use twinlog_proto::storage::meta_properties::MetaProperties;
use twinlog_proto::storage::names;

/// Resource type of a broker in requests about settings.
const RESOURCE_BROKER: i8 = 4;
/// The settings of the broker that matter here.
const SETTINGS: [&str; 6] = [
    "auto.create.topics.enable",
    "authorizer.class.name",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "metadata.log.dir",
    "log.dirs",
];

/// Whether the broker is the node that is meant; why not otherwise.
type IsTheNode = Result<(), String>;
/// Settings by name.
type Settings = BTreeMap<String, String>;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Where it is, as HOST:PORT.
    pub address: String,
    /// The cluster that it says it is of.
    pub cluster_id: Option<String>,
    /// What `meta.properties` of the log directory says: cluster and node; why it says nothing otherwise.
    pub meta: Result<(String, i32), String>,
    /// The log directory.
    pub log_dir: LogDir,
    /// The log directories that the broker names, with what is wrong with them.
    pub log_dirs: Vec<(PathBuf, ErrorCode)>,
    /// The broker is the node of the log directory; why not otherwise.
    pub is_the_node: Result<(), String>,
    /// The brokers of the cluster: id, address, whether it is fenced.
    pub brokers: Vec<(i32, String, bool)>,
    /// Settings of the broker.
    pub settings: BTreeMap<String, String>,
    /// The lowest version of Fetch that it answers: 4 from release 4.0 on.
    pub fetch_from: Option<i16>,
    /// Where copies can be made; why nowhere otherwise.
    pub stage_in: Result<PathBuf, String>,
}

impl Broker {
    /// The node's id by its log directory; -1 when that says nothing.
    #[must_use]
    pub fn node_id(&self) -> i32 {
        self.meta.as_ref().map_or(-1, |(_, id)| *id)
    }

    /// Whether it judges requests by access rules.
    #[must_use]
    pub fn has_authorizer(&self) -> bool {
        self.settings.get("authorizer.class.name").is_some_and(|class| !class.trim().is_empty())
    }

    /// The directory of its metadata log.
    #[must_use]
    pub fn metadata_log(&self) -> PathBuf {
        let apart = self.settings.get("metadata.log.dir").filter(|dir| !dir.is_empty()).cloned();
        let first = || Some(self.settings.get("log.dirs")?.split(',').next()?.trim().to_owned());
        apart.or_else(first).map_or_else(|| self.log_dir.path.clone(), PathBuf::from).join(METADATA_LOG)
    }
}

/// Looks at the broker at `address` and at its log directory; `data` are the data directories of the mirror, `stage` where copies are
/// wanted, `state` the state directory.
///
/// # Errors
/// When the broker does not answer, or the directory cannot be looked at.
pub fn look(
    address: &str,
    log_dir: &Path,
    data: &[PathBuf],
    stage: Option<&Path>,
    state: &Path,
) -> Result<(Client, Broker), Failure> {
    let mut client = connect(address)?;
    let meta = meta(log_dir);
    let directory = survey::log_dir(log_dir, data).map_err(|cause| {
        Failure::new(
            format_args!("{} cannot be looked at", log_dir.display()),
            cause,
            "run this as the user of the broker, or as root",
        )
    })?;
    let metadata =
        client.ask(&MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() }).map_err(unasked)?;
    let cluster =
        client.ask(&DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() }).map_err(unasked)?;
    let brokers = cluster
        .brokers
        .into_iter()
        .map(|broker| (broker.broker_id, host_port(&broker.host, broker.port), broker.is_fenced));
    let told = client.ask(&DescribeLogDirsRequest { topics: Some(Vec::new()) }).map_err(unasked)?;
    let log_dirs = told.results.into_iter().map(|dir| (PathBuf::from(dir.log_dir), ErrorCode(dir.error_code)));
    let (brokers, log_dirs) = (brokers.collect(), log_dirs.collect());
    let (is_the_node, settings) = match &meta {
        Ok((_, id)) => settings(&mut client, *id)?,
        Err(_) => (Ok(()), BTreeMap::new()),
    };
    let stage_in = stage_in(&directory, stage, state);
    let fetch_from = client.their_versions(api::FETCH).map(|(from, _)| from);
    let cluster_id = metadata.cluster_id;
    let found = Broker {
        address: address.to_owned(),
        cluster_id,
        meta,
        log_dir: directory,
        log_dirs,
        is_the_node,
        brokers,
        settings,
        fetch_from,
        stage_in,
    };
    Ok((client, found))
}

/// Connects to the broker.
///
/// # Errors
/// When nobody answers there.
pub fn connect(address: &str) -> Result<Client, Failure> {
    Client::connect(address).map_err(unasked)
}

/// A broker that does not answer.
pub fn unasked(cause: ClientError) -> Failure {
    Failure::new(
        "the broker cannot be asked",
        cause,
        "give --adopt the address of a PLAINTEXT listener of a broker that runs, then run the same command again",
    )
}

/// As clients write an address.
pub fn host_port(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Cluster and node of a log directory.
fn meta(log_dir: &Path) -> Result<(String, i32), String> {
    let path = log_dir.join(names::META_PROPERTIES);
    let wrong = |cause: &dyn std::fmt::Display| format!("{}: {cause}", path.display());
    let bytes = fs::read(&path).map_err(|cause| wrong(&cause))?;
    let meta = MetaProperties::parse(&bytes).map_err(|cause| wrong(&cause))?;
    Ok((meta.cluster_id, meta.node_id))
}

/// Asks the broker for settings of the node; a broker refuses those of another one.
fn settings(client: &mut Client, id: i32) -> Result<(IsTheNode, Settings), Failure> {
    let resource = DescribeConfigsResource {
        resource_type: RESOURCE_BROKER,
        resource_name: id.to_string(),
        configuration_keys: Some(SETTINGS.map(str::to_owned).to_vec()),
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    let answer = client.ask(&request).map_err(unasked)?;
    let Some(result) = answer.results.into_iter().next() else {
        return Ok((Err("it does not say which node it is".to_owned()), BTreeMap::new()));
    };
    if result.error_code != 0 {
        let words = result.error_message.unwrap_or_else(|| ErrorCode(result.error_code).to_string());
        return Ok((Err(words), BTreeMap::new()));
    }
    let settings = result.configs.into_iter().filter_map(|config| Some((config.name, config.value?)));
    Ok((Ok(()), settings.collect()))
}

/// A folder on the file system of the log directory that is no log directory itself, for a broker starts on none with other folders in it.
fn stage_in(log_dir: &LogDir, wanted: Option<&Path>, state: &Path) -> Result<PathBuf, String> {
    let parent = log_dir.path.parent().map(Path::to_owned);
    let candidates: Vec<PathBuf> = match wanted {
        Some(wanted) => vec![wanted.to_owned()],
        None => parent.into_iter().chain([state.to_owned()]).collect(),
    };
    let mut why = String::new();
    for folder in candidates {
        let is_log_dir = folder.join(names::META_PROPERTIES).exists();
        let is_writable =
            rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
        let reason = match survey::device_of(&folder) {
            Ok(device) if device != log_dir.device => "it is on another file system",
            Err(_) => "it cannot be looked at",
            Ok(_) if is_log_dir => "it is a log directory itself",
            Ok(_) if !is_writable => "it cannot be written by this user",
            Ok(_) => return Ok(folder),
        };
        why.push_str(&format!("{}{}: {reason}", if why.is_empty() { "" } else { "; " }, folder.display()));
    }
    Err(why)
}

/// Which of these topics the cluster has.
///
/// # Errors
/// When the broker does not answer.
pub fn existing(client: &mut Client, topics: &[String]) -> Result<Vec<String>, Failure> {
    let wanted = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(topics.iter().map(wanted).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let answer = client.ask(&request).map_err(unasked)?;
    let known =
        answer.topics.into_iter().filter(|topic| ErrorCode(topic.error_code) != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    Ok(known.filter_map(|topic| topic.name).collect())
}

/// Directories in the log directory that belong or belonged to topics of these names.
///
/// # Errors
/// When it cannot be read.
pub fn leftovers(log_dir: &Path, topics: &[String]) -> Result<Vec<String>, Failure> {
    let unread = |cause| {
        Failure::new(
            format_args!("{} cannot be read", log_dir.display()),
            cause,
            "run this as the broker's user, or as root",
        )
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(log_dir).map_err(unread)? {
        let name = entry.map_err(unread)?.file_name().to_string_lossy().into_owned();
        // Names with a suffix are cut short.
        let is_of = |dir: &names::PartitionDir<'_>| {
            topics.iter().any(|topic| {
                topic == dir.topic
                    || (dir.dir_use != names::DirUse::Live && topic.starts_with(dir.topic) && dir.topic.len() > 180)
            })
        };
        if names::parse_partition_dir(&name).as_ref().is_some_and(is_of) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// What makes a topic whose partitions all are on node `id`.
#[must_use]
pub fn creatable(name: &str, partitions: i32, configs: &BTreeMap<String, String>, id: i32) -> CreatableTopic {
    let assignment = |partition_index| CreatableReplicaAssignment { partition_index, broker_ids: vec![id] };
    let config =
        |(name, value): (&String, &String)| CreatableTopicConfig { name: name.clone(), value: Some(value.clone()) };
    CreatableTopic {
        name: name.to_owned(),
        assignments: (0..partitions).map(assignment).collect(),
        configs: configs.iter().map(config).collect(),
        ..CreatableTopic::default()
    }
}

/// Has the cluster judge topics without making them; gives what it says against each.
///
/// # Errors
/// When the broker does not answer.
pub fn judged(client: &mut Client, topics: Vec<CreatableTopic>) -> Result<Vec<(String, ErrorCode, String)>, Failure> {
    let answer =
        client.ask(&CreateTopicsRequest { topics, validate_only: true, ..Default::default() }).map_err(unasked)?;
    let refused = answer.topics.into_iter().filter(|topic| topic.error_code != 0);
    Ok(refused
        .map(|topic| {
            let code = ErrorCode(topic.error_code);
            (topic.name, code, topic.error_message.unwrap_or_else(|| code.to_string()))
        })
        .collect())
}

/// Whether a broker still runs on the log directory.
#[must_use]
pub fn is_alive(log_dir: &Path) -> bool {
    locks::is_taken(log_dir)
}
