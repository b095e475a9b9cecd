//! pure: the records that a node's metadata begins with: those of its format, or the levels of a release, and then ours.
//!
//! A partition is led by the node, which is its one replica in sync; its epoch is above all that was mirrored. Producer ids come first: by
//! them our records are told from those of the format (`layout.rs`).

use crate::handover::layout::{Bootstrap, Layout};
use crate::handover::node::Node;
use crate::handover::problem::Problem;
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinlog_proto::error::EncodeError;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::kraft_records::{
    AccessControlEntryRecord, ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, PartitionRecord, ProducerIdsRecord,
    TopicRecord, UserScramCredentialRecord,
};
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::storage::kraft::records::{MetadataRecord, partition_version};
use twinlog_proto::storage::kraft::snapshot::Snapshot;

/// Resource type of a topic.
const TOPIC: i8 = 2;
/// No broker.
const NONE: i32 = -1;

/// What the node is to know.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Identity {
    /// The first producer id that it may give out: above all that the source ever gave.
    pub next_producer_id: i64,
    /// Topics, the internal ones included.
    pub topics: Vec<IdentityTopic>,
    /// Access rules.
    pub acls: Vec<AclBinding>,
    /// Quotas.
    pub quotas: Vec<ClientQuotaRecord>,
    /// What passwords are checked by.
    pub scram: Vec<UserScramCredentialRecord>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityTopic {
    /// Its name.
    pub name: String,
    /// Its id at the source.
    pub id: Uuid,
    /// Settings that were made for it.
    pub configs: BTreeMap<String, String>,
    /// All of its partitions.
    pub partitions: Vec<IdentityPartition>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityPartition {
    /// Its index.
    pub index: i32,
    /// Epoch of its leader; the node adds to it when it starts.
    pub leader_epoch: i32,
    /// The log directory of the node in which it lies.
    pub directory: PathBuf,
}

/// The file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapFile {
    /// Where.
    pub path: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
    /// Data records in it: the node says so many when it starts ("Appending N bootstrap record(s)").
    pub records: usize,
    /// What `kafka-storage format` wrote there; none when the tool was not used.
    pub formatted: Option<Vec<u8>>,
}

/// Decides the file. `new_id` gives ids for access rules, `now_ms` is the time of the records.
///
/// # Errors
/// When the layout has a problem or is not formatted, a partition lies in no log directory of the node, or a text is too long.
pub fn build(
    node: &Node,
    layout: &Layout,
    identity: &Identity,
    now_ms: i64,
    new_id: impl FnMut() -> Uuid,
) -> Result<BootstrapFile, Problem> {
    if let Some(problem) = layout.problems.first() {
        return Err(problem.clone());
    }
    let Some(bootstrap) = &layout.bootstrap else {
        return Err(Problem::new(
            node.properties.display(),
            "nothing is known of its metadata",
            "look at the node again",
        ));
    };
    let mut snapshot = bootstrap.formatted.clone().unwrap_or_else(|| Snapshot::empty(now_ms));
    let formatted = bootstrap.formatted.as_ref().map(Snapshot::write);
    let version = partition_version(bootstrap.level);
    for record in records(node, layout, bootstrap, identity, new_id)? {
        snapshot.push(now_ms, record.encode(version).map_err(|cause| unspeakable(&record, &cause))?);
    }
    let path = bootstrap.file.clone();
    Ok(BootstrapFile { path, bytes: snapshot.write(), records: snapshot.len(), formatted })
}

/// What comes behind the records of the format.
fn records(
    node: &Node,
    layout: &Layout,
    bootstrap: &Bootstrap,
    identity: &Identity,
    mut new_id: impl FnMut() -> Uuid,
) -> Result<Vec<MetadataRecord>, Problem> {
    let mut out = Vec::new();
    if bootstrap.formatted.is_none() {
        out.extend(bootstrap.release.levels().iter().map(|(name, level)| {
            MetadataRecord::FeatureLevel(FeatureLevelRecord { name: (*name).to_owned(), feature_level: *level })
        }));
    }
    let next_producer_id = identity.next_producer_id;
    out.push(MetadataRecord::ProducerIds(ProducerIdsRecord { broker_id: NONE, broker_epoch: -1, next_producer_id }));
    for topic in &identity.topics {
        out.push(MetadataRecord::Topic(TopicRecord { name: topic.name.clone(), topic_id: topic.id }));
        out.extend(topic.configs.iter().map(|(name, value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type: TOPIC,
                resource_name: topic.name.clone(),
                name: name.clone(),
                value: Some(value.clone()),
            })
        }));
        for partition in &topic.partitions {
            out.push(MetadataRecord::Partition(partition_record(node, layout, topic, partition)?));
        }
    }
    out.extend(identity.quotas.iter().cloned().map(MetadataRecord::ClientQuota));
    // A controller does not start with the same rule twice.
    let known: Vec<_> = bootstrap.formatted.iter().flat_map(known_acls).collect();
    let fresh = identity.acls.iter().map(|acl| acl_record(acl, Uuid::ZERO)).filter(|acl| !known.contains(acl));
    out.extend(fresh.map(|acl| MetadataRecord::AccessControlEntry(AccessControlEntryRecord { id: new_id(), ..acl })));
    out.extend(identity.scram.iter().cloned().map(MetadataRecord::UserScramCredential));
    Ok(out)
}

/// The rules that a node has already, without their ids.
fn known_acls(formatted: &Snapshot) -> impl Iterator<Item = AccessControlEntryRecord> {
    formatted.values().filter_map(|value| match MetadataRecord::decode(value) {
        Ok(MetadataRecord::AccessControlEntry(acl)) => Some(AccessControlEntryRecord { id: Uuid::ZERO, ..acl }),
        _ => None,
    })
}

fn partition_record(
    node: &Node,
    layout: &Layout,
    topic: &IdentityTopic,
    partition: &IdentityPartition,
) -> Result<PartitionRecord, Problem> {
    let what = format!("partition {}-{}", topic.name, partition.index);
    let directory = &partition.directory;
    if !node.log_dirs.contains(directory) {
        let why = format_args!("it lies in {}, no log directory of the node", directory.display());
        return Err(Problem::new(what, why, "move it into one of log.dirs"));
    }
    let Some(id) = layout.directory_id(directory) else {
        let why = format_args!("{} has no meta.properties yet", directory.display());
        return Err(Problem::new(what, why, "format the directory first"));
    };
    Ok(PartitionRecord {
        partition_id: partition.index,
        topic_id: topic.id,
        replicas: vec![node.id],
        isr: vec![node.id],
        leader: node.id,
        leader_epoch: partition.leader_epoch,
        partition_epoch: 0,
        directories: vec![id],
        ..PartitionRecord::default()
    })
}

fn acl_record(acl: &AclBinding, id: Uuid) -> AccessControlEntryRecord {
    let codes = acl.codes();
    AccessControlEntryRecord {
        id,
        resource_type: codes.resource_type,
        resource_name: acl.resource_name.clone(),
        pattern_type: codes.pattern_type,
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: codes.operation,
        permission_type: codes.permission,
    }
}

fn unspeakable(record: &MetadataRecord, cause: &EncodeError) -> Problem {
    let what = match record {
        MetadataRecord::Config(config) => format!("setting {} of topic {}", config.name, config.resource_name),
        MetadataRecord::AccessControlEntry(acl) => format!("access rule of {} on {}", acl.principal, acl.resource_name),
        MetadataRecord::Topic(topic) => format!("topic {}", topic.name),
        _ => "a record of the metadata".to_owned(),
    };
    Problem::new(what, cause, "shorten it at the source")
}
