//! `twinlog-dataplane clone PLAN`: copies partitions that are being mirrored, as they are up to an offset, into directories of a drill.
//!
//! The plan is that of a hand-over: each partition is copied from its data directory into its log directory, up to the last mirrored
//! offset, and finished there, so that `hand-over` finds it as a stopped partition. A data plane runs on the data directories meanwhile
//! (`log/clone.rs`), so they are not locked, and nothing in them is changed. Started by `twinlog drill`, to which each log directory belongs,
//! and by `twinlog reclaim --clone`, for which the data directories are those of a broker that runs. With the dry run of a reclaim it is
//! only looked at what that broker has behind the cut.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use twinlog_proto::handover::plan::HandedPartition;
use twinlog_proto::storage::names;

use super::hand_over::{read, say};
use super::job::Job;
use super::reclaim::{self, Looked};
use super::{SurgeryError, new_home, system};
use crate::checkpoints::{self, Ends, LogKey};
use crate::core::runtime;
use crate::disk::uring::UringDisk;
use crate::limits::{CLONE_BYTES_A_PARTITION, CLONE_FREE_BYTES_MIN, CLONE_PAUSE_MS, CLONE_TRIES_MAX};
use crate::log::clone::{self, Cloned, Means};
use crate::log::{LogHome, PartitionLog};

/// Does what the plan says; the result is on stdout.
///
/// # Errors
/// What could not be done, with the file and the remedy. What is in the log directories then is of no use.
pub fn run(path: &Path) -> Result<(), SurgeryError> {
    let plan = read(path)?;
    let jobs = Job::all(&plan).map_err(|why| SurgeryError::Plan { path: path.to_owned(), why })?;
    if plan.dry_run {
        let found = look(&jobs, plan.find_cut)?;
        let told = jobs.iter().zip(&found).map(|(job, found)| reclaim::told(job, found.as_ref())).collect();
        return say(&plan, told, |each| format!("{} records are behind the cut", each.beyond_records));
    }
    let means = jobs.iter().map(means).collect::<Result<Vec<_>, _>>()?;
    room(&jobs, &means)?;
    let told = runtime::run(clone_all(&jobs, &means)).map_err(system("io_uring cannot be used"))??;
    say(&plan, told, |each| match each.moved {
        true => "it changed again and again, or has no such end; there is no copy of it".to_owned(),
        false => format!("copied, log start {}, log end {}", each.log_start_offset, each.end_offset),
    })
}

/// Looks at logs of a broker that runs: what its cleaner or its retention replaces while it is looked at is looked at again.
fn look(jobs: &[Job], find: bool) -> Result<Vec<Option<Looked>>, SurgeryError> {
    let mut tried = 0;
    loop {
        tried += 1;
        match reclaim::look(jobs, find) {
            Err(_) if tried < CLONE_TRIES_MAX => sleep(Duration::from_millis(CLONE_PAUSE_MS)),
            found => return found,
        }
    }
}

fn means(job: &Job) -> Result<Means, SurgeryError> {
    let sample = job.data_directory.join(job.name()).join(names::PARTITION_METADATA);
    Ok(clone::means(&sample, &job.log_directory)?)
}

/// Refuses what does not fit, before the first file is made.
fn room(jobs: &[Job], means: &[Means]) -> Result<(), SurgeryError> {
    let mut needs: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (job, means) in jobs.iter().zip(means) {
        let from = job.data_directory.join(job.name());
        let bytes = clone::estimate(&from, job.lmo, *means).map_err(|e| SurgeryError::file("look at", &from, e))?;
        let to = &job.log_directory;
        let device = fs::metadata(to).map_err(|e| SurgeryError::file("look at", to, e))?.dev();
        needs.entry(device).or_insert((to, CLONE_FREE_BYTES_MIN)).1 += bytes + CLONE_BYTES_A_PARTITION;
    }
    for (directory, needed) in needs.into_values() {
        let stat =
            rustix::fs::statvfs(directory).map_err(|e| SurgeryError::file("look at", directory, io::Error::from(e)))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed {
            return Err(SurgeryError::NoRoom { directory: directory.to_owned(), needed, free });
        }
    }
    Ok(())
}

async fn clone_all(jobs: &[Job], means: &[Means]) -> Result<Vec<HandedPartition>, SurgeryError> {
    let home = new_home()?;
    let mut told = Vec::new();
    let mut lines: BTreeMap<&Path, Vec<(LogKey, Ends)>> = BTreeMap::new();
    for (job, means) in jobs.iter().zip(means) {
        let mut one = HandedPartition { topic: job.topic.clone(), index: job.index, ..HandedPartition::default() };
        match copy(&home, job, *means, &mut one).await? {
            Some(ends) => lines.entry(&job.log_directory).or_default().push(((job.topic.clone(), job.index), ends)),
            None => one.moved = true,
        }
        told.push(one);
    }
    for (directory, lines) in lines {
        checkpoints::set(directory, &lines)?;
    }
    Ok(told)
}

/// None when there is no copy, because the log changes.
async fn copy(
    home: &LogHome<UringDisk>,
    job: &Job,
    means: Means,
    told: &mut HandedPartition,
) -> Result<Option<Ends>, SurgeryError> {
    let (from, to) = (job.data_directory.join(job.name()), job.log_directory.join(job.name()));
    let Some(cloned) = clone::clone(&from, &to, job.lmo, means)? else { return Ok(None) };
    let mut log = PartitionLog::open_cut(home, job.spec(&job.log_directory, job.lmo)).await?;
    if job.lmo != i64::MAX && log.next_offset() != job.lmo {
        fs::remove_dir_all(&to).map_err(|e| SurgeryError::file("remove", &to, e))?;
        return Ok(None);
    }
    log.finish().await?;
    count(told, cloned);
    let done = job.done(&log);
    done.tell(told);
    told.last_epoch = log.progress().last_epoch;
    Ok(Some(done.ends()))
}

fn count(told: &mut HandedPartition, Cloned { linked, shared, copied }: Cloned) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    (told.linked_files, told.linked_bytes) = (number(linked.files), number(linked.bytes));
    (told.shared_files, told.shared_bytes) = (number(shared.files), number(shared.bytes));
    (told.copied_files, told.copied_bytes) = (number(copied.files), number(copied.bytes));
}
