//! When syncs run: each at its interval, at once when a topic has no recorded settings yet, and when a person asks.

use crate::clock::now_ms;
use crate::driver::Driver;
use crate::follow;
use crate::limits::{SYNC_FRESH_RETRY_MS, SYNC_LIMIT, SYNC_POLL, SYNC_RUNS_MAX};
use crate::mirror::catalog::{Catalog, Desired, Mirror};
use crate::mirror::settings::bootstrap_servers;
use crate::source::report::{Action, Kind, Report};
use crate::sync::book::Memory;
use crate::sync::cluster::Cluster;
use crate::sync::status::{Status, Statuses, is_due};
use crate::sync::{acls, configs, filters, groups, quotas};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use twinlog_proto::error_code::ErrorCode;

/// Runs what is due, for ever.
pub async fn keep(driver: Driver) {
    let places = Arc::new(Semaphore::new(SYNC_RUNS_MAX));
    loop {
        sleep(SYNC_POLL).await;
        let book = driver.book();
        let due = driver.read(|catalog, view| book.read(|statuses| due(catalog, statuses, view.now_ms)));
        for (mirror, kinds) in due {
            // Whoever holds the lock is at it already.
            let Ok(mut memory) = book.memory(&mirror).try_lock_owned() else { continue };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { break };
            let driver = driver.clone();
            spawn_local(async move {
                let _place = place;
                for kind in kinds {
                    let report = bounded(&driver, &mirror, kind, &mut memory, false).await;
                    say(&mirror, &report);
                }
            });
        }
        book.retain(|mirror| driver.catalog().mirror(mirror).is_some());
    }
}

/// Syncs some kinds of a mirror now; the caller has seen that it exists.
pub async fn now(driver: &Driver, mirror: &str, kinds: &[Kind], dry_run: bool) -> Vec<Report> {
    let memory = driver.book().memory(mirror);
    let mut memory = memory.lock().await;
    let mut reports = Vec::new();
    for kind in kinds {
        let report = bounded(driver, mirror, *kind, &mut memory, dry_run).await;
        if !dry_run {
            say(mirror, &report);
        }
        reports.push(report);
    }
    reports
}

fn due(catalog: &Catalog, statuses: &Statuses, now_ms: i64) -> Vec<(String, Vec<Kind>)> {
    let of = |(name, mirror): (&str, &Mirror)| {
        let is_due = |kind: &Kind| {
            let status = statuses.get(name, *kind);
            let interval_ms = filters::interval_ms(&mirror.facts.settings, *kind);
            is_due(&status, interval_ms, now_ms) || (interval_ms > 0 && is_fresh(mirror, *kind, &status, now_ms))
        };
        // Topics are looked for in `follow/task.rs`, which knows what waits.
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Topics && is_due(kind)).collect();
        (!kinds.is_empty()).then(|| (name.to_owned(), kinds))
    };
    catalog.mirrors().filter_map(of).collect()
}

/// A topic that was just started waits for no interval.
fn is_fresh(mirror: &Mirror, kind: Kind, status: &Status, now_ms: i64) -> bool {
    let rested = status.last_attempt_ms.is_none_or(|last| now_ms.abs_diff(last) >= SYNC_FRESH_RETRY_MS);
    let fresh = || mirror.topics.values().any(|t| t.facts.desired != Desired::Stop && t.configs.is_none());
    kind == Kind::Configs && rested && fresh()
}

async fn bounded(driver: &Driver, mirror: &str, kind: Kind, memory: &mut Memory, dry_run: bool) -> Report {
    let mut report = Report::new(kind);
    if timeout(SYNC_LIMIT, one(driver, mirror, memory, dry_run, &mut report)).await.is_err() {
        report
            .fail(ErrorCode::REQUEST_TIMED_OUT, format!("it did not end within {SYNC_LIMIT:?}; the next one goes on"));
    }
    if !dry_run {
        driver.book().write(|statuses| statuses.note(mirror, &report, now_ms()));
    }
    report
}

async fn one(driver: &Driver, mirror: &str, memory: &mut Memory, dry_run: bool, report: &mut Report) {
    let servers = driver.read(|catalog, _| catalog.mirror(mirror).map(|m| bootstrap_servers(&m.facts.settings)));
    let Some(servers) = servers else {
        return report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone");
    };
    let mut source = Cluster::at(servers);
    match report.kind {
        Kind::Topics => follow::round::run(driver, mirror, dry_run, report).await,
        Kind::Configs => configs::apply::run(driver, mirror, &mut source, memory, dry_run, report).await,
        Kind::Groups => groups::apply::run(driver, mirror, &mut source, memory, dry_run, report).await,
        Kind::Acls => acls::apply::run(driver, mirror, &mut source, dry_run, report).await,
        Kind::Quotas => quotas::apply::run(driver, mirror, &mut source, dry_run, report).await,
    }
}

fn say(mirror: &str, report: &Report) {
    let Report { kind, applied, failed, skipped, .. } = report;
    if let Some((_, why)) = &report.error {
        warn!(mirror, %kind, why, "a sync failed");
    } else if *applied > 0 {
        info!(mirror, %kind, applied, failed, skipped, "synced with the source");
    }
    for change in report.changes.iter().filter(|change| change.action == Action::Fail) {
        debug!(mirror, %kind, resource = change.resource, key = change.key, why = change.reason, "not synced");
    }
}
