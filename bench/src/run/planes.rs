//! Both planes as `twinlog up` starts them, and the `twinlog` command that drives them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::RunError;
use super::place::Place;
use crate::limits::STOP_MAX;
use crate::proc;
use crate::spawn::{SpawnError, serving, sibling};

const STOP_POLL: Duration = Duration::from_millis(20);
const LOG_LINES_TOLD: usize = 15;

/// Running planes. They end with this value.
#[derive(Debug)]
pub struct Planes {
    up: Child,
    // The planes keep writing there.
    _stdout: BufReader<ChildStdout>,
    twinlog: PathBuf,
    listen: String,
    log: PathBuf,
}

impl Planes {
    /// Starts both and waits until they serve.
    ///
    /// # Errors
    /// When they do not; their last lines are in it.
    pub fn start(place: &Place, config: &Path) -> Result<Self, RunError> {
        let twinlog = sibling("twinlog")?;
        let config = ["--config".as_ref(), config.as_os_str()];
        let mut up = serving("twinlog", &["up", "--cores", "1", "--log-format", "json"], &config, place)?;
        let Some(stdout) = up.stdout.take() else { return Err(RunError::Planes("twinlog up has no output".into())) };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line);
        let listen = line.split_whitespace().find_map(|word| word.strip_prefix("listen=")).map(str::to_owned);
        let mut this = Self { up, _stdout: stdout, twinlog, listen: String::new(), log: place.log() };
        match (read, listen) {
            (Ok(_), Some(listen)) if line.starts_with("twinlog ready") => {
                this.listen = listen;
                Ok(this)
            }
            _ => Err(RunError::Planes(format!("twinlog up did not start: {}", this.last_lines()))),
        }
    }

    /// Runs `twinlog ARGS` against the control plane.
    ///
    /// # Errors
    /// When it exits with another code than 0; what it said is in it.
    pub fn tell(&self, args: &[&str]) -> Result<String, RunError> {
        let ran = Command::new(&self.twinlog)
            .args(args)
            .args(["--bootstrap-server", &self.listen])
            .stdin(Stdio::null())
            .output()
            .map_err(|cause| SpawnError::Run { program: "twinlog".into(), here: self.twinlog.clone(), cause })?;
        if ran.status.success() {
            return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        Err(RunError::Planes(format!("twinlog {} failed: {}\n{}", args.join(" "), said.trim_end(), self.last_lines())))
    }

    /// Where the control plane listens.
    #[must_use]
    pub fn listen(&self) -> &str {
        &self.listen
    }

    /// The process of the control plane.
    ///
    /// # Errors
    /// When there is none.
    pub fn control_plane(&self) -> io::Result<u32> {
        proc::child_named(self.up.id(), "twinlog-controlplane")
    }

    /// The process of the data plane.
    ///
    /// # Errors
    /// When there is none.
    pub fn data_plane(&self) -> io::Result<u32> {
        proc::child_named(self.up.id(), "twinlog-dataplane")
    }

    /// What the data plane said that it has to do without, each once.
    #[must_use]
    pub fn without(&self) -> Vec<String> {
        let mut found = Vec::new();
        for line in fs::read_to_string(&self.log).unwrap_or_default().lines() {
            let message = message_of(line);
            if let Some((_, missing)) = message.split_once("without: ")
                && !found.iter().any(|seen| seen == missing)
            {
                found.push(missing.to_owned());
            }
        }
        found
    }

    /// Stops both cleanly.
    ///
    /// # Errors
    /// When they do not end in time, or not cleanly.
    pub fn stop(mut self) -> Result<(), RunError> {
        if let Some(pid) = Pid::from_raw(self.up.id().cast_signed()) {
            kill_process(pid, Signal::TERM).map_err(io::Error::from).map_err(RunError::signal)?;
        }
        let deadline = Instant::now() + STOP_MAX;
        while Instant::now() < deadline {
            match self.up.try_wait().map_err(RunError::signal)? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(RunError::Planes(format!("twinlog up ended with {status}: {}", self.last_lines())));
                }
                None => std::thread::sleep(STOP_POLL),
            }
        }
        Err(RunError::Planes(format!("twinlog up did not end within {} s", STOP_MAX.as_secs())))
    }

    /// The last lines that the planes printed.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(message_of).collect();
        lines[lines.len().saturating_sub(LOG_LINES_TOLD)..].join("\n")
    }
}

impl Drop for Planes {
    fn drop(&mut self) {
        // Both planes end when `up` does; after a clean stop there is nothing left to kill.
        self.up.kill().unwrap_or_default();
        drop(self.up.wait());
    }
}

/// The message of a log line, which is JSON unless a program printed it before its logging was up.
fn message_of(line: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(line).ok();
    let fields = parsed.as_ref().and_then(|line| line.get("fields"));
    let message = fields.and_then(|fields| fields.get("message")?.as_str());
    message.unwrap_or(line).to_owned()
}
