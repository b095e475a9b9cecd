//! The report of a hand-over: what was done, what was lost, what was found afterwards. Kept as evidence, as JSON and as text.

use crate::failure::Failure;
use crate::files;
use crate::handover::check::Checked;
use crate::handover::inherited;
use crate::handover::journal::{self, Journal, Server, Step, Topic};
use crate::handover::preflight::{Clamped, Finding, Loss, Mode, OpenTransaction, topics::in_words};
use crate::handover::quotas::Quota;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The mirror.
    pub mirror: String,
    /// The directories are the node's, and a broker may start on them.
    pub promoted: bool,
    /// What was done last.
    pub step: &'static str,
    /// Whether the source was waited for.
    pub mode: Mode,
    /// The node's properties file.
    pub to: PathBuf,
    /// The node.
    pub node_id: i32,
    /// Its cluster.
    pub cluster_id: String,
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
    /// What was said before.
    pub warnings: Vec<Finding>,
    /// The topics with their partitions.
    pub topics: Vec<Topic>,
    /// Transactions that were ended in the files.
    pub open_transactions: Vec<OpenTransaction>,
    /// Offsets of groups that were changed in the files.
    pub clamped_offsets: Vec<Clamped>,
    /// Quotas of clients that the node has.
    pub quotas: Vec<Quota>,
    /// First producer id that the node gives out.
    pub next_producer_id: i64,
    /// Records that the node's metadata begins with.
    pub bootstrap_records: Option<usize>,
    /// How the broker is or was started; `None` when nobody knows.
    pub start_command: Option<String>,
    /// The broker that was started.
    pub server: Option<Server>,
    /// What it serves.
    pub checked: Option<Checked>,
}

impl Report {
    /// The report of what `journal` says.
    #[must_use]
    pub fn new(journal: &Journal, start_command: Option<String>, checked: Option<Checked>) -> Self {
        let journal = journal.clone();
        Self {
            promoted: journal.step >= Step::Promoted && !journal.undoing,
            step: journal.step.name(),
            mirror: journal.mirror,
            mode: journal.mode,
            to: journal.to,
            node_id: journal.node_id,
            cluster_id: journal.cluster_id,
            handed_over_to: journal.handed_over_to,
            begun_at_ms: journal.begun_at_ms,
            reached_at_ms: journal.reached_at_ms,
            loss: journal.loss,
            loss_unknown_partitions: journal.loss_unknown_partitions,
            warnings: journal.warnings,
            topics: journal.topics,
            open_transactions: journal.open_transactions,
            clamped_offsets: journal.clamped_offsets,
            quotas: journal.quotas,
            next_producer_id: journal.next_producer_id,
            bootstrap_records: journal.bootstrap_records,
            start_command,
            server: journal.server,
            checked,
        }
    }

    /// Writes it into a folder beside the journals, and to `file` when there is one.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, state: &Path, file: Option<&Path>) -> Result<(), Failure> {
        // A folder of its own: what lies beside the journals must not have the name of another mirror's.
        keep(state, ("reports", &self.mirror), self, &self.text(), file)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let mut line = |text: std::fmt::Arguments<'_>| {
            let _infallible = writeln!(out, "{text}");
        };
        let partitions: usize = self.topics.iter().map(|topic| topic.partitions.len()).sum();
        let done = if self.promoted { "is handed over" } else { "is being handed over" };
        line(format_args!("mirror {} {done} to {}", self.mirror, self.handed_over_to));
        line(format_args!("properties    {}", self.to.display()));
        line(format_args!("mode          {:?}", self.mode));
        line(format_args!("topics        {}, partitions {partitions}", self.topics.len()));
        let loss = in_words(&self.loss, self.loss_unknown_partitions);
        line(format_args!("loss          {}", loss.trim_start_matches("lost if it were gone now: ")));
        line(format_args!("producer ids  from {} on", self.next_producer_id));
        line(format_args!("quotas        {}", self.quotas.len()));
        for (step, at_ms) in sorted(&self.reached_at_ms) {
            line(format_args!("+{:>9.3} s  {step}", (at_ms - self.begun_at_ms) as f64 / 1000.0));
        }
        for noted in noted(&self.warnings, &self.open_transactions, &self.clamped_offsets) {
            line(format_args!("{noted}"));
        }
        for setting in inherited::grouped(self.topics.iter().map(|topic| topic.carried.clone())) {
            line(format_args!("setting       {}", setting.in_words()));
        }
        for topic in &self.topics {
            for p in &topic.partitions {
                let end = p.end_offset.map_or_else(|| "-".to_owned(), |end| end.to_string());
                line(format_args!(
                    "partition     {}-{} start {} mirrored to {} end {end}",
                    topic.topic, p.partition, p.log_start_offset, p.last_mirrored_offset
                ));
            }
        }
        if let Some(server) = &self.server {
            let ready = server.ready_ms.map_or_else(String::new, |ms| format!(", answered after {ms} ms"));
            line(format_args!("broker        process {}, output in {}{ready}", server.pid, server.log.display()));
        }
        self.checked.iter().flat_map(found).for_each(|text| line(format_args!("{text}")));
        if let (None, Some(command)) = (&self.server, &self.start_command) {
            line(format_args!("start with    {command}"));
        }
        out
    }
}

/// What was found at the started broker, in lines.
fn found(checked: &Checked) -> Vec<String> {
    if !checked.ok {
        return checked.failures.iter().map(|failure| format!("WRONG         {failure}")).collect();
    }
    let mut lines = vec![format!(
        "checked       {} partitions, {} batches compared, {} of {} offsets of {} groups as handed over, {} gone on since: all as it should be",
        checked.partitions.len(),
        checked.compared_batches,
        checked.equal_offsets,
        checked.committed_offsets,
        checked.groups,
        checked.advanced_offsets
    )];
    if checked.uncompared_offsets > 0 {
        lines.push(format!(
            "NOT COMPARED  {} offsets of groups: more were handed over than are written down one by one; none lies beyond its log",
            checked.uncompared_offsets
        ));
    }
    lines
}

/// Keeps a report of a mirror as JSON and as text, in this folder of hand-overs, and as JSON in `file` when there is one.
///
/// # Errors
/// As the file system says.
pub fn keep(
    state: &Path,
    (folder, mirror): (&str, &str),
    report: &impl Serialize,
    text: &str,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let failed = |path: &Path, cause: &dyn std::fmt::Display| {
        let what = format!("the report {} cannot be written", path.display());
        Failure::new(what, cause, "run the same command again: the hand-over itself is done as far as it says")
    };
    let folder = journal::make_subfolder(state, folder)?;
    let json = folder.join(format!("{mirror}.json"));
    let mut bytes = serde_json::to_vec_pretty(report).map_err(|cause| failed(&json, &cause))?;
    bytes.push(b'\n');
    files::replace(&json, &bytes).map_err(|cause| failed(&json, &cause))?;
    let path = folder.join(format!("{mirror}.txt"));
    files::replace(&path, text.as_bytes()).map_err(|cause| failed(&path, &cause))?;
    match file {
        Some(file) => std::fs::write(file, &bytes).map_err(|cause| failed(file, &cause)),
        None => Ok(()),
    }
}

/// What every report says of warnings, of transactions that were ended and of offsets that were lowered: a line each.
pub(super) fn noted(warnings: &[Finding], open: &[OpenTransaction], clamped: &[Clamped]) -> Vec<String> {
    let warning = |of: &Finding| format!("warning       {}; {}", of.what, of.remedy);
    let ended = |of: &OpenTransaction| {
        let id = of.transactional_id.as_deref().unwrap_or("unknown transactional id");
        let (topic, partition) = (&of.topic, of.partition);
        format!("transaction   {id} from {} of {topic}-{partition}: {}", of.first_offset, of.what)
    };
    let lowered = |of: &Clamped| {
        let (group, topic, partition) = (&of.group, &of.topic, of.partition);
        format!("group offset  {group} {topic}-{partition}: {} becomes {}", of.from, of.to)
    };
    warnings.iter().map(warning).chain(open.iter().map(ended)).chain(clamped.iter().map(lowered)).collect()
}

/// Steps by the time at which they were reached.
fn sorted(reached: &BTreeMap<String, i64>) -> Vec<(&str, i64)> {
    let mut all: Vec<(&str, i64)> = reached.iter().map(|(step, at)| (step.as_str(), *at)).collect();
    all.sort_by_key(|(step, at)| (*at, Step::ALL.iter().position(|known| known.name() == *step)));
    all
}
