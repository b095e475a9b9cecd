//! Copies in place of directories that stay with a broker, which may run and go on writing. What was mirrored it only reads, apart from
//! its cleaner and its retention: copied first, and looked at again afterwards. A segment that a cleaner writes anew never gets its old
//! file back, so one that is the same afterwards was so when it was copied.
//!
//! Nothing is changed at the broker, and nothing here before the copies are there: when one cannot be right the reclaim ends as if it had
//! never begun.

use super::{Preflight, Reclaiming, beyond, broker_files, keep, plan_path};
use crate::failure::Failure;
use crate::handover::promote::Say;
use crate::handover::{identity, past_epochs, segments, surgeon};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use twinlog_proto::handover::plan::{HandOverPlan, HandedPartition, PlannedPartition};
use twinlog_proto::storage::names;

/// Partitions that a message names.
const NAMED_MAX: usize = 5;

/// The folders in the data directories in which the copies are made, from which the plan takes them then.
pub(super) fn stages(mirror: &str, plan: &mut HandOverPlan) -> Vec<PathBuf> {
    let mut all = BTreeSet::new();
    for planned in &mut plan.partitions {
        let stage = Path::new(&planned.data_directory).join(format!(".twinlog-reclaim-{mirror}"));
        planned.log_directory = stage.display().to_string();
        all.insert(stage);
    }
    all.into_iter().collect()
}

/// Removes what is left of them.
///
/// # Errors
/// As the file system says.
pub(super) fn remove(stages: &[PathBuf]) -> Result<(), Failure> {
    stages.iter().try_for_each(|stage| match fs::remove_dir_all(stage) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            let what = format_args!("the copies in {} cannot be removed", stage.display());
            Err(Failure::new(what, cause, "mend it, then run the same command again"))
        }
        _ => Ok(()),
    })
}

impl Reclaiming {
    /// Makes the copies, where copies are asked for.
    pub(super) fn take_copies(&mut self, say: Say<'_>) -> Result<(), Failure> {
        if self.reclaim()?.stages.is_empty() {
            return Ok(());
        }
        say("copying what was mirrored, beside the broker");
        let copied = self.copy();
        if copied.is_err()
            && let Some(reclaim) = self.journal.reclaim.take()
        {
            remove(&reclaim.stages)?;
            match self.journal.was_never_promoted() {
                true => self.journal.remove(&self.order.state)?,
                false => self.journal.save(&self.order.state)?,
            }
        }
        copied
    }

    fn copy(&mut self) -> Result<(), Failure> {
        let plan = surgeon::read_plan(&plan_path(&self.order))?;
        let reclaim = self.reclaim()?;
        remove(&reclaim.stages)?;
        for stage in &reclaim.stages {
            identity::make_folder(stage).map_err(|cause| {
                let what = format_args!("the folder for copies {} cannot be made", stage.display());
                Failure::new(what, cause, "run this as the user of `twinlog up`, or as root")
            })?;
        }
        let copy = |planned: &PlannedPartition, log_dir: &Path| PlannedPartition {
            data_directory: log_dir.display().to_string(),
            ..planned.clone()
        };
        let copies = surgeon::clone(&self.aside(&plan, copy)?)?;
        let told: BTreeMap<(&str, i32), &HandedPartition> =
            copies.partitions.iter().map(|told| ((told.topic.as_str(), told.index), told)).collect();
        let is_there = |planned: &PlannedPartition| {
            told.get(&(planned.topic.as_str(), planned.index)).is_some_and(|told| !told.moved)
        };
        let missing: Vec<String> = plan
            .partitions
            .iter()
            .filter(|planned| !is_there(planned))
            .map(|planned| names::partition_dir(&planned.topic, planned.index))
            .collect();
        if !missing.is_empty() {
            let named = missing.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            return Err(Failure::new(
                format_args!("{named} cannot be copied ({} partitions in all)", missing.len()),
                "the broker went on changing them, or has removed what was mirrored",
                "run the same command again, or leave the topic out: name the others with --topic",
            ));
        }
        self.is_unchanged()?;
        self.what_stays(&plan, &told)
    }

    /// Writes a plan of other places for the same partitions; gives its path.
    fn aside(
        &self,
        plan: &HandOverPlan,
        place: impl Fn(&PlannedPartition, &Path) -> PlannedPartition,
    ) -> Result<PathBuf, Failure> {
        let taken = &self.reclaim()?.partitions;
        let partitions = plan.partitions.iter().zip(taken).map(|(planned, taken)| place(planned, &taken.log_dir));
        let aside = HandOverPlan {
            mirror_name: plan.mirror_name.clone(),
            partitions: partitions.collect(),
            ..HandOverPlan::default()
        };
        let path = plan_path(&self.order).with_extension("clones");
        surgeon::write_plan(&path, &aside)?;
        Ok(path)
    }

    /// Makes sure that nobody wrote anew what was copied.
    fn is_unchanged(&self) -> Result<(), Failure> {
        let reclaim = self.reclaim()?;
        let remedy = "leave the topic out: name the others with --topic, and mirror it from scratch";
        for taken in &reclaim.partitions {
            let dir = taken.log_dir.join(names::partition_dir(&taken.topic, taken.partition));
            let topics = self.journal.topics.iter().filter(|topic| topic.topic == taken.topic);
            let known = topics.flat_map(|topic| &topic.partitions).find(|known| known.partition == taken.partition);
            let before = known.map_or(&[][..], |known| known.segments.as_slice());
            let changed = match segments::list(&dir) {
                Ok(now) => segments::left(before, &now, taken.last_mirrored_offset).err(),
                Err(cause) => Some(cause.to_string()),
            };
            if let Some(why) = changed {
                let what = format_args!("{} is not copied", dir.display());
                return Err(Failure::new(what, format_args!("the broker changed it meanwhile: {why}"), remedy));
            }
        }
        let mut judged = Preflight { partitions: reclaim.partitions.clone(), ..Preflight::default() };
        if reclaim.lmo_from.is_some() {
            broker_files::cleaners(&self.journal, &mut judged);
        }
        match judged.blockers.first() {
            Some(found) => Err(Failure::new("the copies are not taken", &found.what, &found.remedy)),
            None => Ok(()),
        }
    }

    /// Notes where the copies begin, and what the broker holds behind them by now.
    fn what_stays(
        &mut self,
        plan: &HandOverPlan,
        copies: &BTreeMap<(&str, i32), &HandedPartition>,
    ) -> Result<(), Failure> {
        let place = |planned: &PlannedPartition, log_dir: &Path| PlannedPartition {
            log_directory: log_dir.display().to_string(),
            ..planned.clone()
        };
        let path = self.aside(plan, place)?;
        let look = HandOverPlan { undo: true, reclaim: true, dry_run: true, ..surgeon::read_plan(&path)? };
        surgeon::write_plan(&path, &look)?;
        let found = surgeon::clone(&path)?;
        let (order, journal) = (&self.order, &mut self.journal);
        let Some(reclaim) = &mut journal.reclaim else { return Ok(()) };
        beyond::behind(&mut reclaim.partitions, &found);
        for taken in &mut reclaim.partitions {
            if let Some(told) = copies.get(&(taken.topic.as_str(), taken.partition)) {
                taken.log_start_offset = told.log_start_offset;
            }
        }
        let partitions = reclaim.partitions.clone();
        past_epochs::raise(&order.state, &order.mirror, &keep::epochs(journal, &partitions, &plan.partitions))
    }
}
