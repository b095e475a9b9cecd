//! pure: what each sync of each mirror did since the start.

use crate::mirror::settings::Settings;
use crate::source::report::{Kind, Report};
use crate::sync::filters;
use std::collections::BTreeMap;

/// One sync of one mirror.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// When it last succeeded, in ms since 1970.
    pub last_success_ms: Option<i64>,
    /// When it was last tried.
    pub last_attempt_ms: Option<i64>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// Why there is nothing to do, when that is no error.
    pub note: Option<String>,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that failed as a whole.
    pub errors: u64,
    /// Changes made.
    pub applied: u64,
    /// Changes that could not be made.
    pub failed: u64,
    /// Differences that the last attempt kept on purpose.
    pub skipped: u64,
}

/// All of them, by mirror and kind.
#[derive(Debug, Clone, Default)]
pub struct Statuses {
    mirrors: BTreeMap<String, BTreeMap<Kind, Status>>,
    /// How often topics are looked for where a mirror does not say.
    pub topics_interval_ms: u64,
}

impl Statuses {
    /// What is known of a sync.
    #[must_use]
    pub fn get(&self, mirror: &str, kind: Kind) -> Status {
        self.mirrors.get(mirror).and_then(|kinds| kinds.get(&kind)).cloned().unwrap_or_default()
    }

    /// Time from one sync of a kind to the next; 0 = off.
    #[must_use]
    pub fn interval_ms(&self, settings: &Settings, kind: Kind) -> u64 {
        match kind {
            Kind::Topics if !settings.contains_key(filters::interval_key(kind)) => self.topics_interval_ms,
            kind => filters::interval_ms(settings, kind),
        }
    }

    /// Notes what came of an attempt that changed things (not of a dry run).
    pub fn note(&mut self, mirror: &str, report: &Report, now_ms: i64) {
        let status = self.mirrors.entry(mirror.to_owned()).or_default().entry(report.kind).or_default();
        status.attempts += 1;
        status.last_attempt_ms = Some(now_ms);
        status.last_error = report.error.as_ref().map(|(_, why)| why.clone());
        status.note.clone_from(&report.note);
        match report.error {
            Some(_) => status.errors += 1,
            None => status.last_success_ms = Some(now_ms),
        }
        status.applied += report.applied;
        status.failed += report.failed;
        status.skipped = report.skipped;
    }

    /// Forgets mirrors that are not there any more.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.mirrors.retain(|mirror, _| exists(mirror));
    }
}

/// Whether a sync is due: never tried, or its time has come; with interval 0 it never is.
#[must_use]
pub fn is_due(status: &Status, interval_ms: u64, now_ms: i64) -> bool {
    let interval_ms = i64::try_from(interval_ms).unwrap_or(i64::MAX);
    // A clock that was set back must not stop it.
    let passed = |last: i64| now_ms < last || now_ms - last >= interval_ms;
    interval_ms > 0 && status.last_attempt_ms.is_none_or(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::error_code::ErrorCode;

    #[test]
    fn an_error_stays_until_an_attempt_succeeds_and_counters_add_up() {
        let mut statuses = Statuses::default();
        let mut report = Report::new(Kind::Acls);
        report.applied = 2;
        report.fail(ErrorCode::REQUEST_TIMED_OUT, "nobody there");
        statuses.note("m", &report, 10);
        let seen = statuses.get("m", Kind::Acls);
        assert_eq!((seen.last_attempt_ms, seen.last_success_ms, seen.errors), (Some(10), None, 1));
        assert_eq!(seen.last_error.as_deref(), Some("nobody there"));
        report.error = None;
        statuses.note("m", &report, 20);
        let seen = statuses.get("m", Kind::Acls);
        assert_eq!((seen.last_success_ms, seen.last_error, seen.applied, seen.attempts), (Some(20), None, 4, 2));
        statuses.retain(|mirror| mirror != "m");
        assert_eq!(statuses.get("m", Kind::Acls), Status::default());
    }

    #[test]
    fn a_sync_is_due_at_once_and_then_after_its_interval_and_never_when_off() {
        let at = |last_attempt_ms| Status { last_attempt_ms, ..Status::default() };
        assert!(is_due(&at(None), 100, 0) && !is_due(&at(None), 0, 0));
        assert!(!is_due(&at(Some(50)), 100, 149) && is_due(&at(Some(50)), 100, 150));
        assert!(is_due(&at(Some(5_000)), 100, 10), "the clock was set back");
    }
}
