//! The tasks that make state follow the world: the board, retries that are due, and topics that wait for their source.

use crate::config::RetryRules;
use crate::driver::Driver;
use crate::limits::{BOARD_POLL, RESOLVE_RETRY};
use crate::mirror::catalog::Catalog;
use crate::mirror::decide::PartitionKey;
use crate::mirror::event::{Detail, MirrorEvent};
use crate::mirror::machine::Event;
use crate::mirror::settings;
use crate::plane::attachment::Link;
use crate::plane::events::Watcher;
use crate::plane::sender::Sender;
use crate::source::topics::{self, Answer, Wanted};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::mirror_state::MirrorState;

/// Looks at the board whenever it rings, and every 100 ms; tries failed partitions again when their time has come.
pub async fn board(driver: Driver, link: Rc<Link>, sender: Rc<Sender>, rules: RetryRules) {
    let watcher = Rc::new(RefCell::new(Watcher::default()));
    let mut retries = Retries::new(rules, &driver.catalog());
    loop {
        // Ringing or not, the board is looked at: a ring only makes it sooner.
        timeout(BOARD_POLL, link.rung()).await.ok();
        link.drain_events();
        retries.arm(driver.take_armed());
        let due = retries.take_due(Instant::now());
        let watcher = Rc::clone(&watcher);
        let nothing =
            due.is_empty() && driver.read(|catalog, view| watcher.borrow_mut().look(catalog, view)).is_empty();
        if !nothing {
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

/// Asks the sources of topics that were started while their source could not be asked.
pub async fn resolve(driver: Driver) {
    loop {
        sleep(RESOLVE_RETRY).await;
        let waiting = driver.read(|catalog, _| waiting(catalog));
        for (mirror, (servers, names)) in waiting {
            match topics::ask(&servers, &Wanted::Named(names.clone())).await {
                Err(cause) => debug!(mirror, %cause, "topics still wait for their source"),
                Ok(answer) => {
                    let decided = driver.change(move |catalog, _| (resolved(catalog, &mirror, &names, &answer), ()));
                    if let Err(cause) = decided.await {
                        warn!(%cause, "what the source said is not recorded yet");
                    }
                }
            }
        }
    }
}

type Waiting = BTreeMap<String, (Vec<String>, Vec<String>)>;

fn waiting(catalog: &Catalog) -> Waiting {
    let mut waiting = Waiting::new();
    for (name, mirror) in catalog.mirrors() {
        let topics: Vec<String> = mirror
            .topics
            .iter()
            .filter(|(_, topic)| topic.partitions.values().any(|p| p.standing.state == MirrorState::Initializing))
            .map(|(topic, _)| topic.clone())
            .collect();
        if !topics.is_empty() {
            waiting.insert(name.to_owned(), (settings::bootstrap_servers(&mirror.facts.settings), topics));
        }
    }
    waiting
}

fn resolved(catalog: &Catalog, mirror: &str, names: &[String], answer: &Answer) -> Vec<MirrorEvent> {
    let Some(known) = catalog.mirror(mirror) else { return Vec::new() };
    let failure = |topic: &str, message: String| {
        let detail = Detail::Failure { message, retryable: false };
        MirrorEvent::detailed(mirror, topic, 0, Event::Failed, detail)
    };
    let still_waits = |topic: &String| {
        let partition = catalog.partition(mirror, topic, 0);
        partition.is_some_and(|partition| partition.standing.state == MirrorState::Initializing)
    };
    let mut events = Vec::new();
    for name in names.iter().filter(|name| still_waits(name)) {
        if answer.cluster_id != known.facts.source_cluster_id {
            let message = format!("the source answers as cluster {}, which is not this mirror's", answer.cluster_id);
            events.push(failure(name, message));
            continue;
        }
        match answer.topics.get(name) {
            Some(Ok(topic)) => {
                info!(mirror, topic = name, id = %topic.id, partitions = topic.partition_count, "the source told of");
                events.push(MirrorEvent::Started { mirror: mirror.to_owned(), topic: topic.clone() });
            }
            None | Some(Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)) => {
                let message = "the source does not have this topic; stop it, or create it there and start it again";
                events.push(failure(name, message.to_owned()));
            }
            Some(Err(code)) if code.is_retriable() => {}
            Some(Err(code)) => events.push(failure(name, format!("the source says {code}"))),
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

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
