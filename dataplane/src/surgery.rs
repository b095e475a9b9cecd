//! `twinlog-dataplane finish|cut|check DIR`: work on the directory of a partition while no data plane has it.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use crate::buffers::Pool;
use crate::core::runtime;
use crate::disk::uring::UringDisk;
use crate::disk::writers::Writers;
use crate::fault::Fault;
use crate::instance_lock::{InstanceLocks, LockError};
use crate::limits::{PIECES_PER_CORE_MIN, STAGES_PER_CORE, WRITES_IN_FLIGHT_PER_CORE};
use crate::log::{LogHome, LogProgress, LogRules, offline};

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
    /// The system refused something else.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
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
    let disk = Rc::new(UringDisk::new());
    let pool = Pool::new(PIECES_PER_CORE_MIN, STAGES_PER_CORE).map_err(system("no memory for buffers"))?;
    let writers = Writers::start(Rc::clone(&disk), WRITES_IN_FLIGHT_PER_CORE);
    let home = LogHome { disk, pool, writers };
    Ok(match work {
        Work::Cut(offset) => offline::cut(&home, dir, rules, offset).await?,
        Work::Finish | Work::Check => offline::finish(&home, dir, rules).await?,
    })
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
