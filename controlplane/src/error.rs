//! pure: why this process does not start or stops: what, why, remedy in one line.

use std::fmt;

/// A reason to end the process with exit code 1.
#[derive(Debug)]
pub struct Fatal {
    what: String,
    why: String,
    remedy: String,
}

impl Fatal {
    /// `what` could not be done, `why`, and what a person can do about it.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { what: what.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.why, self.remedy)
    }
}

impl std::error::Error for Fatal {}
