//! pure: judges what a survey found: what keeps a hand-over from being done, what a person should know before, what would be lost.

pub mod node;
pub mod topics;

use crate::handover::facts::{Facts, Partition, Topic, epoch_max};
use crate::handover::inherited::{self, CarriedSetting};
use serde::Serialize;

/// Producer ids are handed out in blocks of so many.
const PRODUCER_IDS_BLOCK: i64 = 1_000;
/// Ids that the source may have given out beyond those that we saw.
const PRODUCER_IDS_MARGIN: i64 = 1_000_000;

/// What was asked for besides.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// The cluster id that the node must have, or is to get.
    pub cluster_id: Option<String>,
    /// Refuse what would lose records.
    pub no_forced: bool,
}

/// Whether the source is there to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The source answers: everything that it has is waited for.
    Planned,
    /// It does not, or time is up: what is missing is lost.
    Forced,
}

/// Something that was found, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Finding {
    /// What it is, with the names that matter.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

impl Finding {
    /// A finding.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// The mirror.
    pub mirror: String,
    /// Whether the source answers.
    pub mode: Mode,
    /// Why the source does not answer.
    pub source_error: Option<String>,
    /// When the source last answered, ms since 1970.
    pub source_answered_at_ms: Option<i64>,
    /// The node's properties file.
    pub to: String,
    /// The node's id.
    pub node_id: i32,
    /// Its cluster id; `None` when it is to be laid out.
    pub cluster_id: Option<String>,
    /// What it was formatted for.
    pub broker_release: Option<String>,
    /// What keeps the hand-over from being done.
    pub blockers: Vec<Finding>,
    /// What a person should know.
    pub warnings: Vec<Finding>,
    /// Every partition, with what would be lost if the source were gone now.
    pub partitions: Vec<Row>,
    /// All partitions together.
    pub loss: Loss,
    /// Partitions of which it is not known what would be lost.
    pub loss_unknown_partitions: usize,
    /// Transactions that are open in a partition.
    pub open_transactions: Vec<OpenTransaction>,
    /// Committed offsets beyond the end of a log.
    pub clamped_offsets: Vec<Clamped>,
    /// The first producer id that the node gives out.
    pub next_producer_id: i64,
    /// Settings that topics are given because they hold at the source and not at the node.
    pub carried_settings: Vec<CarriedSetting>,
    /// Access rules that the node gets.
    pub acls: usize,
    /// Quotas of clients that it gets.
    pub quotas: usize,
}

/// What would be lost; `None` = not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// Records, control records among them.
    pub records: Option<i64>,
    /// Bytes, estimated.
    pub bytes: Option<i64>,
    /// The time whose records are missing, ms.
    pub ms: Option<i64>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Topic.
    pub topic: String,
    /// Index.
    pub partition: i32,
    /// State by name.
    pub state: String,
    /// Where our log starts.
    pub log_start_offset: Option<i64>,
    /// What is on disk for sure, or where mirroring ended.
    pub log_end_offset: Option<i64>,
    /// The source's high watermark when it last answered.
    pub source_offset: Option<i64>,
    /// Highest mirrored or known leader epoch.
    pub epoch_max: i32,
    /// Bytes on disk.
    pub bytes: Option<u64>,
    /// What would be lost if the source were gone now.
    pub loss: Loss,
}

/// A transaction that no marker has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenTransaction {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its first record.
    pub first_offset: i64,
    /// Its producer.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The transactional id, when `__transaction_state` names it.
    pub transactional_id: Option<String>,
    /// What happens to it.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// An offset of a group that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Clamped {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// What was committed.
    pub from: i64,
    /// What it becomes.
    pub to: i64,
}

/// Judges.
#[must_use]
pub fn judge(facts: &Facts, wishes: &Wishes) -> Preflight {
    judge_with(facts, wishes, |blockers, warnings| node::judge(facts, wishes, blockers, warnings))
}

/// Judges; `receiver` adds what it has against whoever is to serve the topics.
pub fn judge_with(
    facts: &Facts,
    wishes: &Wishes,
    receiver: impl FnOnce(&mut Vec<Finding>, &mut Vec<Finding>),
) -> Preflight {
    let mode = if facts.source.answers.is_ok() { Mode::Planned } else { Mode::Forced };
    let rows: Vec<Row> =
        facts.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| row(&topic.name, p))).collect();
    let (mut blockers, mut warnings) = (Vec::new(), Vec::new());
    receiver(&mut blockers, &mut warnings);
    topics::judge(facts, &mut blockers, &mut warnings);
    let open_transactions = topics::open_transactions(facts);
    let (loss, loss_unknown_partitions) = total(&rows);
    topics::risks(facts, mode, &loss, loss_unknown_partitions, wishes, &mut blockers, &mut warnings);
    Preflight {
        mirror: facts.mirror.clone(),
        mode,
        source_error: facts.source.answers.clone().err(),
        source_answered_at_ms: facts.source.answered_at_ms,
        to: facts.node.properties.display().to_string(),
        node_id: facts.node.id,
        cluster_id: facts.node.cluster_id.clone(),
        broker_release: facts.node.release.clone(),
        blockers,
        warnings,
        partitions: rows,
        loss,
        loss_unknown_partitions,
        open_transactions,
        clamped_offsets: topics::clamped(facts),
        next_producer_id: next_producer_id(facts),
        carried_settings: inherited::grouped(facts.topics.iter().map(|topic| topic.carried(&facts.node))),
        acls: facts.acls.len(),
        quotas: facts.quotas.len(),
    }
}

/// What is on disk for sure, or where mirroring ended.
fn log_end(partition: &Partition) -> Option<i64> {
    let end = partition.last_mirrored.filter(|_| partition.state == "STOPPED").map(|(offset, _)| offset);
    end.or(partition.flushed).or(partition.files.as_ref().ok().map(|files| files.end))
}

/// How many records it lacks; none when that is not known: of what stands still the source's end is known that was then.
fn missing(partition: &Partition) -> Option<i64> {
    if !partition.flows() {
        return None;
    }
    match (partition.source_end, log_end(partition)) {
        (Some(source), Some(end)) => Some((source - end).max(0)),
        _ => partition.lag,
    }
}

fn row(topic: &str, partition: &Partition) -> Row {
    let files = partition.files.as_ref().ok();
    let (end, records) = (log_end(partition), missing(partition));
    // Nothing that is missing has no bytes and no time.
    let none = (records == Some(0)).then_some(0);
    Row {
        topic: topic.to_owned(),
        partition: partition.index,
        state: partition.state.clone(),
        log_start_offset: files.map(|files| files.start),
        log_end_offset: end,
        source_offset: partition.source_end,
        epoch_max: epoch_max(partition),
        bytes: files.map(|files| files.bytes),
        loss: Loss {
            records,
            bytes: none.or(partition.lag_bytes.filter(|_| partition.flows())),
            ms: partition.lag_ms.or(none),
        },
    }
}

/// The sums over partitions of which it is known, the longest time, and how many are not known.
fn total(rows: &[Row]) -> (Loss, usize) {
    let known = || rows.iter().filter_map(|row| row.loss.records);
    let unknown = rows.len() - known().count();
    let bytes: Option<i64> = rows.iter().map(|row| row.loss.bytes).sum();
    let ms: Option<Vec<i64>> = rows.iter().map(|row| row.loss.ms).collect();
    let loss = Loss {
        records: (unknown == 0).then(|| known().sum()),
        bytes,
        ms: ms.map(|times| times.into_iter().max().unwrap_or(0)),
    };
    (loss, unknown)
}

/// Above every id that was seen, with a margin for those that were given out and wrote nothing here.
#[must_use]
pub fn next_producer_id(facts: &Facts) -> i64 {
    let producers = facts.topics.iter().flat_map(Topic::files).flat_map(|(_, files)| &files.producers);
    let in_files = producers.map(|producer| producer.producer_id).max().unwrap_or(-1);
    let known = facts.resolution.as_ref().map_or(-1, |resolution| resolution.highest_producer_id);
    let least = in_files.max(known).saturating_add(1 + PRODUCER_IDS_MARGIN);
    least.saturating_add(PRODUCER_IDS_BLOCK - 1) / PRODUCER_IDS_BLOCK * PRODUCER_IDS_BLOCK
}

#[cfg(test)]
pub(in crate::handover) mod tests;
