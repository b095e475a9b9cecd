//! The `twinlog` command as a script sees it: exit code, standard output, standard error.

use crate::place;
use serde_json::Value;
use std::process::{Command, Stdio};

/// What a command of ours did.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output, when the command was done (exit code 0).
    ///
    /// # Panics
    /// When it was not.
    pub fn done(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// The document of `--json`, when the command was done.
    ///
    /// # Panics
    /// When it was not, or printed something else.
    #[must_use]
    pub fn json(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("not one JSON document ({e}): {text}"))
    }

    /// The one line that says what is wrong, when the command was refused (exit code 1).
    ///
    /// # Panics
    /// When it was done, or said more or less than one line.
    #[must_use]
    pub fn refused(self) -> String {
        assert_eq!(self.code, 1, "{self:?}");
        let lines: Vec<_> = self.stderr.lines().filter(|l| !l.trim().is_empty() && !is_log_line(l)).collect();
        assert_eq!(lines.len(), 1, "one clear line: {self:?}");
        lines[0].to_owned()
    }
}

/// A line of a plane's log: it begins with its time.
fn is_log_line(line: &str) -> bool {
    line.as_bytes().get(10) == Some(&b'T') && line.bytes().take(4).all(|b| b.is_ascii_digit())
}

/// Runs `twinlog` with `arguments`.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn twinlog(arguments: &[&str]) -> Ran {
    finish(Command::new(place::binary("twinlog")).args(arguments))
}

/// Runs `twinlog` with `arguments`; it kills itself when it passes `step`.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn twinlog_until(step: &str, arguments: &[&str]) -> Ran {
    twinlog_with(&[("TWINLOG_KILL_AT", step)], arguments)
}

/// Runs `twinlog` with `arguments` and variables of the environment.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn twinlog_with(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    finish(Command::new(place::binary("twinlog")).args(arguments).envs(variables.iter().copied()))
}

fn finish(command: &mut Command) -> Ran {
    let out = command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    Ran { code: out.status.code().unwrap_or(-1), stdout: text(&out.stdout), stderr: text(&out.stderr) }
}
