//! `twinlog-dataplane hand-over PLAN`: gives partition directories to a stopped broker's log directories, or takes them back.
//!
//! ```text
//! hand over:  rename every directory   make that durable   append and finish every log   checkpoints of the log directories
//! reclaim:    look at every log   save aside   lower the checkpoints of the log directories   then as undo:
//! undo:       cut and finish every log   rename every directory back   make that durable   checkpoints on both sides
//! copy:       copy every segment, restamped   append and finish every copy   seal it   make that durable
//! place:      rename every copy into the log directory of a broker that runs, or out of it   make that durable
//! ```
//! Each step may be repeated: whoever was killed runs the same plan again. A data plane may run beside it; the partitions are stopped
//! there, so that it has closed their logs and does not look at them. Started by `twinlog promote`; the result is on stdout, for programs
//! as bytes (`handover/plan.rs` in proto), for a terminal as lines.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twinlog_proto::handover::plan::{self, HandOverPlan, HandOverResult, HandedPartition};
use twinlog_proto::storage::names;

use super::job::{Done, Job, Place};
use super::{SurgeryError, adopt, locks, new_home, reclaim, system};
use crate::checkpoints::{self, Ends, LogKey};
use crate::core::runtime;
use crate::disk::files;
use crate::disk::uring::UringDisk;
use crate::instance_lock::{InstanceLocks, LockError};
use crate::limits::{HAND_OVER_PLAN_BYTES_MAX, LOG_JOBS_PER_CORE};
use crate::log::LogHome;
use crate::steps::{self, Step};

/// Does what the plan says. `lock_fds` are inherited descriptors of the `.lock` files of all log directories, whose locks the caller
/// holds; without any the locks are taken here, for the time of the work.
///
/// # Errors
/// What could not be done, with the file and the remedy. Whatever was done before stays, and the same plan may be run again.
pub fn run(path: &Path, lock_fds: &[i32]) -> Result<(), SurgeryError> {
    let plan = read(path)?;
    let jobs = Job::all(&plan).map_err(|why| SurgeryError::Plan { path: path.to_owned(), why })?;
    let log_directories: BTreeSet<&Path> = jobs.iter().map(|job| &*job.log_directory).collect();
    if plan.place {
        adopt::place(&jobs, &log_directories, plan.undo)?;
        return tell(&plan, jobs.iter().map(|job| reclaim::told(job, None)).collect());
    }
    let _locks = locks::hold(&log_directories, lock_fds)?;
    steps::passed(Step::PlanChecked);
    let jobs: Rc<[Job]> = jobs.into();
    if plan.copy {
        let partitions = adopt::copy(&jobs)?;
        steps::passed(Step::AllDone);
        return tell(&plan, partitions);
    }
    let mut partitions = Vec::new();
    if plan.undo && plan.reclaim {
        let found = reclaim::look(&jobs, plan.find_cut && plan.dry_run)?;
        partitions = jobs.iter().zip(&found).map(|(job, found)| reclaim::told(job, found.as_ref())).collect();
        if plan.dry_run {
            return tell(&plan, partitions);
        }
        reclaim::prepare(&plan, &jobs, &found)?;
    }
    let done = if plan.undo { take_back(&jobs)? } else { hand_over(&jobs)? };
    steps::passed(Step::AllDone);
    if partitions.is_empty() {
        partitions = jobs.iter().map(|job| reclaim::told(job, None)).collect();
    }
    partitions.iter_mut().zip(&done).for_each(|(told, done)| done.tell(told));
    tell(&plan, partitions)
}

pub(super) fn read(path: &Path) -> Result<HandOverPlan, SurgeryError> {
    let failed = |why: String| SurgeryError::Plan { path: path.to_owned(), why };
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(HAND_OVER_PLAN_BYTES_MAX + 1).read_to_end(&mut bytes));
    let read = read.map_err(|cause| failed(format!("it cannot be read: {cause}")))?;
    if read as u64 > HAND_OVER_PLAN_BYTES_MAX {
        return Err(failed(format!("it is larger than {HAND_OVER_PLAN_BYTES_MAX} bytes")));
    }
    plan::decode(&bytes).map_err(|cause| failed(cause.to_string()))
}

fn hand_over(jobs: &Rc<[Job]>) -> Result<Vec<Done>, SurgeryError> {
    let mut moved = false;
    for job in jobs.iter() {
        moved |= job.rename(&job.data_directory, &job.log_directory)?;
    }
    if moved {
        sync_parents(jobs)?;
    }
    steps::passed(Step::RenamesDurable);
    let done = work(jobs, false)?;
    make_durable(jobs, &done)?;
    steps::passed(Step::LogsDone);
    write_checkpoints(jobs, &done, |job| &job.log_directory)?;
    Ok(done)
}

fn take_back(jobs: &Rc<[Job]>) -> Result<Vec<Done>, SurgeryError> {
    let done = work(jobs, true)?;
    make_durable(jobs, &done)?;
    steps::passed(Step::LogsDone);
    let mut moved = false;
    for job in jobs.iter() {
        moved |= job.rename(&job.log_directory, &job.data_directory)?;
    }
    if moved {
        sync_parents(jobs)?;
    }
    steps::passed(Step::RenamesDurable);
    for directory in directories(jobs, |job| &job.log_directory) {
        checkpoints::set(directory, &[])?;
        steps::passed(Step::CheckpointsWritten);
    }
    for directory in directories(jobs, |job| &job.data_directory) {
        // A data plane that runs knows these logs, writes its own checkpoints, and would write over ours.
        match InstanceLocks::take_data(directory) {
            Ok(_lock) => write_checkpoints(jobs, &done, |job| &job.data_directory)?,
            Err(LockError::DataTaken { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

/// Makes what was written durable, by one sync of each filesystem; an earlier run may have ended before its own.
pub(super) fn make_durable(jobs: &[Job], done: &[Done]) -> Result<(), SurgeryError> {
    let written = jobs.iter().zip(done).filter(|(_, done)| !done.untouched);
    for directory in written.map(|(job, _)| job.log_directory.as_path()).collect::<BTreeSet<_>>() {
        files::sync_all(directory).map_err(|source| SurgeryError::file("make durable", directory, source))?;
    }
    Ok(())
}

fn directories<'a>(jobs: &'a [Job], of: impl Fn(&'a Job) -> &'a PathBuf) -> BTreeSet<&'a Path> {
    jobs.iter().map(|job| of(job).as_path()).collect()
}

pub(super) fn sync_parents(jobs: &[Job]) -> Result<(), SurgeryError> {
    let all = jobs.iter().flat_map(|job| [job.data_directory.as_path(), job.log_directory.as_path()]);
    for directory in all.collect::<BTreeSet<_>>() {
        files::sync(directory).map_err(|source| SurgeryError::file("make durable", directory, source))?;
    }
    Ok(())
}

/// The lines of the partitions, beside those of others.
fn write_checkpoints<'a>(
    jobs: &'a [Job],
    done: &[Done],
    of: impl Fn(&'a Job) -> &'a PathBuf,
) -> Result<(), SurgeryError> {
    for directory in directories(jobs, &of) {
        let here = jobs.iter().zip(done).filter(|(job, _)| of(job) == directory);
        let lines: Vec<(LogKey, Ends)> =
            here.map(|(job, done)| ((job.topic.clone(), job.index), done.ends())).collect();
        checkpoints::set(directory, &lines)?;
        steps::passed(Step::CheckpointsWritten);
    }
    Ok(())
}

/// Works on all logs, several at a time; what was done, in the order of the plan.
pub(super) fn work(jobs: &Rc<[Job]>, undo: bool) -> Result<Vec<Done>, SurgeryError> {
    runtime::run(async {
        let home = new_home()?;
        let next = Rc::new(std::cell::Cell::new(0));
        let mut workers = tokio::task::JoinSet::new();
        for _worker in 0..LOG_JOBS_PER_CORE.min(jobs.len()) {
            workers.spawn_local(worker(home.clone(), Rc::clone(jobs), Rc::clone(&next), undo));
        }
        let mut done: Vec<Option<Done>> = jobs.iter().map(|_| None).collect();
        while let Some(ended) = workers.join_next().await {
            // A worker that panics takes the process with it: there is nothing that goes on without it.
            let results =
                ended.map_err(|cause| SurgeryError::System { what: "a worker ended", source: cause.into() })??;
            for (index, result) in results {
                done[index] = Some(result);
            }
        }
        Ok(done.into_iter().flatten().collect())
    })
    .map_err(system("io_uring cannot be used"))?
}

async fn worker(
    home: LogHome<UringDisk>,
    jobs: Rc<[Job]>,
    next: Rc<std::cell::Cell<usize>>,
    undo: bool,
) -> Result<Vec<(usize, Done)>, SurgeryError> {
    let mut results = Vec::new();
    while let Some(job) = jobs.get(next.get()) {
        let index = next.replace(next.get() + 1);
        let result = if undo { job.take_back(&home).await } else { job.hand_over(&home).await };
        match result {
            Ok(done) => results.push((index, done)),
            Err(why) => {
                // Nobody begins another one.
                next.set(jobs.len());
                return Err(why);
            }
        }
    }
    Ok(results)
}

fn tell(plan: &HandOverPlan, partitions: Vec<HandedPartition>) -> Result<(), SurgeryError> {
    say(plan, partitions, |each| {
        if plan.dry_run {
            let (records, bytes) = (each.beyond_records, each.beyond_bytes);
            return format!("{records} records ({bytes} bytes) would be thrown away");
        }
        let place = if plan.undo { Place::Data } else { Place::Broker };
        let verb = place.verb(each.was_done);
        format!("{verb}, log start {}, log end {}", each.log_start_offset, each.end_offset)
    })
}

/// Says what became of each partition: to a terminal in words, else as a result.
pub(super) fn say(
    plan: &HandOverPlan,
    partitions: Vec<HandedPartition>,
    in_words: impl Fn(&HandedPartition) -> String,
) -> Result<(), SurgeryError> {
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() {
        partitions.iter().try_for_each(|each| {
            let name = names::partition_dir(&each.topic, each.index);
            writeln!(out, "{name}: {}", in_words(each))
        })
    } else {
        let mirror_name = plan.mirror_name.clone();
        let result = HandOverResult { mirror_name, undo: plan.undo, partitions };
        let bytes = plan::encode_result(&result).map_err(|cause| SurgeryError::Result(cause.to_string()))?;
        out.write_all(&bytes).and_then(|()| out.flush())
    };
    written.map_err(system("stdout cannot be written"))
}
