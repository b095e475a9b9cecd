//! How far an adoption is, in the journal of the hand-over: what the broker is, and what became of each topic.

use crate::handover::preflight::Finding;
use crate::handover::step::journal_steps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

journal_steps! {
    Begun = "adopt-begun", "adopt-begun-done", "It is decided what goes where; nothing has changed.";
    Stopped = "adopt-stopped", "adopt-stopped-done", "The topics are stopped, and it is recorded where mirroring ended.";
    Planned = "adopt-planned", "adopt-planned-done", "What is copied and appended stands in the plan.";
    Copied = "adopt-copied", "adopt-copied-done", "The copies are done, beside the broker's log directory.";
    Raised = "adopt-raised", "adopt-raised-done", "The cluster gives out no producer id that is in the copies.";
    Recorded = "adopt-recorded", "adopt-recorded-done", "The control plane knows whose the topics are.";
    Created = "adopt-created", "adopt-created-done", "The broker has all topics, with the copies as their logs.";
    Committed = "adopt-committed", "adopt-committed-done", "Groups have their offsets, and access rules are made.";
    Checked = "adopt-checked", "adopt-checked-done", "What the broker serves was compared.";
    Settled = "adopt-settled", "adopt-settled-done", "The broker's recovery points lie behind what was mirrored.";
}

/// Points at which a test kills the command besides the steps: a topic's directories are renamed; it is made; the journal says so.
pub const TOPIC_POINTS: [&str; 3] = ["topic-placed", "topic-made", "topic-noted"];

/// The journal's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adoption {
    /// What was done last.
    pub step: Step,
    /// Where the broker is, as HOST:PORT.
    pub address: String,
    /// The log directory that the topics go into; absolute.
    pub log_dir: PathBuf,
    /// The broker has others.
    pub several_dirs: bool,
    /// Where copies are made before they are renamed; absolute, on the same file system.
    pub stage: PathBuf,
    /// The broker judges requests by access rules.
    pub has_authorizer: bool,
    /// The topics.
    pub topics: Vec<Adopted>,
    /// What was done about producer ids.
    pub producer_ids: Option<ProducerIds>,
    /// What became of offsets of groups.
    pub offsets: Vec<Committed>,
    /// Access rules that were made.
    pub acls: usize,
    /// What was found on the way.
    pub findings: Vec<Finding>,
    /// When each step was reached, ms since 1970.
    pub reached_at_ms: BTreeMap<String, i64>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Adopted {
    /// Its name.
    pub topic: String,
    /// The id that the broker's cluster gave it; none before.
    pub topic_id: Option<String>,
    /// Its directories may be in the log directory.
    pub placed: bool,
    /// Batches were given leader epoch 0: it is a restamped copy, not the source's bytes.
    pub restamped: bool,
    /// How many.
    pub restamped_batches: i64,
    /// Bytes of its segments.
    pub copied_bytes: i64,
    /// The highest producer id in its batches; -1 for none.
    pub highest_producer_id: i64,
    /// From the first rename until all partitions answered, ms.
    pub readable_ms: Option<u64>,
}

/// What was done about producer ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProducerIds {
    /// The highest that is in the copies; -1 for none.
    pub highest_mirrored: i64,
    /// What each broker gave out first; ids below may belong to producers that run.
    pub first_given: BTreeMap<i32, i64>,
    /// What each broker gave out last: it gives out higher ones only.
    pub last_given: BTreeMap<i32, i64>,
    /// Blocks that were taken from the controller.
    pub blocks: u64,
    /// Why none could be had, when they were asked for.
    pub no_blocks: Option<String>,
}

/// An offset of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Committed {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// What the consumer noted with it.
    pub metadata: String,
    /// It was committed, or is there.
    pub committed: bool,
    /// Why not; neither, as long as nobody tried.
    pub refused: Option<String>,
}

impl Committed {
    /// Nobody has tried yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.committed && self.refused.is_none()
    }

    /// Notes what came of it.
    pub fn ends(&mut self, outcome: Result<(), String>) {
        (self.committed, self.refused) = (outcome.is_ok(), outcome.err());
    }
}

impl Adoption {
    /// The topic called `name`.
    pub fn topic(&mut self, name: &str) -> Option<&mut Adopted> {
        self.topics.iter_mut().find(|topic| topic.topic == name)
    }

    /// Whether the broker has any of the topics: there is no way back by `--undo` then.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.topics.iter().any(|topic| topic.topic_id.is_some())
    }
}
