//! pure: what a sync changed, or would change.

use crate::limits::{ANSWER_TEXT_CHARS_MAX, SYNC_CHANGES_SHOWN_MAX};
use crate::source::SourceError;
use std::fmt;
use std::str::FromStr;
use twinlog_proto::error_code::ErrorCode;

/// A kind of thing that is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Which topics there are, and how large.
    Topics,
    /// Settings of topics.
    Configs,
    /// Committed offsets of groups.
    Groups,
    /// Access rules.
    Acls,
    /// Quotas of clients.
    Quotas,
}

impl Kind {
    /// All of them, in the order in which they are synced.
    pub const ALL: [Self; 5] = [Self::Topics, Self::Configs, Self::Groups, Self::Acls, Self::Quotas];

    /// Its name on the wire, on command lines and in labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Configs => "configs",
            Self::Groups => "groups",
            Self::Acls => "acls",
            Self::Quotas => "quotas",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        known.ok_or_else(|| format!("{text:?} is nothing that can be synced; there are {names}"))
    }
}

/// What is done about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The source's value is put in place.
    Set,
    /// What the source does not have any more is taken away.
    Remove,
    /// A topic is mirrored from now on.
    Start,
    /// A topic gets the partitions that were added at the source.
    Grow,
    /// A setting that shapes the files of a topic becomes the source's.
    Settings,
    /// The difference stays on purpose.
    Keep,
    /// It could not be done.
    Fail,
}

impl Action {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Remove => "remove",
            Self::Start => "start",
            Self::Grow => "grow",
            Self::Settings => "settings",
            Self::Keep => "keep",
            Self::Fail => "fail",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The topic, group or resource.
    pub resource: String,
    /// The setting, partition or rule.
    pub key: String,
    /// What is here.
    pub from: Option<String>,
    /// What the source has.
    pub to: Option<String>,
    /// What is done about it.
    pub action: Action,
    /// Why it is kept or failed.
    pub reason: Option<String>,
}

/// What came of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The kind.
    pub kind: Kind,
    /// Why it could not be finished; what was done before it stays.
    pub error: Option<(ErrorCode, String)>,
    /// Why there was nothing to do, when that is no error.
    pub note: Option<String>,
    /// Changes that were made, or would be.
    pub applied: u64,
    /// Changes that could not be made.
    pub failed: u64,
    /// Differences that are kept on purpose.
    pub skipped: u64,
    /// The first of them.
    pub changes: Vec<Change>,
}

impl Report {
    /// Nothing so far.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, error: None, note: None, applied: 0, failed: 0, skipped: 0, changes: Vec::new() }
    }

    /// Counts a difference, and keeps it when there is room.
    pub fn add(&mut self, change: Change) {
        match change.action {
            Action::Set | Action::Remove | Action::Start | Action::Grow | Action::Settings => self.applied += 1,
            Action::Keep => self.skipped += 1,
            Action::Fail => self.failed += 1,
        }
        if self.changes.len() < SYNC_CHANGES_SHOWN_MAX {
            self.changes.push(change);
        }
    }

    /// Ends with an error; the first one is kept.
    pub fn fail(&mut self, code: ErrorCode, why: impl Into<String>) {
        let why: String = why.into();
        let why = why.chars().take(ANSWER_TEXT_CHARS_MAX).collect();
        self.error.get_or_insert((code, why));
    }

    /// Ends with an error of a cluster, `whose` it is in front.
    pub fn fail_at(&mut self, whose: &str, cause: &SourceError) {
        self.fail(cause.code(), format!("{whose}: {cause}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_counted_and_only_so_many_are_kept() {
        let mut report = Report::new(Kind::Configs);
        let change =
            |action| Change { resource: "t".into(), key: "k".into(), from: None, to: None, action, reason: None };
        for _ in 0..SYNC_CHANGES_SHOWN_MAX {
            report.add(change(Action::Set));
            report.add(change(Action::Keep));
        }
        report.add(change(Action::Fail));
        assert_eq!(report.changes.len(), SYNC_CHANGES_SHOWN_MAX);
        let shown = SYNC_CHANGES_SHOWN_MAX as u64;
        assert_eq!((report.applied, report.skipped, report.failed), (shown, shown, 1));
    }

    #[test]
    fn a_kind_is_read_by_its_name_and_what_is_none_is_named_with_the_choices() {
        assert_eq!("groups".parse(), Ok(Kind::Groups));
        let why = "offsets".parse::<Kind>().unwrap_err();
        assert!(why.contains("offsets") && why.contains("topics, configs, groups, acls, quotas"), "{why}");
    }
}
