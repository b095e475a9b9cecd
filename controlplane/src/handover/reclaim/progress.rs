//! pure: what a reclaim has done so far; part of the journal of the hand-over that it ends.

use crate::handover::step::journal_steps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

journal_steps! {
    Begun = "reclaim-begun", "reclaim-begun-done", "It is decided what is taken back and where it is cut; nothing has changed.";
    Cloned = "reclaim-cloned", "reclaim-cloned-done", "Copies are there of what stays with a broker that may run.";
    Registered = "reclaim-registered", "reclaim-registered-done", "The control plane knows topics that it never had as the node's.";
    Unmarked = "reclaim-unmarked", "reclaim-unmarked-done", "A broker that were started now would look at its logs before it uses them.";
    Moved = "reclaim-moved", "reclaim-moved-done", "The directories are cut and the mirror's again.";
    Returned = "reclaim-returned", "reclaim-returned-done", "The control plane knows whose the topics are.";
}

/// A reclaim under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaim {
    /// What was done last.
    pub step: Step,
    /// When it began, ms since 1970.
    pub begun_at_ms: i64,
    /// The node's properties file; absolute.
    pub from: PathBuf,
    /// The control plane by whose last mirrored offsets the topics are cut; `None`: by our own.
    #[serde(default)]
    pub lmo_from: Option<String>,
    /// The topics that were asked for by name; none for all.
    #[serde(default)]
    pub asked: Vec<String>,
    /// The log directories of the node, which are locked; absolute. None when copies are taken.
    pub log_dirs: Vec<PathBuf>,
    /// The clean markers that were there, by log directory: they are put back, for the broker may have other partitions.
    pub clean_markers: BTreeMap<PathBuf, String>,
    /// Where that is saved which is thrown away.
    pub saved_aside: Option<PathBuf>,
    /// The folders in the data directories where copies are made; none when the directories themselves are taken.
    #[serde(default)]
    pub stages: Vec<PathBuf>,
    /// The partitions.
    pub partitions: Vec<Taken>,
    /// Topics whose directories stay with the broker, to be mirrored from scratch.
    #[serde(default)]
    pub given_up: Vec<String>,
}

/// A partition that is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// Its topic.
    pub topic: String,
    /// Its index.
    pub partition: i32,
    /// The node's log directory that has it.
    pub log_dir: PathBuf,
    /// The first offset that stays.
    pub log_start_offset: i64,
    /// Where mirroring ended: what lies at or above is thrown away, or left at the broker that copies are taken from.
    pub last_mirrored_offset: i64,
    /// The epoch of the last batch that stays; -1 for none.
    pub last_mirror_epoch: i32,
    /// The offset after the last whole batch at the broker.
    pub end_offset: i64,
    /// Records there, control records not counted.
    pub records: i64,
    /// Bytes there.
    pub bytes: i64,
    /// The leader epochs there.
    pub epochs: Vec<i32>,
}

impl Reclaim {
    /// The topics, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let mut names: Vec<String> = self.partitions.iter().map(|taken| taken.topic.clone()).collect();
        names.extend(self.given_up.iter().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// Records and bytes behind the cut: thrown away, or left at the broker that copies are taken from.
    #[must_use]
    pub fn behind(&self) -> (i64, i64) {
        sums(&self.partitions)
    }
}

/// Records and bytes of these partitions behind their cuts.
pub(super) fn sums(partitions: &[Taken]) -> (i64, i64) {
    let sum = |of: fn(&Taken) -> i64| partitions.iter().map(of).fold(0, i64::saturating_add);
    (sum(|taken| taken.records), sum(|taken| taken.bytes))
}
