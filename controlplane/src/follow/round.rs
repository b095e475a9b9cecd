//! One question to the source of a mirror, and what follows from its answer: at its time, when a person asks, or only shown.

use crate::clock::now_ms;
use crate::driver::Driver;
use crate::follow::changes::{changes, kept};
use crate::follow::news::{Learnt, News, news};
use crate::follow::question::{Question, question};
use crate::follow::rounds::Round;
use crate::mirror::catalog::Catalog;
use crate::plane::view::View;
use crate::source::report::Report;
use crate::source::{SourceError, topics, trail};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::time::Instant;
use tracing::{debug, info, warn};
use twinlog_proto::error_code::ErrorCode;

/// Asks, and takes in what is new unless it is a dry run. Whoever else asks this source waits.
pub async fn run(driver: &Driver, mirror: &str, dry_run: bool, report: &mut Report) {
    let rounds = driver.book();
    let asker = rounds.rounds().of(mirror);
    let _turn = asker.turn.lock().await;
    let asked = driver.read(|catalog, _| catalog.mirror(mirror).map(question));
    let Some(asked) = asked else { return report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone") };
    let Some(Question { servers, wanted, waiting }) = asked else {
        report.note = Some("no topic is mirrored and no pattern is set, so there is nothing to look for".to_owned());
        return;
    };
    let answer = topics::ask_thoroughly(&servers, &wanted).await;
    if !dry_run {
        heard(driver, mirror, &asker.round, answer.as_ref().err());
    }
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(cause) => return report.fail(cause.code(), cause.to_string()),
    };
    answer.trail = trail::follow(&servers, &answer, &rounds.rounds().own_cluster_id()).await;
    let gone = asker.round.borrow_mut().gone(&answer.absent, Instant::now(), dry_run);
    take(driver, mirror, Learnt { answer, gone, waiting }, (&asker.round, dry_run), report).await;
    if !dry_run {
        asker.round.borrow_mut().last = Instant::now();
    }
}

fn heard(driver: &Driver, mirror: &str, round: &RefCell<Round>, failure: Option<&SourceError>) {
    driver.tally().asked(mirror, failure.is_none(), now_ms());
    let before = std::mem::replace(&mut round.borrow_mut().answered, failure.is_none());
    match failure {
        Some(cause) if before => warn!(mirror, %cause, "the source was not asked for what is new; trying again"),
        Some(cause) => debug!(mirror, %cause, "the source was not asked for what is new"),
        None if !before => info!(mirror, "the source answers again"),
        None => {}
    }
}

async fn take(
    driver: &Driver,
    mirror: &str,
    learnt: Learnt,
    (round, dry_run): (&RefCell<Round>, bool),
    report: &mut Report,
) {
    let (name, learnt) = (mirror.to_owned(), Rc::new(learnt));
    let heard = Rc::clone(&learnt);
    let news = move |catalog: &Catalog, view: &View<'_>| {
        let slots_free = (view.slots_max as usize).saturating_sub(catalog.slots().len());
        let news = news(catalog, &name, &heard, slots_free);
        let changes = changes(catalog, &news.events);
        (news, changes)
    };
    let ((News { events, notes }, planned), kept) = driver.read(|catalog, view| {
        let (news, planned) = news(catalog, view);
        let kept = kept(catalog, mirror, &learnt, &news.notes);
        ((news, planned), kept)
    });
    kept.into_iter().for_each(|change| report.add(change));
    if dry_run {
        planned.into_iter().for_each(|change| report.add(change));
        return;
    }
    if round.borrow().said != notes {
        notes.iter().for_each(|note| warn!(mirror, "{note}"));
        round.borrow_mut().said = notes;
    }
    // Nearly always there is nothing, and then nobody's change is held up.
    if events.is_empty() {
        return;
    }
    let changed = driver.change(move |catalog, view| {
        let (News { events, .. }, changes) = news(catalog, view);
        (events, changes)
    });
    match changed.await {
        Ok(changes) => changes.into_iter().for_each(|change| report.add(change)),
        Err(cause) => {
            warn!(mirror, %cause, "what is new at the source is not recorded yet");
            report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string());
        }
    }
}
