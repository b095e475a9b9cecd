//! The plan, the record of the control plane, and the work of the data plane on the files.

use super::{HandOver, Say, look};
use crate::failure::Failure;
use crate::handover::facts::{self, Facts, Node, epoch_max};
use crate::handover::journal::{self, Acl, Journal, Partition, Topic};
use crate::handover::preflight::{self, node::places};
use crate::handover::survey::resolve::EPOCH_OF_OURS;
use crate::handover::{control, offsets, owner, surgeon, target};
use std::collections::BTreeMap;
use std::path::PathBuf;
use twinlog_proto::handover::batches;
use twinlog_proto::handover::plan::{self, HandOverPlan, PlannedPartition};
use twinlog_proto::handover::resolve::Appended;
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::storage::names;

/// A topic as it is written down first: its name and settings.
pub(in crate::handover) fn named(topic: &facts::Topic, node: &Node) -> Topic {
    Topic {
        topic: topic.name.clone(),
        topic_id: topic.id.to_string(),
        flowed: topic.partitions.iter().any(|partition| !matches!(partition.state.as_str(), "STOPPED" | "PAUSED")),
        configs: topic.configs.clone(),
        carried: topic.carried(node),
        partitions: Vec::new(),
    }
}

impl From<&AclBinding> for Acl {
    fn from(binding: &AclBinding) -> Self {
        let codes = binding.codes();
        Self {
            resource_type: codes.resource_type,
            resource_name: binding.resource_name.clone(),
            pattern_type: codes.pattern_type,
            principal: binding.principal.clone(),
            host: binding.host.clone(),
            operation: codes.operation,
            permission_type: codes.permission,
        }
    }
}

/// What ends open transactions, by partition, stamped with `leader_epoch` where that is not the partition's own; the journal is told.
pub(in crate::handover) fn appended<'f>(
    journal: &mut Journal,
    facts: &'f Facts,
    leader_epoch: Option<i32>,
) -> Result<BTreeMap<(&'f str, i32), Vec<u8>>, Failure> {
    let resolution = facts.resolution.as_ref().map_err(|why| {
        Failure::new("what becomes of open transactions cannot be told", why, "take everything back with --undo")
    })?;
    journal.open_transactions = preflight::topics::open_transactions(facts);
    journal.clamped_offsets = preflight::topics::clamped(facts);
    let encode = |of: &Appended| {
        let stamped = Appended { leader_epoch: leader_epoch.unwrap_or(of.leader_epoch), ..of.clone() };
        batches::encode(&stamped, facts.now_ms)
    };
    Ok(resolution.appended.iter().map(|of| ((of.topic.as_str(), of.partition), encode(of))).collect())
}

impl HandOver {
    /// Looks at the stopped files, decides what is appended and what goes where, and writes the plan.
    pub(super) fn plan(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("reading the stopped files");
        let node = target::look(&self.journal.to, self.journal.release.as_deref(), &[])?;
        let order = super::Order { topics: self.own_topics(), ..self.order.clone() };
        let facts = look(&mut control::connect(&self.order.control)?, &order, &node)?;
        let appended = appended(&mut self.journal, &facts, None)?;
        let devices = facts.topics.iter().flat_map(facts::Topic::files).map(|(_, files)| files.device);
        let mut places = places(&node, devices).into_iter();
        let (mut topics, mut planned) = (Vec::new(), Vec::new());
        for topic in &facts.topics {
            let flowed = self.journal.topics.iter().any(|before| before.topic == topic.name && before.flowed);
            let mut of_topic = Topic { flowed, ..named(topic, &node) };
            for partition in &topic.partitions {
                let files = partition.files.as_ref().map_err(|why| not_planned(&topic.name, partition.index, why))?;
                let place = places.next().flatten();
                let to = place.ok_or_else(|| {
                    not_planned(&topic.name, partition.index, "no log directory of the node is on its file system")
                })?;
                let batches = appended.get(&(topic.name.as_str(), partition.index)).cloned().unwrap_or_default();
                let leader_epoch = epoch_max(partition).saturating_add(EPOCH_OF_OURS).max(0);
                let (of_plan, of_journal) = of_partition(topic, partition, files)?;
                planned.push(PlannedPartition {
                    log_directory: self.journal.log_dirs[to].display().to_string(),
                    leader_epoch,
                    batches,
                    ..of_plan
                });
                of_topic.partitions.push(Partition { to, ..of_journal });
            }
            topics.push(of_topic);
        }
        self.journal.topics = topics;
        if let Ok(resolution) = &facts.resolution {
            offsets::save(&self.order.state, &self.journal.mirror, resolution)?;
        }
        self.journal.next_producer_id = preflight::next_producer_id(&facts);
        self.write_plan(&HandOverPlan {
            mirror_name: self.journal.mirror.clone(),
            partitions: planned,
            ..HandOverPlan::default()
        })
    }

    /// Topics by name as the survey takes them: internal ones come along by themselves.
    fn own_topics(&self) -> Vec<String> {
        self.names()
    }

    fn plan_path(&self) -> PathBuf {
        self.order.state.join(journal::FOLDER).join(format!("{}.plan", self.journal.mirror))
    }

    pub(super) fn write_plan(&self, plan: &HandOverPlan) -> Result<(), Failure> {
        surgeon::write_plan(&self.plan_path(), plan)
    }

    /// The plan as it was written.
    pub(super) fn read_plan(&self) -> Result<HandOverPlan, Failure> {
        surgeon::read_plan(&self.plan_path())
    }

    /// Has the control plane remember whose the topics are.
    pub(super) fn record(&mut self, returned: bool) -> Result<(), Failure> {
        let (order, to) = (&self.order, (self.journal.handed_over_to.as_str(), returned));
        let topics = if returned { control::named(self.names()) } else { control::ended(&self.journal.topics) };
        control::record(&order.control, &order.mirror, topics, to, "the hand-over is not recorded")
    }

    /// Has the data plane's program rename, append and finish.
    pub(super) fn move_directories(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let count: usize = self.journal.topics.iter().map(|topic| topic.partitions.len()).sum();
        say(&format!("moving {count} partition directories and finishing their files"));
        let result = self.operate()?;
        let ends: BTreeMap<(&str, i32), i64> =
            result.partitions.iter().map(|p| ((p.topic.as_str(), p.index), p.end_offset)).collect();
        for topic in &mut self.journal.topics {
            for partition in &mut topic.partitions {
                let end = ends.get(&(topic.topic.as_str(), partition.partition)).copied();
                partition.end_offset = Some(end.ok_or_else(|| {
                    not_planned(&topic.topic, partition.partition, "the data plane's program says nothing of it")
                })?);
            }
        }
        owner::give_partitions(&self.journal, false)
    }

    /// Runs the program on the plan that is there; gives what it says.
    pub(super) fn operate(&self) -> Result<plan::HandOverResult, Failure> {
        let locks = self.locks.as_ref().ok_or_else(|| {
            Failure::new("nothing is moved", "the log directories are not locked", "run the same command again")
        })?;
        surgeon::operate(&self.plan_path(), locks)
    }
}

/// A stopped partition as the plan and the journal tell of it; where it goes and what is appended is left open.
pub(in crate::handover) fn of_partition(
    topic: &facts::Topic,
    partition: &facts::Partition,
    files: &facts::Files,
) -> Result<(PlannedPartition, Partition), Failure> {
    let last = partition.last_mirrored.filter(|(last, _)| *last == files.end).ok_or_else(|| {
        let why = format!("its files end at {}, mirroring ended elsewhere", files.end);
        not_planned(&topic.name, partition.index, &why)
    })?;
    let from = files.directory.parent().map(PathBuf::from).unwrap_or_default();
    let planned = PlannedPartition {
        topic: topic.name.clone(),
        index: partition.index,
        topic_id: topic.id,
        data_directory: from.display().to_string(),
        log_start_offset: files.start,
        last_mirrored_offset: last.0,
        last_mirror_epoch: last.1,
        verify_from: -1,
        segment_bytes: topic.shape.segment_bytes,
        segment_index_bytes: topic.shape.segment_index_bytes,
        index_interval_bytes: topic.shape.index_interval_bytes,
        ..PlannedPartition::default()
    };
    let noted = Partition {
        partition: partition.index,
        from,
        to: 0,
        log_start_offset: files.start,
        last_mirrored_offset: last.0,
        last_mirror_epoch: last.1,
        epoch_max: epoch_max(partition),
        end_offset: None,
        samples: files.samples.clone(),
        segments: files.segments.clone(),
    };
    Ok((planned, noted))
}

pub(in crate::handover) fn not_planned(topic: &str, index: i32, why: &str) -> Failure {
    Failure::new(
        format_args!("{} is not handed over", names::partition_dir(topic, index)),
        why,
        "mend it, then run the same command again, or take everything back with --undo",
    )
}
