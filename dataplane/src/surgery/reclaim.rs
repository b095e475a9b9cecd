//! Before directories are taken back from a broker that wrote to them: what is going to be thrown away is looked at and saved aside, and
//! the broker's checkpoints are lowered, so that they never say more than what is left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use twinlog_proto::handover::plan::{HandOverPlan, HandedPartition};
use twinlog_proto::storage::names::{self, FileKind, TEMPORARY_SUFFIX};

use super::SurgeryError;
use super::job::Job;
use crate::checkpoints::{self, Ends, LogKey};
use crate::disk::files;
use crate::log::beyond::{self, Beyond};
use crate::steps::{self, Step};

/// A log that is still the broker's.
pub(super) struct Looked {
    /// Where it is cut, with the epoch of the last batch below.
    cut: (i64, i32),
    beyond: Beyond,
}

/// Looks at every partition that is still the broker's; none for one that is back. With `find`, where it is cut is looked for.
///
/// # Errors
/// What cannot be taken back, with the file and the remedy. Nothing was changed.
pub(super) fn look(jobs: &[Job], find: bool) -> Result<Vec<Option<Looked>>, SurgeryError> {
    let look = |job: &Job| {
        let dir = job.log_directory.join(job.name());
        if !dir.is_dir() {
            return Ok(None);
        }
        let told = (job.lmo, job.last_epoch);
        let cut = if find { beyond::common(&dir, told.0, told.1)? } else { told };
        Ok(Some(Looked { cut, beyond: beyond::look(&dir, cut.0, cut.1, job.verify_from)? }))
    };
    jobs.iter().map(look).collect()
}

/// What the result says of partitions that were only looked at.
pub(super) fn told(job: &Job, found: Option<&Looked>) -> HandedPartition {
    let mut told = HandedPartition { topic: job.topic.clone(), index: job.index, ..HandedPartition::default() };
    let Some(Looked { cut, beyond: found }) = found else { return told };
    (told.cut_offset, told.cut_epoch) = *cut;
    told.beyond_end_offset = found.end;
    told.beyond_records = found.records;
    told.beyond_bytes = i64::try_from(found.bytes).unwrap_or(i64::MAX);
    told.beyond_epochs = found.epochs.iter().copied().collect();
    told
}

/// Saves, lowers; nothing of the logs themselves is changed yet.
///
/// # Errors
/// As the file system says.
pub(super) fn prepare(plan: &HandOverPlan, jobs: &[Job], found: &[Option<Looked>]) -> Result<(), SurgeryError> {
    if !plan.save_directory.is_empty() {
        let to = Path::new(&plan.save_directory);
        for (job, found) in jobs.iter().zip(found) {
            if let Some(found) = found.as_ref().map(|found| &found.beyond).filter(|found| !found.segments.is_empty()) {
                save(job, found, to)?;
            }
        }
        files::sync_all(to).map_err(|source| SurgeryError::file("make durable", to, source))?;
        steps::passed(Step::Saved);
    }
    let mut lines: BTreeMap<&Path, Vec<(LogKey, Ends)>> = BTreeMap::new();
    for (job, _) in jobs.iter().zip(found).filter(|(_, found)| found.is_some()) {
        let low = Ends { recovery_point: job.lmo, high_watermark: job.lmo, log_start: None };
        lines.entry(&job.log_directory).or_default().push(((job.topic.clone(), job.index), low));
    }
    for (directory, lines) in lines {
        checkpoints::set(directory, &lines)?;
        steps::passed(Step::CheckpointsLowered);
    }
    Ok(())
}

/// Copies what lies behind the last mirrored offset into segment files of its own; again when an earlier run did not come to cutting.
fn save(job: &Job, found: &Beyond, to: &Path) -> Result<(), SurgeryError> {
    let (from, to) = (job.log_directory.join(job.name()), to.join(job.name()));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SurgeryError::file("save", &path, source)
    };
    fs::create_dir_all(&to).map_err(failed(&to))?;
    for (base, position) in &found.segments {
        let source = from.join(names::file_name(*base, FileKind::Log));
        let target = to.join(names::file_name((*base).max(job.lmo), FileKind::Log));
        copy(&source, *position, &target).map_err(failed(&target))?;
    }
    for name in [names::PARTITION_METADATA, names::LEADER_EPOCHS] {
        let source = from.join(name);
        if source.exists() {
            copy(&source, 0, &to.join(name)).map_err(failed(&to.join(name)))?;
        }
    }
    Ok(())
}

fn copy(source: &Path, position: u64, target: &Path) -> io::Result<()> {
    let aside = files::with_suffix(target, TEMPORARY_SUFFIX);
    let (mut from, mut to) = (File::open(source)?, File::create(&aside)?);
    from.seek(SeekFrom::Start(position))?;
    io::copy(&mut from, &mut to)?;
    fs::rename(&aside, target)
}
