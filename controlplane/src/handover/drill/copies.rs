//! The copies that are handed over: asked of the control plane how far each partition is durable, copied up to there by the data plane's
//! program. A partition that has moved on meanwhile is asked for again.

use super::room::Room;
use super::{Asked, interrupt};
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::survey::{self, Copied, Copies};
use crate::handover::{owner, surgeon};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;
use twinlog_proto::assignment::Assignment;
use twinlog_proto::handover::plan::{HandOverPlan, HandedPartition, PlannedPartition};
use twinlog_proto::messages::describe_mirrors::{DescribedMirror, PartitionDetail, TopicPartitions};
use twinlog_proto::storage::names;

/// How often partitions that have moved on are asked for.
const ROUNDS_MAX: u32 = 10;
/// The time between.
const PAUSE: Duration = Duration::from_millis(300);
/// Partitions that a message names.
const NAMED_MAX: usize = 5;

/// Files and bytes of the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cloned {
    /// Names of the mirror's own files.
    pub linked_files: i64,
    /// Their bytes.
    pub linked_bytes: i64,
    /// Files that share their blocks with the mirror's.
    pub reflinked_files: i64,
    /// Their bytes.
    pub reflinked_bytes: i64,
    /// Files that were copied.
    pub copied_files: i64,
    /// Their bytes.
    pub copied_bytes: i64,
}

impl Cloned {
    fn add(&mut self, of: &HandedPartition) {
        self.linked_files += of.linked_files;
        self.linked_bytes += of.linked_bytes;
        self.reflinked_files += of.shared_files;
        self.reflinked_bytes += of.shared_bytes;
        self.copied_files += of.copied_files;
        self.copied_bytes += of.copied_bytes;
    }
}

type Key = (String, i32);

/// Makes them.
pub(super) fn make(
    client: &mut Client,
    asked: &Asked,
    assignment: &Assignment,
    room: &Room,
) -> Result<(Copies, Cloned), Failure> {
    client.need_mirrors()?;
    let described = survey::describe(client, &asked.mirror, &[])?;
    let (chosen, _) = survey::choose(&described.topics, &asked.topics)?;
    if let Some((topic, to)) = chosen.iter().find_map(|topic| Some((topic, topic.handed_over_to.as_ref()?))) {
        return Err(Failure::new(
            format_args!("topic {} is not rehearsed with", topic.topic_name),
            format_args!("it is handed over to {to} already"),
            "take it back with `twinlog reclaim`, or name others with --topic",
        ));
    }
    let mut wanted: BTreeSet<Key> = chosen.iter().flat_map(keys).collect();
    let (mut copies, mut cloned) = (Copies { described, partitions: BTreeMap::new() }, Cloned::default());
    for round in 0..ROUNDS_MAX {
        if round > 0 {
            sleep(PAUSE);
            let now = survey::describe(client, &asked.mirror, &[])?;
            renew(&mut copies.described, now, &wanted);
        }
        interrupt::check()?;
        let plan = plan(&copies.described, assignment, &wanted, asked, room);
        let path = room.state().join("clone.plan");
        surgeon::write_plan(&path, &plan)?;
        wanted.clear();
        for of in surgeon::clone(&path)?.partitions {
            let key = (of.topic.clone(), of.index);
            if of.moved {
                wanted.insert(key);
                continue;
            }
            cloned.add(&of);
            let copied = Copied { data: room.copies(), end: of.end_offset, last_epoch: of.last_epoch };
            copies.partitions.insert(key, copied);
        }
        if wanted.is_empty() {
            let folder = room.copies();
            let all = copies.partitions.keys().map(|(topic, index)| names::partition_dir(topic, *index));
            owner::give_directories(&all.map(|name| (folder.as_path(), name)).collect::<Vec<_>>())?;
            return Ok((copies, cloned));
        }
    }
    let named: Vec<String> =
        wanted.iter().take(NAMED_MAX).map(|(topic, index)| names::partition_dir(topic, *index)).collect();
    Err(Failure::new(
        format_args!("{} cannot be copied ({} partitions in all)", named.join(", "), wanted.len()),
        "they went on changing, or have no files up to the offset that is durable",
        "look with `twinlog mirrors describe`; run the drill again, or leave them out with --topic",
    ))
}

fn keys(topic: &TopicPartitions) -> impl Iterator<Item = Key> {
    topic.partitions.iter().map(|partition| (topic.topic_name.clone(), partition.partition_index))
}

/// Takes what is said now of these partitions.
fn renew(described: &mut DescribedMirror, now: DescribedMirror, wanted: &BTreeSet<Key>) {
    let mut fresh: BTreeMap<Key, PartitionDetail> = BTreeMap::new();
    for topic in now.topics {
        for detail in topic.partitions {
            fresh.insert((topic.topic_name.clone(), detail.partition_index), detail);
        }
    }
    for topic in &mut described.topics {
        for detail in &mut topic.partitions {
            let key = (topic.topic_name.clone(), detail.partition_index);
            if let Some(now) = fresh.remove(&key).filter(|_| wanted.contains(&key)) {
                *detail = now;
            }
        }
    }
}

/// A plan for these partitions; one without a directory is left out, and the preflight says so.
fn plan(
    described: &DescribedMirror,
    assignment: &Assignment,
    wanted: &BTreeSet<Key>,
    asked: &Asked,
    room: &Room,
) -> HandOverPlan {
    let directories = survey::directories(assignment);
    let mut partitions = Vec::new();
    for topic in &described.topics {
        let shape = survey::shape(assignment, &topic.topic_name);
        for detail in &topic.partitions {
            let key = (topic.topic_name.clone(), detail.partition_index);
            let directory = directories.get(&(topic.topic_name.as_str(), detail.partition_index));
            let Some(data) = directory.filter(|_| wanted.contains(&key)) else { continue };
            let end = survey::durable_end(detail);
            partitions.push(PlannedPartition {
                topic: topic.topic_name.clone(),
                index: detail.partition_index,
                topic_id: topic.topic_id,
                data_directory: data.display().to_string(),
                log_directory: room.copies().display().to_string(),
                log_start_offset: detail.log_start_offset.clamp(0, end),
                last_mirrored_offset: end,
                segment_bytes: shape.segment_bytes,
                segment_index_bytes: shape.segment_index_bytes,
                index_interval_bytes: shape.index_interval_bytes,
                ..PlannedPartition::default()
            });
        }
    }
    HandOverPlan { mirror_name: asked.mirror.clone(), partitions, ..HandOverPlan::default() }
}
