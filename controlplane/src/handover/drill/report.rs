//! What a drill has measured and found: as JSON for programs, as text for people; kept beside the journals of hand-overs.

use super::copies::Cloned;
use super::produce::Produced;
use crate::failure::Failure;
use crate::files;
use crate::handover::check::Checked;
use crate::handover::journal::{self, Journal};
use crate::handover::preflight::{Clamped, Finding, Loss, Mode, OpenTransaction, Row, topics::in_words};
use crate::handover::report::noted;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of reports and of brokers' output, beside the journals.
pub(super) const FOLDER: &str = "drills";
/// Partitions that the text names.
const NAMED_MAX: usize = 20;

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The mirror.
    pub mirror: String,
    /// The broker served what was copied, and took a record behind it.
    pub ok: bool,
    /// When the command began, ms since 1970.
    pub begun_at_ms: i64,
    /// From the beginning of the command to the first acknowledged record, ms.
    pub rto_ms: u64,
    /// What that consists of, and the check behind it.
    pub parts: Parts,
    /// What would have been lost if the source had gone when the copies were made.
    pub rpo: Loss,
    /// Partitions of which it is not known.
    pub rpo_unknown_partitions: usize,
    /// Whether the source answered.
    pub mode: Mode,
    /// Every partition.
    pub partitions: Vec<Row>,
    /// What the copies consist of.
    pub clone: Cloned,
    /// The first acknowledged record.
    pub produced: Produced,
    /// What the broker served.
    pub checked: Checked,
    /// What was said before.
    pub warnings: Vec<Finding>,
    /// Transactions that were ended in the copies.
    pub open_transactions: Vec<OpenTransaction>,
    /// Offsets of groups that were changed in the copies.
    pub clamped_offsets: Vec<Clamped>,
    /// The broker's cluster, which nobody else has.
    pub cluster_id: String,
    /// The broker's output.
    pub server_log: Option<PathBuf>,
    /// The folder of the drill.
    pub folder: PathBuf,
    /// It is still there.
    pub kept: bool,
}

/// Where the time went, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parts {
    /// Looking and copying; a hand-over stops the topics instead.
    pub clone_ms: u64,
    /// Deciding, finishing the files, laying out the node.
    pub finish_ms: u64,
    /// From the start of the process to its first answer.
    pub start_ms: u64,
    /// From there to the first acknowledged record.
    pub produce_ms: u64,
    /// The check, which clients do not wait for.
    pub check_ms: u64,
}

impl Parts {
    /// The parts by the times since the beginning at which each was over.
    #[must_use]
    pub fn new(clone: Duration, finish: Duration, serve: Duration, produce: Duration, check: Duration) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let between = |from: Duration, to: Duration| ms(to).saturating_sub(ms(from));
        Self {
            clone_ms: ms(clone),
            finish_ms: between(clone, finish),
            start_ms: between(finish, serve),
            produce_ms: between(serve, produce),
            check_ms: between(produce, check),
        }
    }

    fn rto_ms(&self) -> u64 {
        self.clone_ms + self.finish_ms + self.start_ms + self.produce_ms
    }
}

/// What a drill tells besides its journal.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) begun_at_ms: i64,
    pub(super) parts: Parts,
    pub(super) cloned: Cloned,
    pub(super) produced: Produced,
    pub(super) checked: Checked,
    pub(super) folder: PathBuf,
}

impl Report {
    pub(super) fn new(journal: &Journal, partitions: Vec<Row>, told: Told, kept: bool) -> Self {
        let journal = journal.clone();
        let mut checked = told.checked;
        if told.produced.offset != told.produced.end_offset {
            let Produced { topic, partition, offset, end_offset } = &told.produced;
            checked
                .failures
                .push(format!("{topic}-{partition} gave offset {offset} to the first record, not {end_offset}"));
            checked.ok = false;
        }
        Self {
            mirror: journal.mirror,
            ok: checked.ok,
            begun_at_ms: told.begun_at_ms,
            rto_ms: told.parts.rto_ms(),
            parts: told.parts,
            rpo: journal.loss,
            rpo_unknown_partitions: journal.loss_unknown_partitions,
            mode: journal.mode,
            partitions,
            clone: told.cloned,
            produced: told.produced,
            checked,
            warnings: journal.warnings,
            open_transactions: journal.open_transactions,
            clamped_offsets: journal.clamped_offsets,
            cluster_id: journal.cluster_id,
            server_log: journal.server.map(|server| server.log),
            folder: told.folder,
            kept,
        }
    }

    /// Writes it into a folder beside the journals, and to `file` when there is one.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, state: &Path, file: Option<&Path>) -> Result<(), Failure> {
        let failed = |path: &Path, cause: &dyn std::fmt::Display| {
            let what = format!("the report {} cannot be written", path.display());
            Failure::new(what, cause, "the drill itself is over, and everything of it is gone")
        };
        let folder = journal::make_subfolder(state, FOLDER)?;
        let json = folder.join(format!("{}.json", self.mirror));
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|cause| failed(&json, &cause))?;
        bytes.push(b'\n');
        files::replace(&json, &bytes).map_err(|cause| failed(&json, &cause))?;
        let text = folder.join(format!("{}.txt", self.mirror));
        files::replace(&text, self.text().as_bytes()).map_err(|cause| failed(&text, &cause))?;
        match file {
            Some(file) => std::fs::write(file, &bytes).map_err(|cause| failed(file, &cause)),
            None => Ok(()),
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let mut line = |text: std::fmt::Arguments<'_>| {
            let _infallible = writeln!(out, "{text}");
        };
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let parts = &self.parts;
        let result = if self.ok { "went well" } else { "went WRONG" };
        line(format_args!("drill of mirror {} {result}", self.mirror));
        line(format_args!("RTO           {:.3} s to the first acknowledged record", seconds(self.rto_ms)));
        for (name, ms) in [
            ("clone", parts.clone_ms),
            ("finish", parts.finish_ms),
            ("start", parts.start_ms),
            ("produce", parts.produce_ms),
        ] {
            line(format_args!("              {:>9.3} s  {name}", seconds(ms)));
        }
        line(format_args!("              {:>9.3} s  check, beside it", seconds(parts.check_ms)));
        let rpo = in_words(&self.rpo, self.rpo_unknown_partitions);
        line(format_args!("RPO           {}", rpo.trim_start_matches("lost if it were gone now: ")));
        for row in self.partitions.iter().filter(|row| row.loss.records != Some(0)).take(NAMED_MAX) {
            let known = |value: Option<i64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
            let Loss { records, bytes, ms } = row.loss;
            line(format_args!(
                "              {}-{}: {} records, {} bytes, {} ms",
                row.topic,
                row.partition,
                known(records),
                known(bytes),
                known(ms)
            ));
        }
        let clone = &self.clone;
        line(format_args!("linked        {} files, {} bytes", clone.linked_files, clone.linked_bytes));
        line(format_args!("reflinked     {} files, {} bytes", clone.reflinked_files, clone.reflinked_bytes));
        line(format_args!("copied        {} files, {} bytes", clone.copied_files, clone.copied_bytes));
        line(format_args!(
            "first record  {}-{} at {}",
            self.produced.topic, self.produced.partition, self.produced.offset
        ));
        for noted in noted(&self.warnings, &self.open_transactions, &[]) {
            line(format_args!("{noted}"));
        }
        let checked = &self.checked;
        line(format_args!(
            "checked       {} partitions, {} batches compared, {} of {} offsets of {} groups as copied",
            checked.partitions.len(),
            checked.compared_batches,
            checked.equal_offsets,
            checked.committed_offsets,
            checked.groups
        ));
        checked.failures.iter().for_each(|failure| line(format_args!("WRONG         {failure}")));
        if self.kept {
            line(format_args!("kept          {}", self.folder.display()));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_come_to_the_time_of_the_first_record_and_the_check_is_beside() {
        let parts = Parts::new(
            Duration::from_millis(100),
            Duration::from_millis(250),
            Duration::from_millis(2250),
            Duration::from_millis(2300),
            Duration::from_millis(2900),
        );
        let all = Parts { clone_ms: 100, finish_ms: 150, start_ms: 2000, produce_ms: 50, check_ms: 600 };
        assert_eq!((parts, parts.rto_ms()), (all, 2300));
    }
}
