//! One plane as a child process: started, listened to, started again after a pause that grows, stopped.
//!
//! The child is `twinlog run-tied`, which ties its life to ours and then becomes the plane ([`super::tied`]): a direct child under the
//! plane's own name, that ends with us also when we are killed. It leads a process group of its own, so that Ctrl-C in a terminal reaches
//! `up` alone, which then stops the planes in order.

use crate::failure::Failure;
use crate::host::RESTARTS_VARIABLE;
use crate::programs::RUN_TIED;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Pause before a plane that died is started again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A plane that ran this long starts with the shortest pause again.
const STEADY: Duration = Duration::from_secs(10);

/// What happened to a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaneEvent {
    /// It said something, or was started again.
    Changed,
    /// It ended before it ever served: starting it again would not help.
    EndedEarly {
        /// Its exit code; `None` when a signal ended it.
        code: Option<i32>,
    },
}

/// A plane and how to start it.
#[derive(Debug)]
pub(super) struct Plane {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    told: HashMap<String, String>,
    served_once: bool,
    run: Option<Run>,
    pause: Duration,
    again_at: Option<Instant>,
    /// How often it was started again.
    restarts: u64,
}

#[derive(Debug)]
struct Run {
    child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    since: Instant,
}

impl Plane {
    pub(super) fn new(name: &'static str, program: PathBuf, args: Vec<String>) -> Self {
        Self {
            name,
            program,
            args,
            told: HashMap::new(),
            served_once: false,
            run: None,
            pause: PAUSE_MIN,
            again_at: None,
            restarts: 0,
        }
    }

    /// Whether it has said that it serves.
    pub(super) fn serves(&self) -> bool {
        self.served_once
    }

    /// The value of `key` in its ready line.
    pub(super) fn told(&self, key: &str) -> Option<&str> {
        self.told.get(key).map(String::as_str)
    }

    pub(super) fn start(&mut self) -> Result<(), Failure> {
        let failed = |cause| {
            let what = format!("{} cannot be started", self.program.display());
            Failure::new(what, cause, "check the file and its mode")
        };
        let own = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(own);
        command.arg(RUN_TIED).arg(std::process::id().to_string()).arg(&self.program).args(&self.args);
        command.env(RESTARTS_VARIABLE, self.restarts.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
        self.run = Some(Run { child, lines, since: Instant::now() });
        Ok(())
    }

    /// Waits for the next thing to happen; restarts the plane when it ends after having served. May be dropped at any await.
    pub(super) async fn next(&mut self) -> PlaneEvent {
        let Some(run) = &mut self.run else {
            // A time, not a pause: this future is dropped whenever the other plane has something to say.
            let at = *self.again_at.get_or_insert_with(|| Instant::now() + self.pause);
            tokio::time::sleep_until(at.into()).await;
            self.again_at = None;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            self.restarts += 1;
            if let Err(failure) = self.start() {
                tracing::error!(plane = self.name, %failure, "the plane cannot be started again");
            }
            return PlaneEvent::Changed;
        };
        if let Some(lines) = &mut run.lines {
            match lines.next_line().await {
                Ok(Some(line)) => self.hear(&line),
                // It closed its stdout: it is about to end.
                Ok(None) | Err(_) => run.lines = None,
            }
            return PlaneEvent::Changed;
        }
        let status = run.child.wait().await;
        if run.since.elapsed() >= STEADY {
            self.pause = PAUSE_MIN;
        }
        self.run = None;
        if !self.served_once {
            return PlaneEvent::EndedEarly { code: status.ok().and_then(|status| status.code()) };
        }
        // A signal has no exit code, and says most: SIGKILL without a hand is the kernel that was short of memory.
        let how = status.map_or_else(|cause| cause.to_string(), |status| status.to_string());
        tracing::error!(
            plane = self.name,
            how,
            again_in_ms = self.pause.as_millis(),
            "a plane died; the other goes on"
        );
        PlaneEvent::Changed
    }

    fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        if words.next() != Some("ready") {
            return;
        }
        self.served_once = true;
        for word in words {
            if let Some((key, value)) = word.split_once('=') {
                self.pin(key, value);
                self.told.insert(key.to_owned(), value.to_owned());
            }
        }
    }

    /// A port that the system chose stays the same when the plane comes back.
    fn pin(&mut self, key: &str, value: &str) {
        let flag = format!("--{key}");
        if let Some(at) = self.args.iter().position(|arg| *arg == flag)
            && let Some(old) = self.args.get_mut(at + 1)
        {
            value.clone_into(old);
        }
    }

    /// SIGTERM, then SIGKILL when `timeout` has passed.
    pub(super) async fn stop(&mut self, timeout: Duration) {
        let Some(mut run) = self.run.take() else { return };
        let pid = run.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid
            && let Err(cause) = rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        {
            tracing::warn!(plane = self.name, %cause, "SIGTERM could not be sent");
        }
        if tokio::time::timeout(timeout, run.child.wait()).await.is_err() {
            tracing::error!(
                plane = self.name,
                "the plane did not stop in time and is killed; it recovers at its next start"
            );
            if let Err(cause) = run.child.kill().await {
                tracing::error!(plane = self.name, %cause, "the plane could not be killed");
            }
        }
    }
}
