//! `twinlog-dataplane finish|cut|check DIR`: work on the directory of a partition while no data plane has it; `hand-over PLAN`, the same
//! for many that go to a broker; and `clone PLAN`, which copies what is being mirrored.

mod adopt;
pub mod clone;
pub mod hand_over;
mod job;
mod locks;
mod reclaim;
mod restamp;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::buffers::Pool;
use crate::checkpoints::CheckpointError;
use crate::core::runtime;
use crate::disk::uring::UringDisk;
use crate::disk::writers::Writers;
use crate::fault::Fault;
use crate::instance_lock::{InstanceLocks, LockError};
use crate::limits::{PIECES_PER_CORE_MIN, STAGES_PER_CORE, WRITES_IN_FLIGHT_PER_CORE};
use crate::log::{LogHome, LogProgress, LogRules, offline};
use crate::steps;

/// What to do with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Recover it and finish its files.
    Finish,
    /// Cut it at this offset and finish its files.
    Cut(i64),
    /// Read all of it and say what is wrong.
    Check,
}

/// Why the work was not done.
#[derive(Debug, thiserror::Error)]
pub enum SurgeryError {
    /// A data plane or a broker has the directory.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The log cannot be worked on.
    #[error(transparent)]
    Log(#[from] Fault),
    /// The check found something.
    #[error("{count} problems were found in {dir}")]
    Problems {
        /// The directory.
        dir: String,
        /// How many.
        count: usize,
    },
    /// The plan of a hand-over cannot be done.
    #[error("the plan {} cannot be done: {why}; make it anew by `twinlog promote`", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Nobody holds the lock of a log directory.
    #[error(
        "the lock {} is not held by whoever asks for the hand-over: a broker could start meanwhile; hold it and pass its descriptor by \
         --lock-fd", path.display()
    )]
    LockNotHeld {
        /// The lock file.
        path: PathBuf,
    },
    /// A partition lies at both places.
    #[error(
        "both {} and {} are there; move the one away that is not the mirror's", source_dir.display(), target_dir.display()
    )]
    TwoDirectories {
        /// Where it comes from.
        source_dir: PathBuf,
        /// Where it goes.
        target_dir: PathBuf,
    },
    /// A partition lies at neither place.
    #[error(
        "neither {} nor {} is there; look for the directory and move it to one of them", source_dir.display(), target_dir.display()
    )]
    NoDirectory {
        /// Where it comes from.
        source_dir: PathBuf,
        /// Where it goes.
        target_dir: PathBuf,
    },
    /// A directory cannot be renamed to another filesystem.
    #[error(
        "{} cannot be renamed to {}: they lie on different filesystems; give the broker a log directory on the filesystem of the data \
         directory", source_dir.display(), target_dir.display()
    )]
    OtherFilesystem {
        /// Where it comes from.
        source_dir: PathBuf,
        /// Where it goes.
        target_dir: PathBuf,
    },
    /// The log does not reach the last mirrored offset, or a batch spans it.
    #[error(
        "{} ends at offset {end}, but mirroring ended at {lmo}: records are missing; start the partition again until it has caught up", dir.display()
    )]
    OtherEnd {
        /// The partition's directory.
        dir: PathBuf,
        /// Where it ends.
        end: i64,
        /// Where it should.
        lmo: i64,
    },
    /// The last batch that stays is another one than was mirrored.
    #[error(
        "{} ends with leader epoch {found}, but the last mirrored batch had {wanted}; start the topic from scratch", dir.display()
    )]
    OtherEpoch {
        /// The partition's directory.
        dir: PathBuf,
        /// Epoch of its last batch; -1 for none.
        found: i32,
        /// What it should be.
        wanted: i32,
    },
    /// The log does not take what is to be appended.
    #[error("{} does not take what is to be appended: {why}; make the plan anew by `twinlog promote`", dir.display())]
    Refused {
        /// The partition's directory.
        dir: PathBuf,
        /// Why.
        why: String,
    },
    /// A copy does not fit.
    #[error("{needed} bytes are needed in {}, and {free} are free; make space, or give another directory", directory.display())]
    NoRoom {
        /// Where it would be.
        directory: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// A batch of the mirror is not what was mirrored.
    #[error(
        "{} is damaged at position {position}: {why}; it is not copied: look with `twinlog verify`, then mirror the topic from scratch", path.display()
    )]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong.
        why: String,
    },
    /// Nobody runs on the log directory into which copies are to be renamed.
    #[error("no broker runs on {}: the lock on its file .lock is free; start the broker, then run the same command again", path.display())]
    NoBroker {
        /// The log directory.
        path: PathBuf,
    },
    /// The checkpoints of a directory cannot be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The process was told to end at a step that there is none of.
    #[error("{variable}={_0} names no step of a hand-over; unset it", variable = steps::VARIABLE)]
    NoSuchStep(String),
    /// The result cannot be told.
    #[error("what was done cannot be told: {0}")]
    Result(String),
    /// A file or directory.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl SurgeryError {
    fn file(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { doing, path: path.to_owned(), source }
    }
}

/// Does the work and says on stdout what came of it.
///
/// # Errors
/// Why it was not done, or that problems were found.
pub fn run(dir: &Path, work: Work) -> Result<(), SurgeryError> {
    let absolute = std::path::absolute(dir).map_err(system("the directory cannot be found"))?;
    // Of a relative path with no parent the working directory is meant, which `absolute` has put in front.
    let data = absolute.parent().unwrap_or(&absolute);
    let rules = LogRules::default();
    let said = match work {
        Work::Check => check(&absolute)?,
        Work::Finish | Work::Cut(_) => {
            let _locks = InstanceLocks::take_data(data)?;
            let done = runtime::run(operate(&absolute, work, rules)).map_err(system("io_uring cannot be used"))??;
            format!("log start {}, log end {}, finished", done.log_start, done.leo)
        }
    };
    writeln!(io::stdout().lock(), "{}: {said}", dir.display()).map_err(system("stdout cannot be written"))
}

async fn operate(dir: &Path, work: Work, rules: LogRules) -> Result<LogProgress, SurgeryError> {
    let home = new_home()?;
    Ok(match work {
        Work::Cut(offset) => offline::cut(&home, dir, rules, offset).await?,
        Work::Finish | Work::Check => offline::finish(&home, dir, rules).await?,
    })
}

/// What logs share, on a ring that runs.
fn new_home() -> Result<LogHome<UringDisk>, SurgeryError> {
    let disk = Rc::new(UringDisk::new());
    let pool = Pool::new(PIECES_PER_CORE_MIN, STAGES_PER_CORE).map_err(system("no memory for buffers"))?;
    let writers = Writers::start(Rc::clone(&disk), WRITES_IN_FLIGHT_PER_CORE);
    Ok(LogHome { disk, pool, writers })
}

fn check(dir: &Path) -> Result<String, SurgeryError> {
    let checked = offline::check(dir)?;
    let mut out = io::stdout().lock();
    for problem in &checked.problems {
        writeln!(out, "{}: {problem}", dir.display()).map_err(system("stdout cannot be written"))?;
    }
    if !checked.problems.is_empty() {
        return Err(SurgeryError::Problems { dir: dir.display().to_string(), count: checked.problems.len() });
    }
    Ok(format!(
        "{} segments, {} batches, {} bytes, offsets {} to {}, nothing wrong",
        checked.segments, checked.batches, checked.bytes, checked.first_offset, checked.end_offset
    ))
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> SurgeryError {
    move |source| SurgeryError::System { what, source }
}
