//! pure: what a survey found: the topics with their files, the source, the node that is to serve them. `preflight.rs` judges it.

use crate::handover::inherited::{Carried, carried};
use crate::handover::layout::Former;
use crate::handover::problem::Problem;
use crate::handover::quotas::Quota;
use crate::handover::segments::Segment;
use crate::handover::tail::Sample;
use crate::mirror::topic_configs::Inherited;
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinlog_proto::handover::resolve::Resolution;
use twinlog_proto::ids::Uuid;
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::storage::producer_snapshot::ProducerEntry;

/// Everything that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The mirror.
    pub mirror: String,
    /// Its source.
    pub source: Source,
    /// The selected topics, by name, and the internal ones that come along.
    pub topics: Vec<Topic>,
    /// Topics of the mirror that were not selected.
    pub left: Vec<String>,
    /// Access rules that the broker is to have.
    pub acls: Vec<AclBinding>,
    /// Quotas of clients that the broker is to have.
    pub quotas: Vec<Quota>,
    /// Whether the source ever told them.
    pub quotas_known: bool,
    /// Users of the source with a SCRAM password, which cannot come along.
    pub scram_users: Vec<String>,
    /// What becomes of open transactions and of offsets of groups; why that cannot be told otherwise.
    pub resolution: Result<Resolution, String>,
    /// The node.
    pub node: Node,
    /// The user who does it.
    pub user: u32,
    /// When it was looked at, ms since 1970.
    pub now_ms: i64,
}

/// The source as the control plane knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its cluster id, when it is known.
    pub cluster_id: Option<String>,
    /// Where it is reached.
    pub bootstrap: Option<String>,
    /// It answered just now; why not otherwise.
    pub answers: Result<(), String>,
    /// When it last answered, ms since 1970; `None` when it never did.
    pub answered_at_ms: Option<i64>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id; all-zero while it is not known.
    pub id: Uuid,
    /// What shapes its files.
    pub shape: Shape,
    /// Settings that it is to have.
    pub configs: BTreeMap<String, String>,
    /// What else holds for it at the source.
    pub inherited: BTreeMap<String, Inherited>,
    /// Who has it, when it is handed over.
    pub handed_over_to: Option<String>,
    /// Its partitions, by index.
    pub partitions: Vec<Partition>,
}

/// The settings by which segments roll and are indexed, as the source has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// `segment.bytes`.
    pub segment_bytes: i32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i32,
}

/// A partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Its index.
    pub index: i32,
    /// Its state by name.
    pub state: String,
    /// Why it failed.
    pub error: Option<String>,
    /// High watermark of the source, when it is known.
    pub source_end: Option<i64>,
    /// Our log end, as the control plane knows it.
    pub end: Option<i64>,
    /// What is on disk for sure.
    pub flushed: Option<i64>,
    /// Records that are missing here.
    pub lag: Option<i64>,
    /// Bytes that are missing here.
    pub lag_bytes: Option<i64>,
    /// Time in ms since our end last was the source's.
    pub lag_ms: Option<i64>,
    /// Where mirroring ended, with the epoch of the last batch (-1: there is none).
    pub last_mirrored: Option<(i64, i32)>,
    /// The source leader's epoch.
    pub leader_epoch: Option<i32>,
    /// The highest epoch that it had at a broker from which it was taken back; -1 for none.
    pub past_epoch: i32,
    /// Its directory; why it cannot be used otherwise.
    pub files: Result<Files, String>,
}

/// What the files of a partition say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The partition's directory.
    pub directory: PathBuf,
    /// The device of its file system.
    pub device: u64,
    /// Owner and group of the directory.
    pub owner: (u32, u32),
    /// This process may change the directory, and rename it.
    pub is_writable: bool,
    /// The topic's id by `partition.metadata`.
    pub topic_id: Option<Uuid>,
    /// First offset.
    pub start: i64,
    /// The offset after the last batch that was looked at.
    pub end: i64,
    /// Highest epoch in the epoch file; -1 for none.
    pub epoch_max: i32,
    /// Its producers at the end.
    pub producers: Vec<ProducerEntry>,
    /// Batches by which the log is known again.
    pub samples: Vec<Sample>,
    /// Its segments.
    pub segments: Vec<Segment>,
    /// The offset of the producer snapshot that was used; `None` when there was none.
    pub snapshot: Option<i64>,
    /// Bytes of all files.
    pub bytes: u64,
}

/// The node that is to serve the topics.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its server.properties; absolute.
    pub properties: PathBuf,
    /// Its id.
    pub id: i32,
    /// The cluster id of its `meta.properties`; `None` when it is not formatted.
    pub cluster_id: Option<String>,
    /// The release that it was formatted for, in words; `None` when it is not formatted.
    pub release: Option<String>,
    /// Its feature levels, or those that it is to get, have share groups.
    pub share_groups: bool,
    /// Directories of it that nobody formatted.
    pub unformatted: Vec<PathBuf>,
    /// Its log directories.
    pub log_dirs: Vec<LogDir>,
    /// The directory of its metadata log; absolute.
    pub metadata_log_dir: PathBuf,
    /// That is none of the log directories, and another process has it.
    pub is_metadata_locked: bool,
    /// What keeps it from being laid out.
    pub problems: Vec<Problem>,
    /// What it knew when it was last stopped, without a directory of any topic left: it is laid out anew. `None` when it was never started.
    pub former: Option<Former>,
    /// Where clients reach it without TLS and SASL, as HOST:PORT.
    pub plaintext: Option<String>,
    /// What holds for topics that say nothing themselves, as far as its properties tell.
    pub topic_defaults: BTreeMap<String, String>,
}

/// A log directory of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDir {
    /// Its path; absolute.
    pub path: PathBuf,
    /// The device of its file system, or of the nearest folder above that exists.
    pub device: u64,
    /// Owner and group, of the same.
    pub owner: (u32, u32),
    /// This process may change it.
    pub is_writable: bool,
    /// What is free on it, bytes.
    pub free_bytes: u64,
    /// Another process has it.
    pub is_locked: bool,
    /// It is a data directory of the mirror, or lies in one.
    pub is_data: bool,
    /// Directories that no broker can read, which keep it from starting.
    pub foreign: Vec<String>,
}

impl Topic {
    /// What the topic is given of it, as `node` has other defaults; every partition has one replica there.
    #[must_use]
    pub fn carried(&self, node: &Node) -> BTreeMap<String, Carried> {
        carried(&self.configs, &self.inherited, &node.topic_defaults, 1)
    }

    /// Partitions with their files, when they can be used.
    pub fn files(&self) -> impl Iterator<Item = (&Partition, &Files)> {
        self.partitions.iter().filter_map(|partition| Some((partition, partition.files.as_ref().ok()?)))
    }
}

impl Partition {
    /// Whether records come in, so that there is something to wait for.
    #[must_use]
    pub fn flows(&self) -> bool {
        flows(&self.state)
    }
}

/// Whether records come into a partition in this state.
#[must_use]
pub fn flows(state: &str) -> bool {
    !matches!(state, "STOPPED" | "STOPPING" | "PAUSED" | "PAUSING" | "FAILED")
}

/// The highest leader epoch of a partition that anybody may have seen; -1 when there is none.
#[must_use]
pub fn epoch_max(partition: &Partition) -> i32 {
    let mirrored = partition.files.as_ref().map_or(-1, |files| files.epoch_max);
    let last = partition.last_mirrored.map_or(-1, |(_, epoch)| epoch);
    mirrored.max(last).max(partition.leader_epoch.unwrap_or(-1)).max(partition.past_epoch)
}
