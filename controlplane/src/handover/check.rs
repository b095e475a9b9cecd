//! What the started broker serves, asked as any client would, held against what was handed over.

mod asking;
mod batches;
mod groups;

use asking::Asking;
use batches::Wanted;

use crate::failure::Failure;
use crate::handover::journal::{Journal, Partition, Topic};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

/// ListOffsets: the log start.
const EARLIEST: i64 = -2;
/// ListOffsets: the log end, or the last stable offset.
const LATEST: i64 = -1;
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;
/// What a stray directory ends with.
const STRAY: &str = "-stray";

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Everything is as it should be.
    pub ok: bool,
    /// What is not.
    pub failures: Vec<String>,
    /// Every partition.
    pub partitions: Vec<Row>,
    /// Batches that were fetched and compared.
    pub compared_batches: usize,
    /// Groups whose offsets were read.
    pub groups: usize,
    /// Offsets of theirs.
    pub committed_offsets: usize,
    /// Those of them that are what was handed over.
    pub equal_offsets: usize,
    /// Those that were there and went on since then.
    pub advanced_offsets: usize,
    /// Those that nothing is compared with: more were handed over than are written down one by one. Only that none lies beyond the end
    /// of its log is known of them.
    pub uncompared_offsets: usize,
    /// "Appending N bootstrap record(s)" in the broker's output; `None` when the output does not say.
    pub bootstrap_records: Option<usize>,
}

/// A partition as the broker serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Topic.
    pub topic: String,
    /// Index.
    pub partition: i32,
    /// Its leader's epoch.
    pub leader_epoch: i32,
    /// The highest epoch before.
    pub epoch_max: i32,
    /// Log start.
    pub log_start_offset: i64,
    /// Log end.
    pub log_end_offset: i64,
    /// Last stable offset.
    pub last_stable_offset: i64,
    /// Where mirroring ended: the first offset that is not the source's.
    pub last_mirrored_offset: i64,
}

/// Asks the broker at `address`; what was written down of groups lies in `state`. Its clients come first: see `check/asking.rs`.
///
/// # Errors
/// When it does not answer.
pub fn check(journal: &Journal, state: &Path, address: &str) -> Result<Checked, Failure> {
    let mut broker = Asking::begin(address)?;
    let mut checked = partitions(&mut broker, journal)?;
    groups::check(&mut broker, journal, state, &mut checked)?;
    directories(journal, &mut checked);
    output(journal, &mut checked);
    checked.ok = checked.failures.is_empty();
    Ok(checked)
}

/// What of it is about partitions alone.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn check_partitions(journal: &Journal, address: &str) -> Result<Checked, Failure> {
    partitions(&mut Asking::begin(address)?, journal)
}

/// The log ends once the broker leads every partition, or when time is up.
///
/// # Errors
/// When the broker does not answer.
pub(super) fn ends(journal: &Journal, address: &str) -> Result<Offsets, Failure> {
    list(&mut Asking::begin(address)?, journal, LATEST, READ_UNCOMMITTED)
}

/// Who leads them, topic ids, offsets, a sample of batches.
fn partitions(broker: &mut Asking, journal: &Journal) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    // A broker takes over its partitions one after the other once it serves, some milliseconds each.
    let ends = list(broker, journal, LATEST, READ_UNCOMMITTED)?;
    let metadata = settled(broker, journal, &mut checked)?;
    identities(journal, &metadata, &mut checked);
    offsets(broker, journal, &ends, &mut checked)?;
    samples(broker, journal, &mut checked)?;
    Ok(checked)
}

/// Metadata once every partition has a leader, or when time is up.
fn settled(broker: &mut Asking, journal: &Journal, checked: &mut Checked) -> Result<MetadataResponse, Failure> {
    let wanted = |topic: &Topic| MetadataRequestTopic { name: Some(topic.topic.clone()), ..Default::default() };
    let topics = Some(journal.topics.iter().map(wanted).collect());
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    loop {
        let answer = broker.ask(&request)?;
        let mut missing = Vec::new();
        for topic in &answer.topics {
            let name = topic.name.as_deref().unwrap_or_default();
            if topic.error_code != 0 {
                missing.push(format!("topic {name}: {}", ErrorCode(topic.error_code)));
            }
            let leaderless = topic.partitions.iter().filter(|p| p.leader_id < 0 || p.error_code != 0);
            missing.extend(leaderless.map(|p| format!("{name}-{} has no leader", p.partition_index)));
        }
        if missing.is_empty() {
            return Ok(answer);
        }
        if !broker.wait() {
            checked.failures.extend(missing);
            return Ok(answer);
        }
    }
}

fn identities(journal: &Journal, metadata: &MetadataResponse, checked: &mut Checked) {
    if metadata.cluster_id.as_deref() != Some(journal.cluster_id.as_str()) {
        checked
            .failures
            .push(format!("the broker is of cluster {:?}, not {}", metadata.cluster_id, journal.cluster_id));
    }
    let found: BTreeMap<&str, _> = metadata.topics.iter().filter_map(|t| Some((t.name.as_deref()?, t))).collect();
    for topic in &journal.topics {
        let Some(there) = found.get(topic.topic.as_str()) else {
            checked.failures.push(format!("topic {} is not there", topic.topic));
            continue;
        };
        if there.topic_id.to_string() != topic.topic_id {
            checked.failures.push(format!("topic {} has id {}, not {}", topic.topic, there.topic_id, topic.topic_id));
        }
        for partition in &topic.partitions {
            let at = there.partitions.iter().find(|p| p.partition_index == partition.partition);
            let epoch = at.map_or(-1, |p| p.leader_epoch);
            if epoch <= partition.epoch_max {
                let name = format!("{}-{}", topic.topic, partition.partition);
                checked.failures.push(format!("{name} has leader epoch {epoch}, not above {}", partition.epoch_max));
            }
            checked.partitions.push(Row {
                topic: topic.topic.clone(),
                partition: partition.partition,
                leader_epoch: epoch,
                epoch_max: partition.epoch_max,
                log_start_offset: -1,
                log_end_offset: -1,
                last_stable_offset: -1,
                last_mirrored_offset: partition.last_mirrored_offset,
            });
        }
    }
}

pub(super) type Offsets = BTreeMap<(String, i32), Result<i64, ErrorCode>>;

/// The offsets once the broker leads every partition itself, or when time is up: the controller says so a little earlier. Until then one
/// partition at a time is asked for.
fn list(broker: &mut Asking, journal: &Journal, timestamp: i64, isolation_level: i8) -> Result<Offsets, Failure> {
    let of_topic = |t: &Topic| t.partitions.iter().map(|p| (t.topic.clone(), p.partition)).collect::<Vec<_>>();
    let mut waiting: Vec<(String, i32)> = journal.topics.iter().flat_map(of_topic).collect();
    let mut offsets = Offsets::new();
    let is_later = |found: &Result<i64, ErrorCode>| found.as_ref().is_err_and(|code| code.is_retriable());
    while let Some(one) = waiting.last() {
        let first = list_now(broker, std::slice::from_ref(one), timestamp, isolation_level)?;
        if first.values().any(is_later) && broker.wait() {
            continue;
        }
        let now = list_now(broker, &waiting, timestamp, isolation_level)?;
        // Those that it says nothing of are not there, which is told as such.
        waiting.retain(|key| now.get(key).is_some_and(is_later));
        offsets.extend(now);
        if !waiting.is_empty() && !broker.wait() {
            break;
        }
    }
    Ok(offsets)
}

fn list_now(
    broker: &mut Asking,
    of: &[(String, i32)],
    timestamp: i64,
    isolation_level: i8,
) -> Result<Offsets, Failure> {
    let mut topics: Vec<ListOffsetsTopic> = Vec::new();
    for (name, partition_index) in of {
        let partition = ListOffsetsPartition { partition_index: *partition_index, timestamp, ..Default::default() };
        match topics.last_mut().filter(|topic| topic.name == *name) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(ListOffsetsTopic { name: name.clone(), partitions: vec![partition] }),
        }
    }
    let answer = broker.ask(&ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() })?;
    let mut offsets = Offsets::new();
    for topic in answer.topics {
        for p in topic.partitions {
            let found = if p.error_code == 0 { Ok(p.offset) } else { Err(ErrorCode(p.error_code)) };
            offsets.insert((topic.name.clone(), p.partition_index), found);
        }
    }
    Ok(offsets)
}

/// Log start, log end and last stable offset. Clients may have begun to write: the log may be longer than what was handed over.
fn offsets(broker: &mut Asking, journal: &Journal, ends: &Offsets, checked: &mut Checked) -> Result<(), Failure> {
    let starts = list(broker, journal, EARLIEST, READ_UNCOMMITTED)?;
    let stable = list(broker, journal, LATEST, READ_COMMITTED)?;
    let planned: BTreeMap<(&str, i32), &Partition> = journal
        .topics
        .iter()
        .flat_map(|t| t.partitions.iter().map(move |p| ((t.topic.as_str(), p.partition), p)))
        .collect();
    let Checked { partitions, failures, .. } = checked;
    for row in partitions {
        let name = format!("{}-{}", row.topic, row.partition);
        let key = (row.topic.clone(), row.partition);
        let mut get = |from: &Offsets, what: &str| match from.get(&key) {
            Some(Ok(offset)) => *offset,
            Some(Err(code)) => {
                failures.push(format!("{name}: the {what} is not told: {code}"));
                -1
            }
            None => {
                failures.push(format!("{name}: the {what} is not told"));
                -1
            }
        };
        row.log_start_offset = get(&starts, "log start");
        row.log_end_offset = get(ends, "log end");
        row.last_stable_offset = get(&stable, "last stable offset");
        let Some(wanted) = planned.get(&(row.topic.as_str(), row.partition)) else { continue };
        let end = wanted.end_offset.unwrap_or(wanted.last_mirrored_offset);
        if row.log_start_offset != wanted.log_start_offset {
            failures.push(format!("{name} begins at {}, not {}", row.log_start_offset, wanted.log_start_offset));
        }
        if row.log_end_offset < end {
            failures.push(format!("{name} ends at {}, not {end}", row.log_end_offset));
        }
        if row.last_stable_offset < end {
            failures
                .push(format!("{name}: readers of committed records stop at {}, not {end}", row.last_stable_offset));
        }
    }
    Ok(())
}

/// The first and the last batch of every partition.
fn samples(broker: &mut Asking, journal: &Journal, checked: &mut Checked) -> Result<(), Failure> {
    let (mut wanted, mut samples) = (Vec::new(), Vec::new());
    let most = journal.topics.iter().flat_map(|t| &t.partitions).map(|p| p.samples.len()).max().unwrap_or(0);
    // The first of all partitions, then the second: a request holds one of each.
    for at in 0..most {
        for topic in &journal.topics {
            let id: Uuid = topic.topic_id.parse().unwrap_or_default();
            for partition in &topic.partitions {
                let Some(sample) = partition.samples.get(at) else { continue };
                // Records before the log start within the first batch are not served, so the batch is asked for by its last offset.
                let offset = sample.last_offset.max(partition.log_start_offset);
                let (topic, size_bytes) = (topic.topic.as_str(), sample.size_bytes);
                wanted.push(Wanted { topic, id, partition: partition.partition, offset, size_bytes });
                samples.push(sample);
            }
        }
    }
    let found = batches::fetch(broker, &wanted)?;
    for ((of, sample), found) in wanted.iter().zip(samples).zip(found) {
        let (name, offset) = (format!("{}-{}", of.topic, of.partition), of.offset);
        match found {
            Ok(found) if sample.is(&found) => checked.compared_batches += 1,
            Ok(found) => checked
                .failures
                .push(format!("{name}: the batch at offset {offset} is {found:?}, and {sample:?} was handed over")),
            Err(why) => checked.failures.push(format!("{name}: offset {offset}: {why}")),
        }
    }
    Ok(())
}

/// A broker renames what it does not know of.
fn directories(journal: &Journal, checked: &mut Checked) {
    for dir in &journal.log_dirs {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let strays = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(STRAY));
        checked.failures.extend(strays.map(|entry| format!("the broker put aside {}", entry.path().display())));
    }
}

/// The broker says how many records its metadata began with.
fn output(journal: &Journal, checked: &mut Checked) {
    let Some(server) = &journal.server else { return };
    checked.bootstrap_records = appended(&server.log);
    if let (Some(said), Some(wanted)) = (checked.bootstrap_records, journal.bootstrap_records)
        && said != wanted
    {
        checked.failures.push(format!("the broker began with {said} records of metadata, not {wanted}"));
    }
}

/// N of the last "Appending N bootstrap record(s)".
fn appended(log: &Path) -> Option<usize> {
    let text = fs::read(log).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, after) = text.rsplit_once("Appending ").filter(|(_, after)| after.contains(" bootstrap record(s)"))?;
    after.split(' ').next()?.parse().ok()
}
