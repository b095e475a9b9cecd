//! What is done with one partition of a hand-over.

use std::io;
use std::path::{Path, PathBuf};

use twinlog_proto::handover::plan::{HandOverPlan, HandedPartition, PlannedPartition};
use twinlog_proto::ids::{Uuid, is_legal_name};
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker};
use twinlog_proto::storage::names::{self, FileKind};

use super::SurgeryError;
use crate::checkpoints::Ends;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::log::{LogHome, LogRules, LogSpec, PartitionLog, RegionRules};
use crate::steps::{self, Step};

/// A partition of the plan, checked.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) topic: String,
    pub(super) index: i32,
    topic_id: Uuid,
    pub(super) data_directory: PathBuf,
    pub(super) log_directory: PathBuf,
    log_start: i64,
    /// Where mirrored data ends.
    pub(super) lmo: i64,
    /// The epoch of the last mirrored batch; -1 for none.
    pub(super) last_epoch: i32,
    /// From where on what stays may be torn; -1: nowhere.
    pub(super) verify_from: i64,
    /// A broker may have written to it.
    written_to: bool,
    rules: LogRules,
    batches: Vec<u8>,
    /// The end once they are appended.
    new_end: i64,
}

/// What became of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) log_start: i64,
    pub(super) end: i64,
    /// Base offset of the first segment.
    pub(super) first_base: i64,
    pub(super) appended_bytes: usize,
    pub(super) was_done: bool,
    /// Whether its files are as they were when it was stopped, which is durable.
    pub(super) untouched: bool,
}

/// Whose a partition is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The mirror's.
    Data,
    /// The broker's.
    Broker,
}

impl Place {
    pub(super) fn verb(self, was_done: bool) -> &'static str {
        match (self, was_done) {
            (Self::Data, false) => "taken back",
            (Self::Data, true) => "was taken back before",
            (Self::Broker, false) => "handed over",
            (Self::Broker, true) => "was handed over before",
        }
    }
}

impl Done {
    fn of<D: Disk>(log: &PartitionLog<D>, appended_bytes: usize, was_done: bool) -> Self {
        let progress = log.progress();
        let (log_start, end) = (progress.log_start, progress.leo);
        Self { log_start, end, first_base: log.first_base(), appended_bytes, was_done, untouched: false }
    }

    /// Says what became of it.
    pub(super) fn tell(&self, told: &mut HandedPartition) {
        (told.log_start_offset, told.end_offset) = (self.log_start, self.end);
        (told.appended_bytes, told.was_done) = (self.appended_bytes as i64, self.was_done);
    }

    /// What the checkpoints say of it.
    pub(super) fn ends(&self) -> Ends {
        let log_start = (self.log_start > self.first_base).then_some(self.log_start);
        Ends { recovery_point: self.end, high_watermark: self.end, log_start }
    }
}

impl Job {
    /// The partitions of a plan; why it cannot be done otherwise.
    pub(super) fn all(plan: &HandOverPlan) -> Result<Vec<Self>, String> {
        let mut seen = std::collections::BTreeSet::new();
        for each in &plan.partitions {
            if !seen.insert((&each.topic, each.index)) {
                return Err(format!("it names {}-{} twice", each.topic, each.index));
            }
        }
        plan.partitions.iter().map(|planned| Self::new(planned, plan.reclaim)).collect()
    }

    fn new(planned: &PlannedPartition, written_to: bool) -> Result<Self, String> {
        let name = names::partition_dir(&planned.topic, planned.index);
        if !is_legal_name(&planned.topic) || planned.index < 0 {
            return Err(format!("no partition can be called {name:?}"));
        }
        let [data_directory, log_directory] = [&planned.data_directory, &planned.log_directory].map(PathBuf::from);
        if !data_directory.is_absolute() || !log_directory.is_absolute() || data_directory == log_directory {
            return Err(format!("{name} needs two different directories, named from the root"));
        }
        let lmo = planned.last_mirrored_offset;
        if planned.log_start_offset < 0 || lmo < planned.log_start_offset {
            return Err(format!("{name} cannot begin at {} and end at {lmo}", planned.log_start_offset));
        }
        let new_end =
            end_of(planned).map_err(|why| format!("the batches for {name} are not what they must be: {why}"))?;
        Ok(Self {
            topic: planned.topic.clone(),
            index: planned.index,
            topic_id: planned.topic_id,
            data_directory,
            log_directory,
            log_start: planned.log_start_offset,
            lmo,
            last_epoch: planned.last_mirror_epoch,
            verify_from: planned.verify_from,
            written_to,
            rules: LogRules {
                segment_bytes: planned.segment_bytes,
                segment_index_bytes: planned.segment_index_bytes,
                index_interval_bytes: planned.index_interval_bytes,
                // What is appended belongs to the last segment, however old that is.
                segment_ms: i64::MAX,
                // The broker forgets old producers by its own setting.
                producer_expiration_ms: i64::MAX,
                ..LogRules::default()
            },
            batches: planned.batches.clone(),
            new_end,
        })
    }

    pub(super) fn name(&self) -> String {
        names::partition_dir(&self.topic, self.index)
    }

    /// The partition's directory, where its copy goes, and its log start.
    pub(super) fn copy_paths(&self) -> (PathBuf, PathBuf, i64) {
        (self.data_directory.join(self.name()), self.log_directory.join(self.name()), self.log_start)
    }

    /// Renames the directory; false when that was done before.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<bool, SurgeryError> {
        let (source, target) = (from.join(self.name()), to.join(self.name()));
        match (source.is_dir(), target.is_dir()) {
            (true, false) => {}
            (false, true) => return Ok(false),
            (true, true) => return Err(SurgeryError::TwoDirectories { source_dir: source, target_dir: target }),
            (false, false) => return Err(SurgeryError::NoDirectory { source_dir: source, target_dir: target }),
        }
        std::fs::rename(&source, &target).map_err(|cause| match cause.kind() {
            io::ErrorKind::CrossesDevices => SurgeryError::OtherFilesystem { source_dir: source, target_dir: target },
            _ => SurgeryError::file("rename", &source, cause),
        })?;
        steps::passed(Step::Renamed);
        Ok(true)
    }

    /// Appends what the plan has for the log and finishes it.
    pub(super) async fn hand_over<D: Disk>(&self, home: &LogHome<D>) -> Result<Done, SurgeryError> {
        let (mut log, as_left) = self.open(home).await?;
        steps::passed(Step::Opened);
        if as_left && log.next_offset() == self.new_end && log.tail(self.batches.len())? == self.batches {
            // With nothing to append this is how it was stopped.
            let (bytes, was_appended) = (self.batches.len(), !self.batches.is_empty());
            return Ok(Done { untouched: !was_appended, ..Done::of(&log, bytes, was_appended) });
        }
        if !as_left || log.next_offset() != self.lmo {
            self.cut(&mut log).await?;
        }
        if !self.batches.is_empty() {
            self.append(home, &mut log).await?;
        }
        steps::passed(Step::Appended);
        log.finish().await?;
        steps::passed(Step::Finished);
        Ok(Done::of(&log, self.batches.len(), false))
    }

    /// Opens the log where the plan leaves it, or where it was stopped; true when it is finished there.
    async fn open<D: Disk>(&self, home: &LogHome<D>) -> Result<(PartitionLog<D>, bool), Fault> {
        let snapshot = self.log_directory.join(self.name()).join(names::file_name(self.new_end, FileKind::Snapshot));
        let end = if snapshot.exists() { self.new_end } else { self.lmo };
        PartitionLog::open_finished(home, self.spec(&self.log_directory, end)).await
    }

    async fn append<D: Disk>(&self, home: &LogHome<D>, log: &mut PartitionLog<D>) -> Result<(), SurgeryError> {
        let refused = |why: String| SurgeryError::Refused { dir: self.log_directory.join(self.name()), why };
        home.pool.stage_available().await;
        log.begin_region(RegionRules { epoch_max: i32::MAX, now_ms: 0 });
        let stopped = log.stage(&self.batches);
        let end = log.end_region();
        if let Err(stop) = stopped {
            log.settle().await?;
            return Err(refused(stop.to_string()));
        }
        log.flush().await?;
        if log.next_offset() != self.new_end || end.bytes != self.batches.len() as u64 {
            return Err(refused(format!("the log ends at {}, not at {}", log.next_offset(), self.new_end)));
        }
        Ok(())
    }

    /// Cuts the log at the last mirrored offset.
    async fn cut<D: Disk>(&self, log: &mut PartitionLog<D>) -> Result<(), SurgeryError> {
        log.cut(self.lmo).await?;
        if log.next_offset() != self.lmo {
            return Err(SurgeryError::OtherEnd { dir: log.dir().to_owned(), end: log.next_offset(), lmo: self.lmo });
        }
        Ok(())
    }

    /// Cuts the log at the last mirrored offset and finishes it, wherever its directory is.
    pub(super) async fn take_back<D: Disk>(&self, home: &LogHome<D>) -> Result<Done, SurgeryError> {
        let is_back = !self.log_directory.join(self.name()).is_dir();
        let directory = if is_back { &self.data_directory } else { &self.log_directory };
        if !directory.join(self.name()).is_dir() {
            let [source_dir, target_dir] = [&self.log_directory, &self.data_directory].map(|dir| dir.join(self.name()));
            return Err(SurgeryError::NoDirectory { source_dir, target_dir });
        }
        let spec = self.spec(directory, self.lmo);
        let torn = LogSpec {
            recovery_point: if self.verify_from < 0 { self.lmo } else { self.lmo.min(self.verify_from) },
            ..spec.clone()
        };
        // Of a log that a broker wrote to nothing but its records is believed, until all of it was done and it was renamed.
        let (mut log, as_left) = if self.written_to && !is_back {
            (PartitionLog::open_cut_at(home, torn, self.lmo).await?, false)
        } else {
            PartitionLog::open_finished(home, spec).await?
        };
        steps::passed(Step::Opened);
        if !as_left {
            self.cut(&mut log).await?;
            log.finish().await?;
            steps::passed(Step::Finished);
        }
        let progress = log.progress();
        if self.last_epoch >= 0 && progress.log_start < progress.leo && progress.last_epoch != self.last_epoch {
            let (dir, found, wanted) = (log.dir().to_owned(), progress.last_epoch, self.last_epoch);
            return Err(SurgeryError::OtherEpoch { dir, found, wanted });
        }
        // What an earlier run has cut may not be durable: where anything was appended, that is made sure of.
        Ok(Done { untouched: as_left && self.batches.is_empty(), ..Done::of(&log, 0, is_back && as_left) })
    }

    /// What its log is as it was left.
    pub(super) fn done<D: Disk>(&self, log: &PartitionLog<D>) -> Done {
        Done::of(log, 0, false)
    }

    pub(super) fn spec(&self, directory: &Path, recovery_point: i64) -> LogSpec {
        LogSpec {
            token: 0,
            data_dir: directory.to_owned(),
            topic: self.topic.clone(),
            partition: self.index,
            topic_id: self.topic_id,
            rules: self.rules,
            recovery_point,
            log_start: self.log_start,
            alignment: None,
        }
    }
}

/// Where the log ends once the batches are appended: they continue it without a gap, in the epoch that the plan names.
fn end_of(planned: &PlannedPartition) -> Result<i64, String> {
    let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: LogRules::default().batch_bytes_max });
    let (mut rest, mut next) = (&planned.batches[..], planned.last_mirrored_offset);
    loop {
        let fed = walker.feed(rest).map_err(|why| why.to_string())?;
        rest = &rest[fed.consumed..];
        match fed.event {
            None if walker.pending_bytes() == 0 => return Ok(next),
            None => return Err("the last one is cut off".to_owned()),
            Some(BatchEvent::Header(header)) => {
                let fits = header.base_offset == next && header.leader_epoch == planned.leader_epoch;
                if !fits {
                    let (offset, epoch) = (header.base_offset, header.leader_epoch);
                    return Err(format!(
                        "one has offset {offset} and epoch {epoch}, {next} and {} are due",
                        planned.leader_epoch
                    ));
                }
            }
            Some(BatchEvent::Batch { header, .. }) => next = header.next_offset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::records::plain;

    fn planned() -> PlannedPartition {
        let mut batches = Vec::new();
        for offset in [90, 91] {
            plain::encode(&mut batches, plain::header(offset, 5, 0, 1000), [(Some(&b"k"[..]), None)]);
        }
        PlannedPartition {
            topic: "orders".into(),
            data_directory: "/data".into(),
            log_directory: "/broker".into(),
            last_mirrored_offset: 90,
            leader_epoch: 5,
            batches,
            ..Default::default()
        }
    }

    #[test]
    fn batches_must_continue_the_log_in_the_epoch_of_the_plan() {
        assert_eq!(Job::new(&planned(), false).unwrap().new_end, 92);
        assert_eq!(Job::new(&PlannedPartition { batches: Vec::new(), ..planned() }, false).unwrap().new_end, 90);
        for (wrong, why) in [
            (PlannedPartition { last_mirrored_offset: 89, ..planned() }, "89 and 5 are due"),
            (PlannedPartition { leader_epoch: 6, ..planned() }, "90 and 6 are due"),
            (PlannedPartition { batches: planned().batches[..100].to_vec(), ..planned() }, "cut off"),
            (PlannedPartition { topic: "..".into(), ..planned() }, "called"),
            (PlannedPartition { log_directory: "broker".into(), ..planned() }, "root"),
            (PlannedPartition { log_start_offset: 91, ..planned() }, "begin at 91"),
        ] {
            let refused = Job::new(&wrong, false).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_partition_that_is_named_twice_is_refused() {
        let plan = HandOverPlan { partitions: vec![planned(), planned()], ..Default::default() };
        assert!(Job::all(&plan).unwrap_err().contains("orders-0 twice"));
    }
}
