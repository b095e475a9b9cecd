//! The task that asks the sources, one question for a mirror at a time and all mirrors side by side.
//!
//! Sources that did not answer the last time have fewer places than the others, so that however many of them are silent, those
//! that answer are asked when it is their time.

use crate::clock::now_ms;
use crate::driver::Driver;
use crate::follow::question::{due_after, interval};
use crate::follow::round;
use crate::limits::{DOUBTFUL_ASKS_MAX, FOLLOW_LOOK, FOLLOW_TICK, SOURCE_ASKS_MAX};
use crate::source::report::{Kind, Report};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// Asks for ever; mirrors without an interval of their own every `default`.
pub async fn run(driver: Driver, own_cluster_id: Rc<str>, default: Duration) {
    let places = Places { sound: Semaphore::new(SOURCE_ASKS_MAX), doubtful: Semaphore::new(DOUBTFUL_ASKS_MAX) };
    let places = Rc::new(places);
    let book = driver.book();
    let interval_ms = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
    book.write(|statuses| statuses.topics_interval_ms = interval_ms);
    book.rounds().set_own_cluster_id(own_cluster_id);
    loop {
        sleep(FOLLOW_TICK).await;
        let catalog = driver.catalog();
        book.rounds().retain(|name| catalog.mirror(name).is_some());
        driver.tally().retain(|name| catalog.mirror(name).is_some());
        for (name, mirror) in catalog.mirrors() {
            let asker = book.rounds().of(name);
            let mut round = asker.round.borrow_mut();
            // A look goes through every partition, so there are not many of them.
            let rest = FOLLOW_LOOK.min(interval(mirror, default));
            if round.looked.is_some_and(|last| last.elapsed() < rest) {
                continue;
            }
            round.looked = Some(Instant::now());
            let Some(after) = due_after(mirror, default) else { continue };
            if round.asking || round.last.elapsed() < after {
                continue;
            }
            round.asking = true;
            spawn_local(one(driver.clone(), name.to_owned(), Rc::clone(&places)));
        }
    }
}

/// How many may ask at the same time.
struct Places {
    sound: Semaphore,
    doubtful: Semaphore,
}

async fn one(driver: Driver, mirror: String, places: Rc<Places>) {
    let asker = driver.book().rounds().of(&mirror);
    let places = if asker.round.borrow().answered { &places.sound } else { &places.doubtful };
    let place = places.acquire().await;
    let mut report = Report::new(Kind::Topics);
    round::run(&driver, &mirror, false, &mut report).await;
    driver.book().write(|statuses| statuses.note(&mirror, &report, now_ms()));
    drop(place);
    let mut round = asker.round.borrow_mut();
    (round.asking, round.last) = (false, Instant::now());
}
