//! pure: keys and values of a server.properties, and what is wrong with them.

use crate::handover::problem::Problem;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The settings of one file, and the problems found so far.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    path: &'a Path,
    values: BTreeMap<String, String>,
    /// In the order in which keys were looked at.
    pub(super) problems: Vec<Problem>,
}

impl<'a> Settings<'a> {
    /// The last value of a key counts.
    pub(super) fn new(path: &'a Path, pairs: Vec<(String, String)>) -> Self {
        Self { path, values: pairs.into_iter().collect(), problems: Vec::new() }
    }

    /// The value without blanks around it; none when the key is absent or empty, or its value comes from elsewhere, which is a problem.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let value = self.values.get(key)?.trim().to_owned();
        if value.contains("${") {
            let why = format_args!("its value {value} comes from a config provider, which only the broker asks");
            self.problem(key, why, "give a copy of the file with the value itself in it");
            // Said once.
            self.values.remove(key);
            return None;
        }
        (!value.is_empty()).then_some(value)
    }

    /// The parts of a value between commas; none as [`Settings::text`], and when all parts are empty.
    pub(super) fn list(&mut self, key: &str) -> Option<Vec<String>> {
        let text = self.text(key)?;
        let parts: Vec<_> = text.split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect();
        (!parts.is_empty()).then_some(parts)
    }

    /// Remembers what is wrong with a key.
    pub(super) fn problem(&mut self, key: &str, why: impl fmt::Display, remedy: impl fmt::Display) {
        self.problems.push(Problem::new(format_args!("{key} in {}", self.path.display()), why, remedy));
    }

    /// Remembers that a key is missing, unless it is there and has a problem already.
    pub(super) fn missing(&mut self, key: &str, remedy: impl fmt::Display) {
        let what = format!("{key} in {}", self.path.display());
        if !self.problems.iter().any(|problem| problem.what == what) {
            self.problems.push(Problem::new(what, "it is missing", remedy));
        }
    }
}
