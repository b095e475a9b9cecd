//! The task that makes state follow the data plane: the board, and retries that are due.

use crate::clock::now_ms;
use crate::config::RetryRules;
use crate::driver::Driver;
use crate::limits::{
    BOARD_IDLE_FACTOR, BOARD_POLL, BOARD_POLL_MAX, BOARD_RUNG_FACTOR, PACE_POLL, PACE_POLL_IDLE, RESOLVE_RETRY,
};
use crate::mirror::catalog::Catalog;
use crate::mirror::decide::PartitionKey;
use crate::mirror::event::MirrorEvent;
use crate::mirror::machine::Event;
use crate::plane::attachment::Link;
use crate::plane::events::Watcher;
use crate::plane::sender::Sender;
use crate::steps::{self, Step};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use twinlog_proto::mirror_state::MirrorState;

/// Looks at the board when it rings, and every 100 ms; tries failed partitions again when their time has come. A board of many
/// partitions is looked at less often, so that looking never takes more than a small share of the time.
pub async fn board(driver: Driver, link: Rc<Link>, sender: Rc<Sender>, rules: RetryRules) {
    let watcher = Rc::new(RefCell::new(Watcher::default()));
    let mut retries = Retries::new(rules, &driver.catalog());
    let mut looked_for = Duration::ZERO;
    loop {
        // Ringing or not, the board is looked at: a ring only makes it sooner.
        timeout(idle(looked_for), link.rung()).await.ok();
        sleep(pause(looked_for)).await;
        link.drain_events();
        retries.arm(driver.take_armed());
        let due = retries.take_due(Instant::now());
        let watcher = Rc::clone(&watcher);
        let began = Instant::now();
        let nothing =
            driver.read(|catalog, view| watcher.borrow_mut().look(catalog, view)).is_empty() && due.is_empty();
        looked_for = began.elapsed();
        if !nothing {
            steps::passed(Step::EventSeen);
            let again: Vec<MirrorEvent> = due.iter().map(retry).collect();
            let looked = driver.change(move |catalog, view| {
                let mut events = watcher.borrow_mut().look(catalog, view);
                events.extend(again);
                (events, ())
            });
            if let Err(cause) = looked.await {
                debug!(%cause, "what the board shows is not recorded yet");
                retries.give_back(due, Instant::now());
                sleep(RESOLVE_RETRY).await;
            }
        }
        sender.again(&driver.catalog()).await;
    }
}

/// How long a silent board is left alone after a look that took `looked_for`.
fn idle(looked_for: Duration) -> Duration {
    (looked_for * BOARD_IDLE_FACTOR).clamp(BOARD_POLL, BOARD_POLL_MAX)
}

/// How long rings are collected after a look that took `looked_for`.
fn pause(looked_for: Duration) -> Duration {
    (looked_for * BOARD_RUNG_FACTOR).min(BOARD_POLL)
}

/// Takes in how partitions move: often while some do, seldom while all rest.
pub async fn paces(link: Rc<Link>) {
    loop {
        let moving = link.track(now_ms());
        sleep(if moving { PACE_POLL } else { PACE_POLL_IDLE }).await;
    }
}

/// When failed partitions are tried again.
struct Retries {
    rules: RetryRules,
    due: BTreeMap<PartitionKey, Instant>,
    random: RandomState,
    draws: u64,
}

impl Retries {
    /// Everything that had failed before a restart is on the list again.
    fn new(rules: RetryRules, catalog: &Catalog) -> Self {
        let mut retries = Self { rules, due: BTreeMap::new(), random: RandomState::new(), draws: 0 };
        let failed = catalog.partitions().filter(|(.., p)| p.standing.state == MirrorState::Failed);
        let keys = failed.map(|(mirror, topic, _, index, p)| {
            ((mirror.to_owned(), topic.to_owned(), index), p.standing.retry_attempt)
        });
        retries.arm(keys.collect());
        retries
    }

    fn arm(&mut self, failed: BTreeMap<PartitionKey, i16>) {
        for (key, failures) in failed {
            if failures < 1 || failures > self.rules.attempts_max {
                continue;
            }
            self.draws += 1;
            let random = self.random.hash_one(self.draws);
            let delay = Duration::from_millis(delay_ms(self.rules, failures, random));
            self.due.insert(key, Instant::now() + delay);
        }
    }

    fn take_due(&mut self, now: Instant) -> Vec<PartitionKey> {
        let due: Vec<PartitionKey> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in &due {
            self.due.remove(key);
        }
        due
    }

    /// Those that could not be recorded are due at once, for nobody else remembers them.
    fn give_back(&mut self, due: Vec<PartitionKey>, now: Instant) {
        self.due.extend(due.into_iter().map(|key| (key, now)));
    }
}

fn retry(key: &PartitionKey) -> MirrorEvent {
    MirrorEvent::partition(&key.0, &key.1, key.2, Event::RetryDue)
}

/// Exponential with full jitter: anything from 0 to the limit of this attempt.
fn delay_ms(rules: RetryRules, failures: i16, random: u64) -> u64 {
    let doublings = u32::from(failures.max(1).unsigned_abs()) - 1;
    let limit = rules.initial_ms.saturating_mul(1_u64.checked_shl(doublings.min(63)).unwrap_or(u64::MAX));
    random % (limit.min(rules.max_ms) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_that_takes_long_to_look_at_is_looked_at_less_often_and_never_forgotten() {
        assert_eq!((idle(Duration::ZERO), pause(Duration::ZERO)), (BOARD_POLL, Duration::ZERO));
        let long = Duration::from_millis(8);
        assert!(long.as_secs_f64() / idle(long).as_secs_f64() < 0.02, "{:?}", idle(long));
        assert!(pause(long) >= 2 * long);
        assert_eq!((idle(Duration::from_secs(9)), pause(Duration::from_secs(9))), (BOARD_POLL_MAX, BOARD_POLL));
    }

    #[test]
    fn a_retry_that_could_not_be_recorded_stays_due() {
        let rules = RetryRules { initial_ms: 0, max_ms: 0, attempts_max: 9 };
        let mut retries = Retries::new(rules, &Catalog::default());
        let key = ("m".to_owned(), "t".to_owned(), 0);
        retries.arm([(key.clone(), 1)].into());
        let now = Instant::now();
        let due = retries.take_due(now);
        assert_eq!((&due[..], retries.take_due(now).len()), (&[key.clone()][..], 0));
        retries.give_back(due, now);
        assert_eq!(retries.take_due(now), [key]);
    }

    #[test]
    fn delays_double_up_to_the_largest_and_are_drawn_from_all_of_it() {
        let rules = RetryRules { initial_ms: 100, max_ms: 1_000, attempts_max: 9 };
        for (failures, limit) in [(1, 100), (2, 200), (4, 800), (5, 1_000), (i16::MAX, 1_000)] {
            assert_eq!(delay_ms(rules, failures, limit), limit, "after {failures} failures");
            assert_eq!(delay_ms(rules, failures, limit + 1), 0);
        }
    }
}
