//! The report of an adoption, kept as evidence as JSON and as text.

use super::Adopting;
use super::progress::{Adopted, Committed, ProducerIds};
use crate::failure::Failure;
use crate::files;
use crate::handover::check::Checked;
use crate::handover::journal;
use crate::handover::preflight::{Clamped, Finding, Loss, Mode, OpenTransaction, topics::in_words};
use crate::handover::report as kept;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folder of reports.
const REPORTS: &str = "adopt-reports";

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The mirror.
    pub mirror: String,
    /// Always `adopt`.
    pub mode: &'static str,
    /// Whether the source was waited for.
    pub source_mode: Mode,
    /// The topics are the broker's.
    pub promoted: bool,
    /// Where the broker is.
    pub address: String,
    /// Its node.
    pub node_id: i32,
    /// Its cluster.
    pub cluster_id: String,
    /// The log directory.
    pub log_dir: PathBuf,
    /// As the control plane is told.
    pub handed_over_to: String,
    /// When it began, ms since 1970.
    pub begun_at_ms: i64,
    /// When each step was reached, ms since 1970.
    pub reached_at_ms: BTreeMap<String, i64>,
    /// What was lost.
    pub loss: Loss,
    /// Partitions of which it is not known.
    pub loss_unknown_partitions: usize,
    /// What was said before, and found on the way.
    pub warnings: Vec<Finding>,
    /// What became of each topic.
    pub adopted: Vec<Adopted>,
    /// The topics as they were mirrored.
    pub topics: Vec<journal::Topic>,
    /// Transactions that were ended in the copies.
    pub open_transactions: Vec<OpenTransaction>,
    /// Offsets of groups that were lowered to the end of their log.
    pub clamped_offsets: Vec<Clamped>,
    /// What was done about producer ids.
    pub producer_ids: Option<ProducerIds>,
    /// What became of offsets of groups.
    pub group_offsets: Vec<Committed>,
    /// Access rules that were made.
    pub acls: usize,
    /// What the broker serves.
    pub checked: Checked,
}

impl Report {
    /// The report of an adoption whose checks are done.
    #[must_use]
    pub fn new(adopting: &Adopting, checked: Checked) -> Self {
        let (journal, adoption) = (adopting.journal.clone(), adopting.adoption.clone());
        let mut reached_at_ms = journal.reached_at_ms;
        reached_at_ms.extend(adoption.reached_at_ms);
        Self {
            mirror: journal.mirror,
            mode: "adopt",
            source_mode: journal.mode,
            promoted: adoption.topics.iter().all(|topic| topic.topic_id.is_some()),
            address: adoption.address,
            node_id: journal.node_id,
            cluster_id: journal.cluster_id,
            log_dir: adoption.log_dir,
            handed_over_to: journal.handed_over_to,
            begun_at_ms: journal.begun_at_ms,
            reached_at_ms,
            loss: journal.loss,
            loss_unknown_partitions: journal.loss_unknown_partitions,
            warnings: journal.warnings.into_iter().chain(adoption.findings).collect(),
            adopted: adoption.topics,
            topics: journal.topics,
            open_transactions: journal.open_transactions,
            clamped_offsets: journal.clamped_offsets,
            producer_ids: adoption.producer_ids,
            group_offsets: adoption.offsets,
            acls: adoption.acls,
            checked,
        }
    }

    /// Writes it beside the journal, and to `file` when there is one.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, state: &Path, file: Option<&Path>) -> Result<(), Failure> {
        kept::keep(state, (REPORTS, &self.mirror), self, &self.text(), file)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let mut line = |text: std::fmt::Arguments<'_>| {
            let _infallible = writeln!(out, "{text}");
        };
        line(format_args!(
            "mirror {}: {} topics are handed over to {}",
            self.mirror,
            self.adopted.len(),
            self.handed_over_to
        ));
        line(format_args!("mode          adopt, {:?}; the broker at {} ran all along", self.source_mode, self.address));
        let loss = in_words(&self.loss, self.loss_unknown_partitions);
        line(format_args!("loss          {}", loss.trim_start_matches("lost if it were gone now: ")));
        self.adopted.iter().for_each(|topic| line(format_args!("topic         {}", of_topic(topic))));
        if let Some(ids) = &self.producer_ids {
            let last: Vec<String> =
                ids.last_given.iter().map(|(broker, id)| format!("broker {broker} from {}", id + 1)).collect();
            line(format_args!(
                "producer ids  {} is the highest mirrored one; {}",
                ids.highest_mirrored,
                last.join(", ")
            ));
        }
        let mut reached: Vec<_> = self.reached_at_ms.iter().collect();
        reached.sort_by_key(|(_, at)| **at);
        for (step, at_ms) in reached {
            line(format_args!("+{:>9.3} s  {step}", (at_ms - self.begun_at_ms) as f64 / 1000.0));
        }
        for noted in kept::noted(&self.warnings, &self.open_transactions, &self.clamped_offsets) {
            line(format_args!("{noted}"));
        }
        for of in &self.group_offsets {
            if let Some(why) = &of.refused {
                line(format_args!("NOT COMMITTED {} {}-{} at {}: {why}", of.group, of.topic, of.partition, of.offset));
            }
        }
        match self.checked.ok {
            true => line(format_args!(
                "checked       {} partitions, {} batches compared, {} of {} offsets of {} groups: all as it should be",
                self.checked.partitions.len(),
                self.checked.compared_batches,
                self.checked.equal_offsets,
                self.checked.committed_offsets,
                self.checked.groups
            )),
            false => self.checked.failures.iter().for_each(|failure| line(format_args!("WRONG         {failure}"))),
        }
        out
    }
}

fn of_topic(topic: &Adopted) -> String {
    let kind = match topic.restamped {
        true => format!("restamped copy, {} batches got leader epoch 0", topic.restamped_batches),
        false => "copy, all batches had leader epoch 0".to_owned(),
    };
    let id = topic.topic_id.as_deref().unwrap_or("none");
    let took = topic.readable_ms.map_or_else(String::new, |ms| format!(", readable {ms} ms after the first rename"));
    format!("{} id {id}: {kind}, {} bytes{took}", topic.topic, topic.copied_bytes)
}

/// A topic that a broker has, as a later command finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Its name.
    pub topic: String,
    /// Its id at the broker.
    pub topic_id: String,
    /// As the control plane was told.
    pub handed_over_to: String,
    /// Where the broker was.
    pub address: String,
    /// When, ms since 1970.
    pub at_ms: i64,
}

/// The folder of what brokers have adopted, in the folder of hand-overs.
const PAST: &str = "adopted";
/// Largest file that is believed, bytes.
const PAST_BYTES_MAX: u64 = 64 << 20;

/// What brokers have adopted of `mirror`.
///
/// # Errors
/// When the file cannot be read.
pub fn past(state: &Path, mirror: &str) -> Result<Vec<Past>, Failure> {
    let path = journal::folder(state).join(PAST).join(format!("{mirror}.json"));
    let unusable = |cause: &dyn std::fmt::Display| {
        Failure::new(format_args!("{} cannot be used", path.display()), cause, "restore or mend it")
    };
    match std::fs::metadata(&path) {
        Ok(meta) if meta.len() > PAST_BYTES_MAX => return Err(unusable(&"it is far too large")),
        Ok(_) => {}
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(unusable(&cause)),
    }
    let bytes = std::fs::read(&path).map_err(|cause| unusable(&cause))?;
    serde_json::from_slice(&bytes).map_err(|cause| unusable(&cause))
}

/// Remembers the topics of a report, in place of what was known of these names.
///
/// # Errors
/// When the file cannot be read or written.
pub fn remember(state: &Path, report: &Report, at_ms: i64) -> Result<(), Failure> {
    let mut all = past(state, &report.mirror)?;
    all.retain(|known| !report.adopted.iter().any(|topic| topic.topic == known.topic));
    all.extend(report.adopted.iter().map(|topic| Past {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id.clone().unwrap_or_default(),
        handed_over_to: report.handed_over_to.clone(),
        address: report.address.clone(),
        at_ms,
    }));
    write_past(state, &report.mirror, &all)
}

/// Forgets topics that are the mirror's again.
///
/// # Errors
/// When the file cannot be read or written.
pub fn forget(state: &Path, mirror: &str, topics: &[String]) -> Result<(), Failure> {
    let mut all = past(state, mirror)?;
    all.retain(|known| !topics.contains(&known.topic));
    write_past(state, mirror, &all)
}

fn write_past(state: &Path, mirror: &str, all: &[Past]) -> Result<(), Failure> {
    let path = journal::make_subfolder(state, PAST)?.join(format!("{mirror}.json"));
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(format_args!("{} cannot be written", path.display()), cause, "make room in the state directory")
    };
    let bytes = serde_json::to_vec_pretty(all).map_err(|cause| failed(&cause))?;
    files::replace(&path, &bytes).map_err(|cause| failed(&cause))
}
