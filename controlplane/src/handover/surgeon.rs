//! The program that works on segment files for the steps here: given a plan, run under the locks that this process holds.

use crate::failure::Failure;
use crate::files;
use crate::handover::locks::Locks;
use crate::programs::sibling;
use crate::steps;
use std::path::Path;
use std::process::{Command, Stdio};
use twinlog_proto::handover::plan::{self, HandOverPlan, HandOverResult};

/// Name of the program.
const DATA_PLANE: &str = "twinlog-dataplane";
/// Bytes of its answer and of its complaints that are read; a partition takes about a hundred.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Writes a plan.
///
/// # Errors
/// As the file system says.
pub fn write_plan(path: &Path, plan: &HandOverPlan) -> Result<(), Failure> {
    let failed = |cause: &dyn std::fmt::Display, remedy: &str| {
        Failure::new(format_args!("the plan {} cannot be written", path.display()), cause, remedy)
    };
    let bytes = plan::encode(plan).map_err(|cause| failed(&cause, "hand over fewer topics at once (--topic)"))?;
    if bytes.len() as u64 > plan::BYTES_MAX {
        // It would be refused when the directories are about to be moved, and when they are to be moved back.
        let cause = format_args!("it would have {} bytes, more than {}", bytes.len(), plan::BYTES_MAX);
        return Err(failed(&cause, "hand over fewer topics at once (--topic), or without internal topics"));
    }
    files::replace(path, &bytes).map_err(|cause| failed(&cause, "make room in the state directory"))
}

/// A plan as it was written.
///
/// # Errors
/// When it cannot be read.
pub fn read_plan(path: &Path) -> Result<HandOverPlan, Failure> {
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("the plan {} cannot be used", path.display()),
            cause,
            "restore it, then run the same command again",
        )
    };
    let bytes = std::fs::read(path).map_err(|cause| failed(&cause))?;
    plan::decode(&bytes).map_err(|cause| failed(&cause))
}

/// Has the program do what the plan at `path` says, under these locks; gives what it says.
///
/// # Errors
/// What it complains of.
pub fn operate(path: &Path, locks: &Locks) -> Result<HandOverResult, Failure> {
    const VERB: &str = "hand-over";
    let fds = locks.inheritable().map_err(|cause| failed(VERB, &cause))?;
    let fds = fds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    // Without locks it is work beside a broker that runs.
    let ran = if fds.is_empty() { run(VERB, path, &[]) } else { run(VERB, path, &["--lock-fd", &fds]) };
    locks.keep().map_err(|cause| failed(VERB, &cause))?;
    ran
}

/// Has the program copy what the plan at `path` names; gives what it says.
///
/// # Errors
/// What it complains of.
pub fn clone(path: &Path) -> Result<HandOverResult, Failure> {
    run("clone", path, &[])
}

fn failed(verb: &str, cause: &dyn std::fmt::Display) -> Failure {
    let remedy = "mend what it names, then run the same command again";
    Failure::new(format_args!("{DATA_PLANE} {verb} failed"), cause, remedy)
}

fn run(verb: &str, path: &Path, more: &[&str]) -> Result<HandOverResult, Failure> {
    let failed = |cause: &dyn std::fmt::Display| failed(verb, cause);
    let mut command = Command::new(sibling(DATA_PLANE)?);
    command.arg(verb).arg(path).args(more);
    if steps::is_armed() {
        // It is one of ours that is meant.
        command.env_remove(steps::VARIABLE);
    }
    let ran = command.stdin(Stdio::null()).output().map_err(|cause| failed(&cause))?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned();
        return Err(failed(&format_args!("{last} ({})", ran.status)));
    }
    if ran.stdout.len() > ANSWER_BYTES_MAX {
        return Err(failed(&"its answer is far too long"));
    }
    plan::decode_result(&ran.stdout).map_err(|cause| failed(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::handover::plan::PlannedPartition;

    #[test]
    fn a_plan_that_would_not_be_read_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dr.plan");
        let with = |bytes: usize| HandOverPlan {
            partitions: vec![PlannedPartition { batches: vec![0; bytes], ..PlannedPartition::default() }],
            ..HandOverPlan::default()
        };
        write_plan(&path, &with(9)).unwrap();
        let refused = write_plan(&path, &with(plan::BYTES_MAX as usize)).unwrap_err().to_string();
        assert!(refused.contains("fewer topics"), "{refused}");
        assert_eq!(plan::decode(&std::fs::read(&path).unwrap()), Ok(with(9)));
    }
}
