//! pure: mirrors, topics and partitions, built by replaying records and by nothing else.
//!
//! Every change is a `StateRecord` that went through the state log first; `apply` is the only way to change the catalog,
//! so that replay after a restart gives the same one. A clone shares everything that it does not change.

mod apply;
mod records;

use crate::mirror::acls::{Acls, MADE_HERE};
use crate::mirror::group_offsets::{self, ByGroup, ByPartition};
use crate::mirror::quotas::Quotas;
use crate::mirror::settings::Settings;
use crate::mirror::topic_configs::TopicConfigs;
use crate::statelog::batch::KeyValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use twinlog_proto::ids::Uuid;
use twinlog_proto::mirror_state::MirrorState;
use twinlog_proto::security::acl::AclBinding;

/// Everything that the state log says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    mirrors: BTreeMap<String, Arc<Mirror>>,
    acls: Arc<Acls>,
    /// Records of types that this version does not know, by key: kept, not refused.
    foreign: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// One mirror.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// What was configured and learnt.
    pub facts: MirrorFacts,
    /// Its topics by name.
    pub topics: BTreeMap<String, Arc<Topic>>,
    /// Access rules that we gave to a running destination, with its cluster id, empty when that is not known.
    pub given_acls: Arc<BTreeMap<AclBinding, String>>,
    /// Offsets of groups that we wrote there.
    pub group_offsets: Arc<ByGroup>,
    /// The quotas of the source's clients.
    pub quotas: Arc<Quotas>,
}

/// What a record of type 101 says about a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MirrorFacts {
    /// The source's cluster id, learnt when the mirror was created.
    pub source_cluster_id: String,
    /// Settings by key.
    pub settings: Settings,
    /// Patterns of topics that start by themselves.
    pub include: Vec<String>,
    /// Patterns of topics that never start by themselves.
    pub exclude: Vec<String>,
    /// The version of the newest assignment; never lower than one that a deleted mirror of this name had.
    pub assignment_version: i64,
    /// The running destination to which settings and offsets are remembered as given; empty while it is not known.
    pub destination_cluster_id: String,
}

/// One topic of a mirror.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// What was asked for and learnt.
    pub facts: TopicFacts,
    /// The settings that it is to have; `None` while the source has not told any.
    pub configs: Option<TopicConfigs>,
    /// The broker that has its directories now.
    pub handed_over: Option<String>,
    /// Its partitions by index.
    pub partitions: BTreeMap<i32, Partition>,
}

/// What a record of type 102 says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFacts {
    /// The source's id; all-zero while it is not known.
    pub id: Uuid,
    /// What a person wants.
    pub desired: Desired,
    /// Partitions at the source; 0 while it is not known.
    pub partition_count: i32,
    /// The source's settings that shape the files.
    pub settings: TopicSettings,
}

/// What a person wants of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desired {
    /// Records flow.
    Mirror,
    /// Records wait, the topic stays read-only.
    Pause,
    /// The topic is on its own.
    Stop,
}

/// The topic settings that shape the files, as the source has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSettings {
    /// `segment.bytes`.
    pub segment_bytes: i32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.jitter.ms`.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i32,
    /// `cleanup.policy` contains `compact`.
    pub compacted: bool,
    /// `max.compaction.lag.ms`.
    pub max_compaction_lag_ms: i64,
}

impl Default for TopicSettings {
    /// A stock broker's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            compacted: false,
            max_compaction_lag_ms: i64::MAX,
        }
    }
}

/// One partition of a mirrored topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Its state.
    pub standing: Standing,
    /// Where it lives; `None` while the source could not be asked.
    pub placement: Option<Placement>,
    /// Where mirroring ended the last time.
    pub last_mirrored: Option<LastMirrored>,
}

/// What a record of type 2 says about a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The state; EPOCH_FENCING is never recorded.
    pub state: MirrorState,
    /// The state before FAILED; UNKNOWN otherwise.
    pub previous: MirrorState,
    /// Failures in a row; -1 = it is not tried again by itself.
    pub retry_attempt: i16,
    /// Why it failed.
    pub message: Option<String>,
    /// It failed by the source's own word: only a person brings it back, not a slot that still moves.
    pub by_source: bool,
    /// Accepted transitions so far.
    pub state_epoch: i32,
    /// The highest leader epoch of another node that wrote; -1 when none did.
    pub writer_epoch: i32,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            state: MirrorState::Unknown,
            previous: MirrorState::Unknown,
            retry_attempt: 0,
            message: None,
            by_source: false,
            state_epoch: 0,
            writer_epoch: -1,
        }
    }
}

/// What a record of type 103 says about a partition on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Its slot on the board.
    pub slot: u32,
    /// The data directory that holds it; absolute.
    pub directory: String,
    /// How often the data plane was asked to try again.
    pub attempt: i32,
    /// The assignment version that carries what was last asked of it.
    pub asked_version: i64,
    /// Its files are to be thrown away before anything is mirrored into them.
    pub discard: bool,
}

/// Where mirroring ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastMirrored {
    /// The next offset.
    pub offset: i64,
    /// The leader epoch of the last mirrored batch; -1 = there was none.
    pub epoch: i32,
}

/// One fact in the state log.
#[derive(Debug, Clone, PartialEq)]
pub enum StateRecord {
    /// Type 1.
    LastMirrored { mirror: String, topic: String, partition: i32, last: LastMirrored },
    /// Type 2.
    Standing { mirror: String, topic: String, topic_id: Uuid, partition: i32, standing: Standing },
    /// Type 101; `None`: the mirror and all below it are gone.
    Mirror { mirror: String, facts: Option<MirrorFacts> },
    /// Type 102; `None`: the topic and all below it are gone.
    Topic { mirror: String, topic: String, facts: Option<TopicFacts> },
    /// Type 103; `None`: the partition is forgotten.
    Placement { mirror: String, topic: String, partition: i32, placement: Option<Placement> },
    /// Type 105; `None`: nothing is known of the topic's settings any more.
    Configs { mirror: String, topic: String, configs: Option<TopicConfigs> },
    /// Type 106: an access rule that we gave to this cluster, the destination; `None`: and took away.
    AclGiven { mirror: String, binding: AclBinding, to: Option<String> },
    /// Type 107: what we write at the destination for a group; `None`: nothing is remembered any more.
    GroupOffsets { mirror: String, group: String, topic: String, offsets: Option<ByPartition> },
    /// Type 109: the quotas of the source's clients; `None`: none are known.
    Quotas { mirror: String, quotas: Option<Quotas> },
    /// Type 108: the topic was handed over to this broker; `None`: and is back.
    HandedOver { mirror: String, topic: String, to: Option<String> },
    /// Type 104; `present: false`: the entry is gone.
    Acl { origin: String, binding: AclBinding, present: bool },
    /// A type that this version does not know.
    Foreign(KeyValue),
}

impl Catalog {
    /// The mirrors by name.
    pub fn mirrors(&self) -> impl Iterator<Item = (&str, &Mirror)> {
        self.mirrors.iter().map(|(name, mirror)| (name.as_str(), mirror.as_ref()))
    }

    /// A mirror.
    #[must_use]
    pub fn mirror(&self, name: &str) -> Option<&Mirror> {
        self.mirrors.get(name).map(AsRef::as_ref)
    }

    /// A mirror, to be taken to another thread.
    #[must_use]
    pub fn shared_mirror(&self, name: &str) -> Option<Arc<Mirror>> {
        self.mirrors.get(name).map(Arc::clone)
    }

    /// A topic of a mirror.
    #[must_use]
    pub fn topic(&self, mirror: &str, topic: &str) -> Option<&Topic> {
        self.mirror(mirror)?.topics.get(topic).map(AsRef::as_ref)
    }

    /// A partition of a mirror's topic.
    #[must_use]
    pub fn partition(&self, mirror: &str, topic: &str, partition: i32) -> Option<&Partition> {
        self.topic(mirror, topic)?.partitions.get(&partition)
    }

    /// The mirror that has a topic of this name, and the topic: a name exists once.
    #[must_use]
    pub fn owner_of(&self, topic: &str) -> Option<(&str, &Topic)> {
        self.mirrors().find_map(|(name, mirror)| Some((name, mirror.topics.get(topic)?.as_ref())))
    }

    /// All topics, of all mirrors.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &str, &Topic)> {
        self.mirrors().flat_map(|(name, mirror)| {
            mirror.topics.iter().map(move |(topic, facts)| (name, topic.as_str(), facts.as_ref()))
        })
    }

    /// All partitions, of all mirrors.
    pub fn partitions(&self) -> impl Iterator<Item = (&str, &str, &Topic, i32, &Partition)> {
        self.topics().flat_map(|(mirror, name, topic)| {
            topic.partitions.iter().map(move |(index, partition)| (mirror, name, topic, *index, partition))
        })
    }

    /// The slots in use.
    #[must_use]
    pub fn slots(&self) -> BTreeSet<u32> {
        self.partitions().filter_map(|(.., partition)| Some(partition.placement.as_ref()?.slot)).collect()
    }

    /// The access control entries that are wanted.
    #[must_use]
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// How many facts [`Catalog::records`] gives, without making them.
    #[must_use]
    pub fn facts(&self) -> usize {
        let of = |p: &Partition| 1 + usize::from(p.placement.is_some()) + usize::from(p.last_mirrored.is_some());
        let topics = self.topics().map(|(.., topic)| 1 + topic.partitions.values().map(of).sum::<usize>());
        self.foreign.len() + self.acls.iter().count() + self.mirrors.len() + topics.sum::<usize>()
    }

    /// Records of unknown types, by key.
    pub fn foreign(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.foreign.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// The facts that build this catalog, in an order in which each finds what it is about: a snapshot.
    pub fn records(&self) -> impl Iterator<Item = StateRecord> + '_ {
        let foreign = self
            .foreign
            .iter()
            .map(|(key, value)| StateRecord::Foreign(KeyValue { key: key.clone(), value: Some(value.clone()) }));
        let acls = self.acls.iter().map(|(origin, binding)| StateRecord::Acl {
            origin: origin.to_owned(),
            binding: binding.clone(),
            present: true,
        });
        // Entries of a mirror's source find their mirror.
        foreign.chain(self.mirrors.iter().flat_map(|(name, mirror)| mirror.records(name))).chain(acls)
    }
}
