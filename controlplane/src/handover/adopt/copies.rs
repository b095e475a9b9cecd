//! The copies: planned from what the stopped files say, made by the data plane's program, and renamed by it.

use super::progress::Committed;
use super::{Adopting, Step, node, own};
use crate::failure::Failure;
use crate::handover::facts::Facts;
use crate::handover::journal::{self, Topic};
use crate::handover::locks::Locks;
use crate::handover::promote::{self, Say, work};
use crate::handover::{control, owner, surgeon, survey};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::PathBuf;
use twinlog_proto::handover::plan::{HandOverPlan, PlannedPartition};
use twinlog_proto::storage::names;

/// The leader epoch of partitions that a broker has just made.
const EPOCH: i32 = 0;
/// Only for the broker's user: records lie there.
const PRIVATE: u32 = 0o700;

impl Adopting {
    /// Looks at the stopped files, decides what is appended, and writes the plan of the copies.
    pub(super) fn plan(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("reading the stopped files");
        let log_dir = survey::log_dir(&self.adoption.log_dir, &[]).map_err(|cause| {
            let what = format_args!("{} cannot be looked at", self.adoption.log_dir.display());
            Failure::new(what, cause, "mend it, then run the same command again")
        })?;
        let (_, found) = super::broker::look(&self.adoption.address, &log_dir.path, &[], None, self.state())?;
        let topics = self.journal.topics.iter().map(|topic| topic.topic.clone()).collect();
        let order = promote::Order { topics, ..self.order.promote.clone() };
        let facts = promote::look(&mut control::connect(&order.control)?, &order, &node(&found))?;
        // Nothing goes into internal topics, which stay with the mirror.
        let appended = work::appended(&mut self.journal, &facts, Some(EPOCH))?;
        let (mut topics, mut planned) = (Vec::new(), Vec::new());
        for topic in own(&facts) {
            let flowed = self.journal.topics.iter().any(|before| before.topic == topic.name && before.flowed);
            let mut of_topic = Topic { flowed, ..work::named(topic, &node(&found)) };
            for partition in &topic.partitions {
                let files =
                    partition.files.as_ref().map_err(|why| work::not_planned(&topic.name, partition.index, why))?;
                let (of_plan, of_journal) = work::of_partition(topic, partition, files)?;
                planned.push(PlannedPartition {
                    log_directory: self.adoption.stage.display().to_string(),
                    leader_epoch: EPOCH,
                    batches: appended.get(&(topic.name.as_str(), partition.index)).cloned().unwrap_or_default(),
                    ..of_plan
                });
                of_topic.partitions.push(of_journal);
            }
            topics.push(of_topic);
        }
        self.journal.topics = topics;
        self.remember_offsets(&facts);
        let plan = HandOverPlan {
            mirror_name: self.journal.mirror.clone(),
            copy: true,
            partitions: planned,
            ..HandOverPlan::default()
        };
        surgeon::write_plan(&self.plan_path(), &plan)
    }

    fn remember_offsets(&mut self, facts: &Facts) {
        let committed = facts.resolution.as_ref().map_or(&[][..], |resolution| &resolution.committed);
        let is_own = |name: &str| self.journal.topics.iter().any(|topic| topic.topic == name);
        let own = committed.iter().filter(|of| is_own(&of.topic));
        self.adoption.offsets = own
            .map(|of| Committed {
                group: of.group.clone(),
                topic: of.topic.clone(),
                partition: of.partition,
                offset: of.offset,
                metadata: of.metadata.clone(),
                committed: false,
                refused: None,
            })
            .collect();
    }

    /// Has the copies made, of topics that the broker does not have yet.
    pub(super) fn copy(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let mut plan = surgeon::read_plan(&self.plan_path())?;
        plan.partitions.retain(|partition| {
            self.adoption.topics.iter().any(|topic| topic.topic == partition.topic && topic.topic_id.is_none())
        });
        say(&format!("copying {} partitions beside the log directory", plan.partitions.len()));
        self.make_stage()?;
        let path = self.plan_path().with_extension("copies");
        surgeon::write_plan(&path, &plan)?;
        let locks = Locks::take(std::slice::from_ref(&self.adoption.stage)).map_err(|cause| {
            Failure::new("the copies are not made", cause, "wait for the other `twinlog promote` to end")
        })?;
        let result = surgeon::operate(&path, &locks)?;
        let mut sums: BTreeMap<&str, (i64, i64, i64)> = BTreeMap::new();
        for told in &result.partitions {
            let sum = sums.entry(&told.topic).or_insert((0, 0, -1));
            *sum = (sum.0 + told.restamped_batches, sum.1 + told.copied_bytes, sum.2.max(told.highest_producer_id));
            let topics = self.journal.topics.iter_mut().filter(|topic| topic.topic == told.topic);
            let mut partitions = topics.flat_map(|topic| &mut topic.partitions);
            if let Some(partition) = partitions.find(|partition| partition.partition == told.index) {
                partition.end_offset = Some(told.end_offset);
            }
        }
        for (name, (batches, bytes, highest)) in sums {
            if let Some(topic) = self.adoption.topic(name) {
                (topic.restamped, topic.restamped_batches) = (batches > 0, batches);
                (topic.copied_bytes, topic.highest_producer_id) = (bytes, highest);
            }
        }
        let copies =
            plan.partitions.iter().map(|p| (self.adoption.stage.as_path(), names::partition_dir(&p.topic, p.index)));
        owner::give_directories(&copies.collect::<Vec<_>>())
    }

    fn make_stage(&self) -> Result<(), Failure> {
        let stage = &self.adoption.stage;
        let failed = |cause: std::io::Error| {
            let what = format_args!("the folder for copies {} cannot be made", stage.display());
            Failure::new(what, cause, "mend it, then run the same command again, or take everything back with --undo")
        };
        match DirBuilder::new().mode(PRIVATE).create(stage) {
            Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(cause)),
            _ => {}
        }
        let to = fs::metadata(&self.adoption.log_dir).map_err(failed)?;
        if owner::may_give() { chown(stage, Some(to.uid()), Some(to.gid())).map_err(failed) } else { Ok(()) }
    }

    /// Renames a topic's copies into the log directory, or out of it.
    pub(super) fn place(&self, topic: &str, undo: bool) -> Result<(), Failure> {
        let copies = surgeon::read_plan(&self.plan_path())?;
        let of_topic = copies.partitions.into_iter().filter(|partition| partition.topic == topic);
        let partitions = of_topic
            .map(|partition| PlannedPartition {
                data_directory: self.adoption.stage.display().to_string(),
                log_directory: self.adoption.log_dir.display().to_string(),
                batches: Vec::new(),
                ..partition
            })
            .collect();
        let mirror_name = self.journal.mirror.clone();
        let plan = HandOverPlan { mirror_name, place: true, undo, partitions, ..HandOverPlan::default() };
        let path = self.plan_path().with_extension("place");
        surgeon::write_plan(&path, &plan)?;
        surgeon::operate(&path, &Locks::none()).map(|_| ())
    }

    /// A broker that was restarted in between puts directories aside that it knows no topic of: those are copied again.
    pub(super) fn needs_copies_again(&mut self, say: Say<'_>) -> Result<(), Failure> {
        if self.adoption.step < Step::Copied || self.adoption.step >= Step::Created {
            return Ok(());
        }
        let waiting = self.adoption.topics.iter().filter(|topic| topic.topic_id.is_none());
        let waiting: Vec<String> = waiting.map(|topic| topic.topic.clone()).collect();
        let mut gone = self.directories(&waiting).filter(|dir| {
            ![&self.adoption.stage, &self.adoption.log_dir].iter().any(|parent| parent.join(dir).is_dir())
        });
        if let Some(first) = gone.next() {
            say(&format!("the copy {first} is gone, as when the broker was restarted meanwhile; it is made again"));
            drop(gone);
            self.adoption.step = Step::Planned;
            self.take_out()?;
            self.save()?;
        }
        Ok(())
    }

    /// The directories of these topics.
    fn directories<'a>(&'a self, topics: &'a [String]) -> impl Iterator<Item = String> + 'a {
        let chosen = self.journal.topics.iter().filter(|topic| topics.contains(&topic.topic));
        chosen.flat_map(|topic| topic.partitions.iter().map(|p| names::partition_dir(&topic.topic, p.partition)))
    }

    /// Takes copies out of the log directory that no topic of the broker's has.
    pub(super) fn take_out(&mut self) -> Result<(), Failure> {
        let placed = self.adoption.topics.iter().filter(|topic| topic.placed && topic.topic_id.is_none());
        let placed: Vec<String> = placed.map(|topic| topic.topic.clone()).collect();
        for name in placed {
            let dirs: Vec<String> = self.directories(std::slice::from_ref(&name)).collect();
            for dir in dirs {
                let (there, back) = (self.adoption.log_dir.join(&dir), self.adoption.stage.join(&dir));
                if there.join(names::PARTITION_METADATA).exists() {
                    return Err(Failure::new(
                        format_args!("{} stays in the log directory", there.display()),
                        "the broker has made the topic and uses it: clients may have written there",
                        "run the same command (without --undo) to end the hand-over; delete the topic at the broker when it is not wanted",
                    ));
                }
                if there.is_dir() && !back.exists() {
                    fs::rename(&there, &back).map_err(|cause| {
                        let what = format_args!("{} cannot be taken out of the log directory", there.display());
                        Failure::new(what, cause, "mend it, then run the same command again")
                    })?;
                }
            }
            if let Some(topic) = self.adoption.topic(&name) {
                topic.placed = false;
            }
        }
        Ok(())
    }

    fn plan_path(&self) -> PathBuf {
        self.state().join(journal::FOLDER).join(format!("{}.adopt", self.journal.mirror))
    }
}
