//! The task that asks the sources, one question for a mirror at a time and all mirrors side by side.
//!
//! Sources that did not answer the last time have fewer places than the others, so that however many of them are silent, those
//! that answer are asked when it is their time.

use crate::driver::{Driver, now_ms};
use crate::follow::news::{Learnt, News, news};
use crate::follow::question::{Question, due_after, question};
use crate::limits::{DOUBTFUL_ASKS_MAX, FOLLOW_TICK, GONE_AFTER, SOURCE_ASKS_MAX};
use crate::mirror::catalog::Catalog;
use crate::plane::view::View;
use crate::source::{topics, trail};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

/// Asks for ever; mirrors without an interval of their own every `interval`.
pub async fn run(driver: Driver, own_cluster_id: Rc<str>, interval: Duration) {
    let places = Places { sound: Semaphore::new(SOURCE_ASKS_MAX), doubtful: Semaphore::new(DOUBTFUL_ASKS_MAX) };
    let places = Rc::new(places);
    let mut rounds: BTreeMap<String, Rc<RefCell<Round>>> = BTreeMap::new();
    loop {
        sleep(FOLLOW_TICK).await;
        let catalog = driver.catalog();
        rounds.retain(|name, _| catalog.mirror(name).is_some());
        driver.tally().retain(|name| catalog.mirror(name).is_some());
        for (name, mirror) in catalog.mirrors() {
            let round = rounds.entry(name.to_owned()).or_insert_with(|| Rc::new(RefCell::new(Round::new())));
            let Some(after) = due_after(mirror, interval) else { continue };
            if round.borrow().asking || round.borrow().last.elapsed() < after {
                continue;
            }
            round.borrow_mut().asking = true;
            let own = Rc::clone(&own_cluster_id);
            spawn_local(one(driver.clone(), name.to_owned(), Rc::clone(round), Rc::clone(&places), own));
        }
    }
}

/// How many may ask at the same time.
struct Places {
    sound: Semaphore,
    doubtful: Semaphore,
}

/// What is remembered of a mirror between two questions.
struct Round {
    last: Instant,
    asking: bool,
    answered: bool,
    /// Topics that the source lacked the last time, and since when.
    lacking: BTreeMap<String, Instant>,
    /// What was said after the last answer.
    said: Vec<String>,
}

impl Round {
    fn new() -> Self {
        Self { last: Instant::now(), asking: false, answered: true, lacking: BTreeMap::new(), said: Vec::new() }
    }
}

async fn one(driver: Driver, mirror: String, round: Rc<RefCell<Round>>, places: Rc<Places>, own: Rc<str>) {
    let places = if round.borrow().answered { &places.sound } else { &places.doubtful };
    let place = places.acquire().await;
    // As it is now, not as it was when the round was due.
    let asked = driver.read(|catalog, _| catalog.mirror(&mirror).and_then(question));
    if let Some(Question { servers, wanted, waiting }) = asked {
        let answer = topics::ask_thoroughly(&servers, &wanted).await;
        let answered = answer.is_ok();
        driver.tally().asked(&mirror, answered, now_ms());
        let before = std::mem::replace(&mut round.borrow_mut().answered, answered);
        match answer {
            Err(cause) if before => warn!(mirror, %cause, "the source was not asked for what is new; trying again"),
            Err(cause) => debug!(mirror, %cause, "the source was not asked for what is new"),
            Ok(mut answer) => {
                answer.trail = trail::follow(&servers, &answer, &own).await;
                if !before {
                    info!(mirror, "the source answers again");
                }
                let gone = gone(&mut round.borrow_mut().lacking, &answer.absent, Instant::now());
                take(&driver, &mirror, Learnt { answer, gone, waiting }, &round).await;
            }
        }
    }
    drop(place);
    let mut round = round.borrow_mut();
    (round.asking, round.last) = (false, Instant::now());
}

/// The topics that were lacking in the last answer too, and for long enough that no broker can be that late.
fn gone(lacking: &mut BTreeMap<String, Instant>, absent: &BTreeSet<String>, now: Instant) -> BTreeSet<String> {
    let since = |name: &String| lacking.get(name).copied().unwrap_or(now);
    let found: BTreeMap<String, Instant> = absent.iter().map(|name| (name.clone(), since(name))).collect();
    let lasts = |(name, since): (&String, &Instant)| (now.duration_since(*since) >= GONE_AFTER).then(|| name.clone());
    let gone = found.iter().filter_map(lasts).collect();
    *lacking = found;
    gone
}

async fn take(driver: &Driver, mirror: &str, learnt: Learnt, round: &RefCell<Round>) {
    let name = mirror.to_owned();
    let news = move |catalog: &Catalog, view: &View<'_>| {
        let slots_free = (view.slots_max as usize).saturating_sub(catalog.slots().len());
        news(catalog, &name, &learnt, slots_free)
    };
    let News { events, notes } = driver.read(&news);
    if round.borrow().said != notes {
        notes.iter().for_each(|note| warn!(mirror, "{note}"));
        round.borrow_mut().said = notes;
    }
    // Nearly always there is nothing, and then nobody's change is held up.
    if events.is_empty() {
        return;
    }
    if let Err(cause) = driver.change(move |catalog, view| (news(catalog, view).events, ())).await {
        warn!(mirror, %cause, "what is new at the source is not recorded yet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_gone_when_it_lacks_twice_and_long_enough_and_not_when_it_was_there_between() {
        let (mut lacking, start) = (BTreeMap::new(), Instant::now());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        assert!(gone(&mut lacking, &names(&["a", "b"]), start).is_empty(), "once");
        assert!(gone(&mut lacking, &names(&["a"]), start + GONE_AFTER / 2).is_empty(), "twice and too soon");
        assert_eq!(gone(&mut lacking, &names(&["a", "b"]), start + GONE_AFTER), names(&["a"]), "b was there between");
        assert!(gone(&mut lacking, &names(&[]), start + GONE_AFTER).is_empty() && lacking.is_empty());
    }
}
