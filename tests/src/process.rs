//! Child processes that do not outlive their test: the kernel kills them when the thread that started them ends.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a condition is looked at again.
pub const POLL: Duration = Duration::from_millis(20);

/// A command that is killed with the thread that starts it (`setpriv` sets the death signal: it needs no unsafe code of ours).
pub fn mortal(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null());
    command
}

/// Sends standard output and standard error of `command` to one file, appended to.
///
/// # Panics
/// When the file cannot be opened.
pub fn log_to<'c>(command: &'c mut Command, file: &Path) -> &'c mut Command {
    let out = File::options()
        .create(true)
        .append(true)
        .open(file)
        .unwrap_or_else(|e| panic!("cannot open {}: {e}", file.display()));
    let err = out.try_clone().expect("a second handle of an open file");
    command.stdout(out).stderr(err)
}

/// Sends `signal`; a process that is gone already is fine.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Waits for the end of `child`.
///
/// # Errors
/// When it still runs after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if began.elapsed() < limit => std::thread::sleep(POLL),
            Ok(None) => return Err(format!("process {} still runs after {limit:?}", child.id())),
            Err(e) => return Err(format!("process {} cannot be waited for: {e}", child.id())),
        }
    }
}

/// Looks at `condition` until it gives a value.
///
/// # Panics
/// When `limit` passes first; the message names `what` and what the last look gave.
pub fn until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match condition() {
            Ok(value) => return value,
            Err(why) => assert!(began.elapsed() < limit, "{what}: not within {limit:?}: {why}"),
        }
        std::thread::sleep(POLL);
    }
}

/// The direct children of `parent` that run the program `name` (first 15 bytes, as the kernel keeps them).
#[must_use]
pub fn children_named(parent: u32, name: &str) -> Vec<u32> {
    let mut found: Vec<u32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_and_name(*pid).is_some_and(|(p, n)| p == parent && n == name.get(..15).unwrap_or(name)))
        .collect();
    found.sort_unstable();
    found
}

fn parent_and_name(pid: u32) -> Option<(u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = tail.split_whitespace();
    let state = fields.next()?;
    (state != "Z").then_some(())?;
    Some((fields.next()?.parse().ok()?, name))
}

/// Whether a process with this id runs (a zombie does not).
#[must_use]
pub fn runs(pid: u32) -> bool {
    parent_and_name(pid).is_some()
}
