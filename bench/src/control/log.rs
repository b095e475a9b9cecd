//! How long a control plane takes until it serves, with a long state log.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::Instant;

use super::table::Row;
use super::{Size, state_log};
use crate::args::Run;
use crate::proc;
use crate::run::RunError;
use crate::run::place::{self, Place};
use crate::spawn::serving;

const LOAD_SECONDS_GOAL: f64 = 2.0;

/// A process that is killed when it goes out of sight.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        drop(self.0.wait());
    }
}

/// Writes the log, starts a control plane on it twice, and gives the better time: the first one may read from the disk.
///
/// # Errors
/// When the log cannot be written or the control plane does not start.
pub fn measure(args: &Run, size: Size) -> Result<Vec<Row>, RunError> {
    let shown = place::parent(args.dir.as_deref());
    let place = Place::create(args.dir.as_deref(), args.keep).map_err(RunError::place(&shown))?;
    let bytes = state_log::write(&place.state(), size, args.records).map_err(RunError::place(place.root()))?;
    let mut best = (f64::INFINITY, 0, 0.0);
    for _ in 0..2 {
        if state_log::size(&place.state()).map_err(RunError::place(place.root()))? != bytes {
            // It was compacted before it was killed: a second start would load another log.
            break;
        }
        let (seconds, memory, cpu) = start(&place)?;
        if seconds < best.0 {
            best = (seconds, memory, cpu);
        }
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(vec![
        Row::goal(format!("a log of {} records loads, until it serves", args.records), LOAD_SECONDS_GOAL, best.0, "s"),
        Row::told("  CPU until it serves", best.2, "s"),
        Row::told("  size of the log", mib(bytes), "MiB"),
        Row::told("  memory after loading (VmRSS)", mib(best.1), "MiB"),
    ])
}

fn start(place: &Place) -> Result<(f64, u64, f64), RunError> {
    let began = Instant::now();
    let mut child = Killed(serving("twinlog-controlplane", &[], &[], place)?);
    let Some(stdout) = child.0.stdout.take() else { return Err(RunError::Planes("no output".into())) };
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(RunError::Process)?;
    let seconds = began.elapsed().as_secs_f64();
    if !line.starts_with("ready ") {
        let said = std::fs::read_to_string(place.log()).unwrap_or_default();
        return Err(RunError::Planes(format!("the control plane did not start: {said}")));
    }
    let pid = child.0.id();
    let memory = proc::memory_bytes(pid).map_err(RunError::Process)?;
    Ok((seconds, memory, proc::cpu_seconds(pid).map_err(RunError::Process)?))
}
