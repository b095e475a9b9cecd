//! pure: requests by kind and outcome, how long their answers took, and which were denied.

use super::tally::Delays;
use super::text::{Kind, Page};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::Message;

/// The counters. Kinds are those that are served, and outcomes have the names of error codes, so their number is bounded.
#[derive(Debug, Default)]
pub struct Requests {
    outcomes: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    took: RefCell<BTreeMap<&'static str, Delays>>,
    denied: RefCell<BTreeMap<&'static str, u64>>,
    said_at_ms: Cell<Option<i64>>,
    unsaid: Cell<u64>,
}

/// What an answer says of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The first error, of the whole or of a part.
    pub code: ErrorCode,
    /// Whether any of it was denied for want of a right.
    pub denied: bool,
}

/// Time between two lines about requests that were denied.
const SAY_EVERY_MS: u64 = 1_000;

impl Outcome {
    /// The outcome that an answer tells.
    #[must_use]
    pub fn of(answer: &impl Message) -> Self {
        let mut outcome = Self { code: ErrorCode::NONE, denied: false };
        answer.errors(&mut |code| {
            let code = ErrorCode(code);
            outcome.denied |= is_denial(code);
            if outcome.code.is_none() {
                outcome.code = code;
            }
        });
        outcome
    }
}

fn is_denial(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_MIRROR_AUTHORIZATION_FAILED
    )
}

impl Requests {
    /// A request was answered.
    pub fn count(&self, key: i16, outcome: Outcome, took: Duration) {
        let api = api::name(key);
        *self.outcomes.borrow_mut().entry((api, outcome.code.name())).or_default() += 1;
        self.took.borrow_mut().entry(api).or_default().count(took);
        if outcome.denied {
            *self.denied.borrow_mut().entry(api).or_default() += 1;
        }
    }

    /// Whether it is time for a line about a denied request, and how many had none before it.
    pub fn say(&self, now_ms: i64) -> Option<u64> {
        if self.said_at_ms.get().is_some_and(|said| now_ms.abs_diff(said) < SAY_EVERY_MS) {
            self.unsaid.set(self.unsaid.get() + 1);
            return None;
        }
        self.said_at_ms.set(Some(now_ms));
        Some(self.unsaid.take())
    }
}

pub(super) fn write(page: &mut Page, requests: &Requests) {
    let help = "Requests that were answered, by kind and by the first error of the answer";
    let mut outcomes = page.family("twinlog_requests_total", Kind::Counter, help);
    for ((api, error), count) in requests.outcomes.borrow().iter() {
        outcomes.sample(&[("api", api), ("error", error)], count);
    }
    let help = "Requests of which something was denied for want of a right";
    let mut denied = page.family("twinlog_denied_total", Kind::Counter, help);
    for (api, count) in requests.denied.borrow().iter() {
        denied.sample(&[("api", api)], count);
    }
    let help = "Time from a whole request to its answer";
    let mut took = page.family("twinlog_request_duration_seconds", Kind::Histogram, help);
    for (api, delays) in requests.took.borrow().iter() {
        let api: &dyn Display = api;
        took.histogram(&[("api", api)], &delays.cumulative(), delays.sum_seconds(), delays.counted());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::delete_mirror::DeleteMirrorResponse;
    use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsResponse, DescribedMirror};

    #[test]
    fn the_first_error_of_an_answer_is_its_outcome_and_a_denied_part_is_a_denial() {
        let whole = |code: ErrorCode| DeleteMirrorResponse { error_code: code.0, ..DeleteMirrorResponse::default() };
        let outcome = |code, denied| Outcome { code, denied };
        assert_eq!(Outcome::of(&whole(ErrorCode::NONE)), outcome(ErrorCode::NONE, false));
        let denied = ErrorCode::CLUSTER_MIRROR_AUTHORIZATION_FAILED;
        assert_eq!(Outcome::of(&whole(denied)), outcome(denied, true));
        let mirror = |code: ErrorCode| DescribedMirror { error_code: code.0, ..DescribedMirror::default() };
        let mirrors = [ErrorCode::NONE, ErrorCode::UNKNOWN_CLUSTER_MIRROR, denied].map(mirror).into();
        let parts = DescribeMirrorsResponse { mirrors, ..DescribeMirrorsResponse::default() };
        assert_eq!(Outcome::of(&parts), outcome(ErrorCode::UNKNOWN_CLUSTER_MIRROR, true));
    }

    #[test]
    fn requests_are_counted_by_kind_and_outcome_and_denials_are_said_at_a_bounded_rate() {
        let requests = Requests::default();
        let denied = Outcome { code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED, denied: true };
        requests.count(api::DELETE_MIRROR, denied, Duration::from_millis(3));
        requests.count(api::DELETE_MIRROR, Outcome { code: ErrorCode(30_000), denied: false }, Duration::from_secs(99));
        let mut page = Page::default();
        write(&mut page, &requests);
        let text = page.finish();
        for line in [
            "twinlog_requests_total{api=\"DeleteMirror\",error=\"CLUSTER_AUTHORIZATION_FAILED\"} 1",
            "twinlog_requests_total{api=\"DeleteMirror\",error=\"UNKNOWN_ERROR_CODE\"} 1",
            "twinlog_denied_total{api=\"DeleteMirror\"} 1",
            "twinlog_request_duration_seconds_bucket{api=\"DeleteMirror\",le=\"0.005\"} 1",
            "twinlog_request_duration_seconds_count{api=\"DeleteMirror\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert_eq!([0, 1, 999, 1_000, 1_001].map(|now_ms| requests.say(now_ms)), [Some(0), None, None, Some(2), None]);
    }
}
