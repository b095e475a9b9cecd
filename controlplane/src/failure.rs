//! pure: why a command ends without having done its work, and with which exit code.

use std::fmt;

/// What went wrong, why, what a person can do about it, and the exit code that says so to a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    text: String,
    exit: Exit,
}

/// Exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Refused or failed.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// The time given was not enough.
    TimedOut = 3,
}

impl Failure {
    /// `what` was refused or failed, `why`, and the remedy.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {why}; {remedy}"), exit: Exit::Failed }
    }

    /// `what` was refused in the server's words, which say why and name the remedy.
    pub fn told(what: impl fmt::Display, words: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {words}"), exit: Exit::Failed }
    }

    /// A command line that clap takes and the command cannot.
    pub fn usage(what: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { text: format!("{what}; {remedy}"), exit: Exit::Usage }
    }

    /// `what` was not reached in the time given; `which` names what is missing.
    pub fn timed_out(what: impl fmt::Display, which: impl fmt::Display) -> Self {
        Self { text: format!("{what}: {which}"), exit: Exit::TimedOut }
    }

    /// Whoever reads stdout has had enough, as `head` does: a failure for the exit code, of which nobody needs to be told.
    #[must_use]
    pub fn unheard() -> Self {
        Self { text: String::new(), exit: Exit::Failed }
    }

    /// Whether there is something to say.
    #[must_use]
    pub fn has_words(&self) -> bool {
        !self.text.is_empty()
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<crate::error::Fatal> for Failure {
    fn from(cause: crate::error::Fatal) -> Self {
        Self { text: cause.to_string(), exit: Exit::Failed }
    }
}
