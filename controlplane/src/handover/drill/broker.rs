//! The broker of a drill: started so that it ends with this command, known again after it, and ended without being asked.
//!
//! It is killed, not stopped: there is nothing to keep, and a broker that stops cuts every segment file to the length that it knows.

use crate::failure::Failure;
use crate::programs::RUN_TIED;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a broker may take, unless KAFKA_HEAP_OPTS says otherwise.
const HEAP: &str = "-Xms256m -Xmx1g";
/// Time that a killed process may take to be gone.
const GONE_TIME_MAX: Duration = Duration::from_secs(20);
/// How often it is looked.
const POLL: Duration = Duration::from_millis(20);

/// A process, known again by more than its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Process {
    pid: i32,
    /// When it started, in ticks since the system did.
    start_ticks: u64,
    /// The start of the system.
    boot_id: String,
}

/// Starts `command` in a process group of its own; the system kills it when this process ends. `logs` is for what Kafka's script writes.
pub(super) fn start(command: &str, log: &Path, logs: &Path) -> Result<Child, Failure> {
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new("the broker is not started", cause, format_args!("look at what would be run: {command}"))
    };
    let out = File::options().create(true).write(true).truncate(true).open(log).map_err(|cause| failed(&cause))?;
    let err = out.try_clone().map_err(|cause| failed(&cause))?;
    let own = std::env::current_exe().map_err(|cause| failed(&cause))?;
    let mut tied = Command::new(own);
    tied.arg(RUN_TIED).arg(std::process::id().to_string()).args(["/bin/sh", "-c", command]);
    if std::env::var_os("KAFKA_HEAP_OPTS").is_none() {
        tied.env("KAFKA_HEAP_OPTS", HEAP);
    }
    // Of a broker that runs on this host: its port of management, its folder of logs.
    tied.env_remove("JMX_PORT").env("LOG_DIR", logs);
    tied.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(|cause| failed(&cause))
}

impl Process {
    /// The process `pid`, which runs.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        Some(Self { pid, start_ticks: start_ticks(pid)?, boot_id: boot_id()? })
    }

    /// Whether it still runs and works on `room`.
    fn runs_in(&self, room: &Path) -> bool {
        let words = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let names_room = words.windows(room.as_os_str().len()).any(|part| part == room.as_os_str().as_encoded_bytes());
        names_room && Self::of(self.pid.cast_unsigned()).as_ref() == Some(self)
    }

    /// Kills it, with its process group, when it is the one that works on `room`; true when it was.
    ///
    /// # Errors
    /// When it does not end.
    pub(super) fn end(&self, room: &Path) -> Result<bool, Failure> {
        if !self.runs_in(room) {
            return Ok(false);
        }
        kill_group(self.pid);
        let begun = Instant::now();
        while self.runs_in(room) {
            if begun.elapsed() >= GONE_TIME_MAX {
                let why = format!("process {} was killed and is still there", self.pid);
                return Err(Failure::new("the broker of a drill does not end", why, "look what it waits for"));
            }
            sleep(POLL);
        }
        Ok(true)
    }
}

/// Kills a broker that this process started, and whatever it started.
pub(super) fn end(child: &mut Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        kill_group(pid);
    }
    // It may have been waited for already.
    child.kill().ok();
    child.wait().ok();
}

fn kill_group(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // One that is gone needs no signal.
        kill_process_group(pid, Signal::KILL).ok();
    }
}

/// Of a zombie none: it holds nothing any more.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    // The 22nd field of all, the third of which was the state.
    (state != "Z").then(|| fields.nth(18)?.parse().ok())?
}

fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_process_that_works_on_the_folder_is_ended() {
        let room = tempfile::tempdir().unwrap();
        let line = format!("sleep 600; : {}", room.path().display());
        let mut child = Command::new("/bin/sh").args(["-c", &line]).process_group(0).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        // A program that has just begun shows its words a little later.
        while !process.runs_in(room.path()) {
            sleep(POLL);
        }
        let others = [
            Process { start_ticks: process.start_ticks + 1, ..process.clone() },
            Process { boot_id: "another".into(), ..process.clone() },
        ];
        assert!(others.iter().all(|other| !other.end(room.path()).unwrap()));
        assert!(!process.end(Path::new("/another/room")).unwrap());
        assert_eq!(child.try_wait().unwrap(), None, "it runs");
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        assert!(process.end(room.path()).unwrap());
        assert!(!reaper.join().unwrap().success());
        assert!(!process.end(room.path()).unwrap());
    }
}
