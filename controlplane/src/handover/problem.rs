//! pure: why something of a node keeps it from being laid out.

use std::fmt;

/// What is wrong, why, and what a person can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The thing: a key and its file, a directory.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
    /// What helps.
    pub remedy: String,
}

impl Problem {
    /// A problem with `what`.
    pub fn new(what: impl fmt::Display, why: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self { what: what.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.why, self.remedy)
    }
}

impl std::error::Error for Problem {}
