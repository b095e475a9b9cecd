//! What the control plane counts of its own work. Everybody who does such work has one line that counts it; the pages read it.

use super::requests::Requests;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ends of the buckets of delays, in microseconds: 100 us to 10 s.
const BUCKET_ENDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// The counters.
#[derive(Debug, Default)]
pub struct Tally {
    /// Commits of the state log.
    pub commits: Commits,
    /// Requests of clients.
    pub requests: Requests,
    sources: RefCell<BTreeMap<String, Asked>>,
}

/// Commits of the state log: one write and one sync each.
#[derive(Debug, Default)]
pub struct Commits {
    /// How long they took.
    pub took: Delays,
    /// Those that failed.
    pub failed: Cell<u64>,
    /// Records that became durable.
    pub records: Cell<u64>,
}

/// Questions to the source of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Answered.
    pub answered: u64,
    /// Not answered.
    pub failed: u64,
    /// When it last answered, ms since 1970.
    pub answered_at_ms: Option<i64>,
    /// Whether the last question was answered.
    pub answers: bool,
}

impl Tally {
    /// A source was asked what it has.
    pub fn asked(&self, mirror: &str, answered: bool, now_ms: i64) {
        let mut sources = self.sources.borrow_mut();
        let asked = sources.entry(mirror.to_owned()).or_default();
        asked.answers = answered;
        if answered {
            asked.answered += 1;
            asked.answered_at_ms = Some(now_ms);
        } else {
            asked.failed += 1;
        }
    }

    /// What came of the questions to a mirror's source; `None` when there was none.
    #[must_use]
    pub fn source(&self, mirror: &str) -> Option<Asked> {
        self.sources.borrow().get(mirror).copied()
    }

    /// Forgets mirrors that are not there any more.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.sources.borrow_mut().retain(|mirror, _| exists(mirror));
    }
}

impl Commits {
    /// A commit of so many records took so long.
    pub fn count(&self, took: Duration, records: usize, durable: bool) {
        self.took.count(took);
        if durable {
            self.records.set(self.records.get() + records as u64);
        } else {
            self.failed.set(self.failed.get() + 1);
        }
    }
}

/// Delays in buckets.
#[derive(Debug, Default)]
pub struct Delays {
    buckets: [Cell<u64>; BUCKET_ENDS_US.len()],
    count: Cell<u64>,
    sum_us: Cell<u64>,
}

impl Delays {
    /// Counts one.
    pub fn count(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(at) = BUCKET_ENDS_US.iter().position(|end| took_us <= *end) {
            self.buckets[at].set(self.buckets[at].get() + 1);
        }
        self.count.set(self.count.get() + 1);
        self.sum_us.set(self.sum_us.get().saturating_add(took_us));
    }

    /// How many.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.count.get()
    }

    /// All together, in seconds.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        self.sum_us.get() as f64 / 1e6
    }

    /// The ends of the buckets in seconds, and how many are not above each.
    #[must_use]
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let mut below = 0;
        let ends = BUCKET_ENDS_US.iter().map(|end| *end as f64 / 1e6);
        ends.zip(&self.buckets)
            .map(|(end, more)| {
                below += more.get();
                (end, below)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_what_is_above_them_is_counted() {
        let delays = Delays::default();
        for us in [50, 100, 101, 9_999_999, 20_000_000] {
            delays.count(Duration::from_micros(us));
        }
        let cumulative = delays.cumulative();
        assert_eq!((cumulative[0], cumulative[1], cumulative[15]), ((0.0001, 2), (0.000_25, 3), (10.0, 4)));
        assert_eq!((delays.counted(), delays.sum_seconds()), (5, 30.000_25));
    }

    #[test]
    fn a_source_is_remembered_until_its_mirror_is_gone() {
        let tally = Tally::default();
        assert_eq!(tally.source("m"), None);
        tally.asked("m", true, 5);
        tally.asked("m", false, 9);
        let asked = Asked { answered: 1, failed: 1, answered_at_ms: Some(5), answers: false };
        assert_eq!(tally.source("m"), Some(asked));
        tally.retain(|mirror| mirror != "m");
        assert_eq!(tally.source("m"), None);
    }
}
