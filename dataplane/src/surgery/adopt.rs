//! Copies for a broker that runs: it makes the topic itself, with an id of its own and leader epoch 0, and takes the directories that it
//! finds in its log directory then. The mirror's own files are only read.
//!
//! A copy differs from the mirror in the leader epochs of its batches, which are 0 (the checksum does not cover them), and in what it
//! knows of producers, which is nothing: ids of the source mean others there. So that the broker finds none again when it recovers the log
//! after a crash, the copy ends with an empty segment, and an empty producer snapshot at its beginning.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use twinlog_proto::handover::plan::HandedPartition;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, FileKind, FileName};
use twinlog_proto::storage::producer_state::ProducerState;

use super::SurgeryError;
use super::hand_over::{make_durable, sync_parents, work};
use super::job::{Done, Job};
use super::restamp::{EPOCH, Restamped, restamp};
use crate::disk::files;
use crate::instance_lock::{InstanceLocks, LockError};
use crate::limits::COPIERS;
use crate::steps::{self, Step};

/// Makes the copies; may be done again, then only what is not there yet is written.
///
/// # Errors
/// What could not be copied, with the file and the remedy.
pub(super) fn copy(jobs: &Rc<[Job]>) -> Result<Vec<HandedPartition>, SurgeryError> {
    let restamped = copy_all(jobs)?;
    let done = work(jobs, false)?;
    for (job, done) in jobs.iter().zip(&done) {
        seal(job, done)?;
        steps::passed(Step::Sealed);
    }
    // All of it was just written, whatever the logs say that were opened.
    let written: Vec<Done> = done.iter().map(|done| Done { untouched: false, ..*done }).collect();
    make_durable(jobs, &written)?;
    steps::passed(Step::LogsDone);
    let tell = |((job, done), of): ((&Job, &Done), &Restamped)| {
        let mut told = HandedPartition { topic: job.topic.clone(), index: job.index, ..HandedPartition::default() };
        done.tell(&mut told);
        told.copied_bytes = i64::try_from(of.bytes).unwrap_or(i64::MAX);
        told.restamped_batches = i64::try_from(of.batches).unwrap_or(i64::MAX);
        told.highest_producer_id = of.highest_producer_id;
        told
    };
    Ok(jobs.iter().zip(&done).zip(&restamped).map(tell).collect())
}

/// Renames copies into the log directories of a broker that runs, or back.
///
/// # Errors
/// When no broker runs there, or a directory cannot be renamed.
pub(super) fn place(jobs: &[Job], log_directories: &BTreeSet<&Path>, undo: bool) -> Result<(), SurgeryError> {
    for directory in log_directories {
        // A lock that is granted is nobody's. One that is not there would have been made by the broker.
        let path = directory.join(names::LOCK);
        let is_free =
            !path.exists() || !matches!(InstanceLocks::take_data(directory), Err(LockError::DataTaken { .. }));
        if is_free && !undo {
            return Err(SurgeryError::NoBroker { path: (*directory).to_owned() });
        }
    }
    steps::passed(Step::PlanChecked);
    for job in jobs {
        let (from, to) = (&job.data_directory, &job.log_directory);
        if undo {
            job.rename(to, from)?
        } else {
            job.rename(from, to)?
        };
    }
    sync_parents(jobs)?;
    steps::passed(Step::RenamesDurable);
    Ok(())
}

/// Copies the files of all partitions, a few partitions at a time.
fn copy_all(jobs: &[Job]) -> Result<Vec<Restamped>, SurgeryError> {
    // A job holds nothing that belongs to one thread, but its type is kept in an `Rc`.
    let paths: Vec<(PathBuf, PathBuf, i64)> = jobs.iter().map(Job::copy_paths).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![Restamped::default(); paths.len()]));
    let copier = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((from, to, log_start)) = paths.get(at) else { return Ok(()) };
        match copy_partition(from, to, *log_start) {
            Ok(restamped) => done.lock().map(|mut done| done[at] = restamped).unwrap_or_default(),
            Err(why) => {
                // Nobody begins another one.
                next.store(paths.len(), Ordering::Relaxed);
                return Err(why);
            }
        }
        steps::passed(Step::Copied);
    };
    std::thread::scope(|scope| {
        let copiers: Vec<_> = (0..COPIERS.min(paths.len())).map(|_| scope.spawn(copier)).collect();
        copiers.into_iter().try_for_each(|copier| {
            copier.join().unwrap_or_else(|_| {
                let source = std::io::Error::other("a thread ended");
                Err(SurgeryError::System { what: "the copies are not made", source })
            })
        })
    })?;
    Ok(done.into_inner().unwrap_or_default())
}

/// Copies the files of one partition; what a copy has besides is removed.
fn copy_partition(from: &Path, to: &Path, log_start: i64) -> Result<Restamped, SurgeryError> {
    let failed = |doing: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| SurgeryError::file(doing, &path, source)
    };
    fs::create_dir_all(to).map_err(failed("make", to))?;
    let kept = |name: &str| {
        let file = names::parse_file_name(name).filter(|file| file.leftover.is_none());
        file.map(|FileName { kind, .. }| kind)
    };
    for listed in files::list(to).map_err(failed("list", to))? {
        if kept(&listed.name).is_none() || !from.join(&listed.name).exists() {
            let path = to.join(&listed.name);
            files::remove(&path).map_err(failed("remove", &path))?;
        }
    }
    let mut all = Restamped::default();
    for listed in files::list(from).map_err(failed("list", from))? {
        let Some(kind) = kept(&listed.name) else { continue };
        let (source, target) = (from.join(&listed.name), to.join(&listed.name));
        if kind == FileKind::Log {
            all.add(&restamp(&source, &target)?);
        } else {
            fs::copy(&source, &target).map_err(failed("copy", &source))?;
        }
    }
    // Without them the log would be read through once more.
    let epochs = to.join(names::LEADER_EPOCHS);
    if all.bytes > 0 {
        files::write(&epochs, epochs_from(log_start).as_bytes()).map_err(failed("write", &epochs))?;
    }
    Ok(all)
}

/// Makes a finished copy one that a broker takes for a topic that it has just made.
fn seal(job: &Job, done: &Done) -> Result<(), SurgeryError> {
    let dir = job.log_directory.join(job.name());
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SurgeryError::file("write", &path, source)
    };
    let mut last = None;
    for listed in files::list(&dir).map_err(|source| SurgeryError::file("list", &dir, source))? {
        match names::parse_file_name(&listed.name) {
            Some(FileName { kind: FileKind::Snapshot, .. }) => {
                let path = dir.join(&listed.name);
                files::remove(&path).map_err(failed(&path))?;
            }
            Some(FileName { kind: FileKind::Log, offset, .. }) if last.is_none_or(|(base, _)| base < offset) => {
                last = Some((offset, listed.bytes));
            }
            _ => {}
        }
    }
    // The broker writes the id of the topic that it makes.
    let metadata = dir.join(names::PARTITION_METADATA);
    files::remove(&metadata).map_err(failed(&metadata))?;
    if let Some((base, bytes)) = last {
        let base = if bytes > 0 { done.end } else { base };
        for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::Log] {
            let path = dir.join(names::file_name(base, kind));
            files::set_len(&path, 0).map_err(failed(&path))?;
        }
    }
    let epochs = dir.join(names::LEADER_EPOCHS);
    if done.end == done.log_start {
        return files::remove(&epochs).map_err(failed(&epochs));
    }
    files::write(&epochs, epochs_from(done.log_start).as_bytes()).map_err(failed(&epochs))?;
    let path = dir.join(names::file_name(done.end, FileKind::Snapshot));
    files::write(&path, &ProducerState::new().snapshot()).map_err(failed(&path))
}

/// One epoch, that of a partition which a broker has just made.
fn epochs_from(log_start: i64) -> String {
    let mut epochs = LeaderEpochs::new();
    epochs.assign(EPOCH, log_start);
    epochs.to_text()
}
