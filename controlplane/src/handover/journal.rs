//! What a hand-over has done so far, in `STATE/handover/MIRROR.json`: whoever is killed in the middle finds there where to go on.

mod place;
mod sound;

pub use place::{FOLDER, folder, make_folder, make_subfolder};

use crate::clock::now_ms;
use crate::failure::Failure;
use crate::files;
use crate::handover::adopt::progress::Adoption;
use crate::handover::inherited::Carried;
use crate::handover::preflight::{Clamped, Finding, Loss, Mode, OpenTransaction};
use crate::handover::quotas::Quota;
use crate::handover::reclaim::progress::Reclaim;
use crate::handover::segments::Segment;
use crate::handover::step::journal_steps;
use crate::handover::tail::Sample;
use crate::steps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The version that is written.
const VERSION: u32 = 1;
/// Largest journal that is believed, bytes: some hundred for each partition.
const BYTES_MAX: u64 = 256 << 20;

journal_steps! {
    Begun = "begun", "begun-done", "It is decided what goes where; nothing has changed.";
    CaughtUp = "caught-up", "caught-up-done", "Everything was waited for that the source has, as far as it answers.";
    Stopped = "stopped", "stopped-done", "The topics are stopped, and it is recorded where mirroring ended.";
    Planned = "planned", "planned-done", "What is appended and what is renamed stands in the plan.";
    Recorded = "recorded", "recorded-done", "The control plane knows whose the topics are.";
    LaidOut = "laid-out", "laid-out-done", "The node has its identity.";
    Moved = "moved", "moved-done", "The directories are the node's, finished.";
    Identified = "identified", "identified-done", "The node will know the topics when it starts.";
    Promoted = "promoted", "promoted-done", "The clean marker is there: a broker may start.";
    Started = "started", "started-done", "The broker serves.";
    Checked = "checked", "checked-done", "What it serves was compared.";
}

impl Step {
    /// The step before this one.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        Self::ALL.iter().rev().copied().find(|step| *step < self)
    }
}

/// The journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    version: u32,
    /// The mirror.
    pub mirror: String,
    /// What was done last.
    pub step: Step,
    /// It is being undone: steps go backwards.
    pub undoing: bool,
    /// Whether the source was waited for.
    pub mode: Mode,
    /// When it began, ms since 1970.
    pub begun_at_ms: i64,
    /// The node's properties file; absolute.
    pub to: PathBuf,
    /// The node.
    pub node_id: i32,
    /// Its cluster.
    pub cluster_id: String,
    /// The release that it is laid out for, when one was named.
    pub release: Option<String>,
    /// Directories of it that were not formatted before.
    pub unformatted: Vec<PathBuf>,
    /// It was started before and has no topic left, so that its metadata is laid out anew.
    #[serde(default)]
    pub anew: bool,
    /// Its log directories; absolute.
    pub log_dirs: Vec<PathBuf>,
    /// The directory of its metadata log, one of these or another; absolute.
    pub metadata_log_dir: PathBuf,
    /// As the control plane and people are told.
    pub handed_over_to: String,
    /// The topics.
    pub topics: Vec<Topic>,
    /// Access rules, as numbers and texts of the protocol.
    pub acls: Vec<Acl>,
    /// Quotas of clients.
    #[serde(default)]
    pub quotas: Vec<Quota>,
    /// First producer id that the node gives out.
    pub next_producer_id: i64,
    /// What was lost, as far as it is known.
    pub loss: Loss,
    /// Partitions of which it is not known.
    pub loss_unknown_partitions: usize,
    /// What was said before.
    pub warnings: Vec<Finding>,
    /// Transactions that are ended in the files.
    pub open_transactions: Vec<OpenTransaction>,
    /// Offsets of groups that are changed in the files.
    pub clamped_offsets: Vec<Clamped>,
    /// When each step was reached, ms since 1970.
    pub reached_at_ms: BTreeMap<String, i64>,
    /// Data records of the bootstrap file, which the broker counts at its start.
    pub bootstrap_records: Option<usize>,
    /// The broker, when it was started.
    pub server: Option<Server>,
    /// What is being taken back from the broker; `None` when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Reclaim>,
    /// How far a broker that runs has taken the topics; `None` when a node takes them that does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<Adoption>,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topic {
    /// Its name.
    pub topic: String,
    /// Its id.
    pub topic_id: String,
    /// It was mirrored when this began, so that it is started again when this is undone.
    pub flowed: bool,
    /// Its settings.
    pub configs: BTreeMap<String, String>,
    /// Settings that it is given because they hold at the source and not at the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub carried: BTreeMap<String, Carried>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

impl Topic {
    /// All settings that the node is told of.
    #[must_use]
    pub fn all_configs(&self) -> BTreeMap<String, String> {
        let carried = self.carried.iter().map(|(name, carried)| (name.clone(), carried.value.clone()));
        self.configs.clone().into_iter().chain(carried).collect()
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// Its index.
    pub partition: i32,
    /// The data directory that it comes from.
    pub from: PathBuf,
    /// The log directory that it goes into, by its place in [`Journal::log_dirs`].
    pub to: usize,
    /// Log start.
    pub log_start_offset: i64,
    /// Where mirroring ended.
    pub last_mirrored_offset: i64,
    /// The epoch of the last mirrored batch; -1 for none.
    pub last_mirror_epoch: i32,
    /// The highest epoch that anybody may have seen.
    pub epoch_max: i32,
    /// Where the log ends with what we appended; `None` while nothing was.
    pub end_offset: Option<i64>,
    /// Batches by which it is known again.
    pub samples: Vec<Sample>,
    /// Its segments, up to where mirroring ended.
    #[serde(default)]
    pub segments: Vec<Segment>,
}

/// An access rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acl {
    /// Code of the kind of resource.
    pub resource_type: i8,
    /// Its name.
    pub resource_name: String,
    /// Code of the kind of pattern.
    pub pattern_type: i8,
    /// Whom it is about.
    pub principal: String,
    /// Where the principal comes from.
    pub host: String,
    /// Code of the operation.
    pub operation: i8,
    /// Code of the permission.
    pub permission_type: i8,
}

/// A started broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// The command.
    pub command: String,
    /// Where its standard output and standard error go.
    pub log: PathBuf,
    /// From the start of the process until it answered, ms.
    pub ready_ms: Option<u64>,
}

impl Journal {
    /// The journal of `mirror`; none when nothing is under way.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(state: &Path, mirror: &str) -> Result<Option<Self>, Failure> {
        let path = path(state, mirror);
        let unusable = |cause: &dyn std::fmt::Display| {
            let remedy =
                "it says how far the hand-over went: mend or restore it, never remove it while topics are handed over";
            Failure::new(format_args!("the journal {} cannot be used", path.display()), cause, remedy)
        };
        match fs::metadata(&path) {
            Ok(meta) if meta.len() > BYTES_MAX => return Err(unusable(&"it is far too large")),
            Ok(_) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(unusable(&cause)),
        }
        let bytes = fs::read(&path).map_err(|cause| unusable(&cause))?;
        let journal: Self = serde_json::from_slice(&bytes).map_err(|cause| unusable(&cause))?;
        if journal.version != VERSION || journal.mirror != mirror {
            return Err(unusable(&"it is of another version or another mirror"));
        }
        sound::check(&journal).map_err(|why| unusable(&why))?;
        Ok(Some(journal))
    }

    /// A journal whose first step is being written.
    #[must_use]
    pub fn begin(mirror: &str, mode: Mode, begun_at_ms: i64) -> Self {
        Self {
            version: VERSION,
            mirror: mirror.to_owned(),
            step: Step::Begun,
            undoing: false,
            mode,
            begun_at_ms,
            to: PathBuf::new(),
            node_id: -1,
            cluster_id: String::new(),
            release: None,
            unformatted: Vec::new(),
            anew: false,
            log_dirs: Vec::new(),
            metadata_log_dir: PathBuf::new(),
            handed_over_to: String::new(),
            topics: Vec::new(),
            acls: Vec::new(),
            quotas: Vec::new(),
            next_producer_id: 0,
            loss: Loss::default(),
            loss_unknown_partitions: 0,
            warnings: Vec::new(),
            open_transactions: Vec::new(),
            clamped_offsets: Vec::new(),
            reached_at_ms: BTreeMap::new(),
            bootstrap_records: None,
            server: None,
            reclaim: None,
            adopt: None,
        }
    }

    /// Whether the node had the topics before the mirror did: nobody handed them over to it.
    #[must_use]
    pub fn was_never_promoted(&self) -> bool {
        self.reached_at_ms.is_empty()
    }

    /// Every directory that a broker of the node locks.
    #[must_use]
    pub fn locked_dirs(&self) -> Vec<PathBuf> {
        let apart = !self.log_dirs.contains(&self.metadata_log_dir);
        self.log_dirs.iter().chain(apart.then_some(&self.metadata_log_dir)).cloned().collect()
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// As the file system says.
    pub fn save(&self, state: &Path) -> Result<(), Failure> {
        self.save_within(state, BYTES_MAX)
    }

    fn save_within(&self, state: &Path, bytes_max: u64) -> Result<(), Failure> {
        let path = path(state, &self.mirror);
        let failed = |cause: &dyn std::fmt::Display| {
            Failure::new(
                format_args!("the journal {} cannot be written", path.display()),
                cause,
                "make room or give rights in the state directory, then run the same command again",
            )
        };
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|cause| failed(&cause))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > bytes_max {
            // It would not be believed when it is read again.
            return Err(failed(&format_args!("it would have {} bytes, more than {bytes_max}", bytes.len())));
        }
        files::replace(&path, &bytes).map_err(|cause| failed(&cause))
    }

    /// Writes down that `step` is done.
    ///
    /// # Errors
    /// As [`Journal::save`].
    pub fn reach(&mut self, state: &Path, step: Step) -> Result<(), Failure> {
        step.passed_work();
        self.step = step;
        self.reached_at_ms.insert(step.name().to_owned(), now_ms());
        self.save(state)?;
        steps::passed_by_name(step.name());
        Ok(())
    }

    /// Forgets the journal: everything is as before.
    ///
    /// # Errors
    /// As the file system says.
    pub fn remove(&self, state: &Path) -> Result<(), Failure> {
        let path = path(state, &self.mirror);
        let removed = fs::remove_file(&path).and_then(|()| files::sync_folder(&folder(state)));
        removed.map_err(|cause| {
            Failure::new(format_args!("the journal {} cannot be removed", path.display()), cause, "remove it by hand")
        })
    }
}

/// Whose topics are that were handed over, as the control plane and people are told.
#[must_use]
pub fn node_in_words(id: i32, cluster_id: &str, log_dirs: &[PathBuf]) -> String {
    let dirs: Vec<String> = log_dirs.iter().map(|dir| dir.display().to_string()).collect();
    format!("node {id} of cluster {cluster_id} at {}", dirs.join(","))
}

fn path(state: &Path, mirror: &str) -> PathBuf {
    folder(state).join(format!("{mirror}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_an_order_and_kill_points_of_different_names() {
        let mut step = Step::Begun;
        let mut seen = vec![step];
        while let Some(next) = step.next() {
            assert_eq!(next.previous(), Some(step));
            step = next;
            seen.push(step);
        }
        assert_eq!(seen, Step::ALL);
        let names: std::collections::BTreeSet<_> = Step::KILL_POINTS.iter().collect();
        assert_eq!(names.len(), 2 * Step::ALL.len());
    }

    #[test]
    fn a_journal_is_read_back_and_one_that_is_not_ours_is_refused() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(Journal::load(state.path(), "dr").unwrap(), None);
        make_folder(state.path()).unwrap();
        let mut journal = Journal::begin("dr", Mode::Forced, 7);
        (journal.to, journal.metadata_log_dir) = ("/etc/server.properties".into(), "/logs".into());
        journal.loss.records = Some(3);
        journal.reach(state.path(), Step::Stopped).unwrap();
        assert_eq!(Journal::load(state.path(), "dr").unwrap(), Some(journal.clone()));
        fs::copy(path(state.path(), "dr"), path(state.path(), "other")).unwrap();
        assert!(Journal::load(state.path(), "other").unwrap_err().to_string().contains("another mirror"));
        fs::write(path(state.path(), "other"), b"{").unwrap();
        assert!(Journal::load(state.path(), "other").is_err());
        journal.remove(state.path()).unwrap();
        assert_eq!(Journal::load(state.path(), "dr").unwrap(), None);
    }

    #[test]
    fn a_journal_that_would_not_be_read_again_is_not_written() {
        let state = tempfile::tempdir().unwrap();
        make_folder(state.path()).unwrap();
        let mut journal = Journal::begin("dr", Mode::Forced, 7);
        (journal.to, journal.metadata_log_dir) = ("/etc/server.properties".into(), "/logs".into());
        journal.reach(state.path(), Step::Stopped).unwrap();
        let before = journal.clone();
        journal.cluster_id = "x".repeat(100);
        assert!(journal.save_within(state.path(), 100).unwrap_err().to_string().contains("more than 100"));
        assert_eq!(Journal::load(state.path(), "dr").unwrap(), Some(before));
    }
}
