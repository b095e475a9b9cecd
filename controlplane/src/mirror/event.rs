//! pure: what the handlers, the board and the timers ask of the catalog.

use crate::mirror::catalog::{Desired, LastMirrored, MirrorFacts, TopicSettings};
use crate::mirror::group_offsets::ByPartition;
use crate::mirror::machine::Event;
use crate::mirror::quotas::Quotas;
use crate::mirror::settings::Settings;
use crate::mirror::topic_configs::TopicConfigs;
use twinlog_proto::ids::Uuid;
use twinlog_proto::security::acl::AclBinding;

/// A change that `decide.rs` turns into records and effects.
#[derive(Debug, Clone, PartialEq)]
pub enum MirrorEvent {
    /// A mirror is created.
    Created { mirror: String, facts: MirrorFacts },
    /// A mirror and all its (stopped) topics are forgotten.
    Deleted { mirror: String },
    /// The patterns of a mirror change.
    Patterns { mirror: String, include: Vec<String>, exclude: Vec<String> },
    /// The settings of a mirror change.
    Settings { mirror: String, settings: Settings },
    /// A topic is started, or the source has now told what it is.
    Started { mirror: String, topic: SourceTopic },
    /// A topic is started from scratch: what was mirrored of it is thrown away first.
    Anew { mirror: String, topic: SourceTopic },
    /// What the source says of a topic that is mirrored has changed: more partitions, other settings.
    Followed { mirror: String, topic: SourceTopic },
    /// A topic is started that the source cannot be asked about now.
    StartedUnresolved { mirror: String, topic: String },
    /// A person wants something else of a topic; every partition takes `event` if it has a place there.
    Wanted { mirror: String, topic: String, desired: Desired, event: Event },
    /// Something happened to one partition.
    Partition { mirror: String, topic: String, partition: i32, event: Event, detail: Detail },
    /// The directories of a topic are this broker's now; `None`: they are back.
    HandedOver { mirror: String, topic: String, to: Option<String> },
    /// A topic that the mirror never had comes with its directories, which the broker `to` has; it is stopped.
    TakenUp { mirror: String, topic: SourceTopic, to: String, partitions: Vec<TakenUp> },
    /// An access rule was given to the destination of a mirror, this cluster, or taken away from it.
    AclGiven { mirror: String, binding: AclBinding, to: Option<String> },
    /// What we are about to write for a group at the destination, all partitions of a topic; `None` to forget it.
    GroupOffsets { mirror: String, group: String, topic: String, offsets: Option<ByPartition> },
    /// From now on settings and offsets are given to this cluster.
    Destination { mirror: String, cluster_id: String },
    /// An access control entry is wanted, or not any more; one that stands so already changes nothing.
    Acl { origin: String, binding: AclBinding, present: bool },
    /// A write of states by another node: only the position.
    Position { mirror: String, topic: String, partition: i32, last: LastMirrored },
    /// Another node wrote at this leader epoch: writers of older ones are fenced from now on.
    WriterEpoch { mirror: String, topic: String, partition: i32, epoch: i32 },
    /// The quotas that the source has.
    Quotas { mirror: String, quotas: Quotas },
    /// The settings that a topic is to have.
    Configs { mirror: String, topic: String, configs: TopicConfigs },
}

/// A partition of a topic that comes with its directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenUp {
    /// Its index.
    pub partition: i32,
    /// The data directory that it will lie in.
    pub directory: String,
    /// Up to where it is what its source has.
    pub last: LastMirrored,
}

/// What comes with an event of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    None,
    /// With `Failed`.
    Failure {
        /// Why, for people.
        message: String,
        /// Whether trying again may help.
        retryable: bool,
    },
    /// With `Failed`: the source's own word, so trying again does not help, and records that still flow prove nothing.
    Verdict(String),
    /// With `Failed`, from another node.
    Reported {
        /// Why, for people.
        message: String,
        /// Whether trying again may help.
        retryable: bool,
        /// Failures in a row as that node counted them; `None` to count here.
        attempt: Option<i16>,
    },
    /// With `SlotStopped`: where mirroring ended; `None` when nothing ever was mirrored.
    Ended(Option<LastMirrored>),
}

/// What the source says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTopic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has; at least 1.
    pub partition_count: i32,
    /// The settings that shape its files.
    pub settings: TopicSettings,
    /// Whether the source keeps its own data in it.
    pub internal: bool,
}

impl MirrorEvent {
    /// An event of one partition without a detail.
    #[must_use]
    pub fn partition(mirror: &str, topic: &str, partition: i32, event: Event) -> Self {
        Self::detailed(mirror, topic, partition, event, Detail::None)
    }

    /// An event of one partition.
    #[must_use]
    pub fn detailed(mirror: &str, topic: &str, partition: i32, event: Event, detail: Detail) -> Self {
        Self::Partition { mirror: mirror.to_owned(), topic: topic.to_owned(), partition, event, detail }
    }
}
