//! pure: the syncs as Prometheus reads them.

use crate::mirror::catalog::Catalog;
use crate::sync::report::Kind;
use crate::sync::status::{Status, Statuses};
use std::fmt::Write;

type Pick = fn(&Status) -> Option<f64>;

const SERIES: [(&str, &str, &str, Pick); 7] = [
    ("twinlog_sync_attempts_total", "counter", "Syncs that were tried", |s| Some(s.attempts as f64)),
    ("twinlog_sync_errors_total", "counter", "Syncs that failed as a whole", |s| Some(s.errors as f64)),
    ("twinlog_sync_changes_applied_total", "counter", "Changes that syncs made", |s| Some(s.applied as f64)),
    ("twinlog_sync_changes_failed_total", "counter", "Changes that syncs could not make", |s| Some(s.failed as f64)),
    ("twinlog_sync_differences_kept", "gauge", "Differences that the last sync kept on purpose", |s| {
        Some(s.skipped as f64)
    }),
    ("twinlog_sync_last_success_timestamp_seconds", "gauge", "When a sync last succeeded, since 1970", |s| {
        s.last_success_ms.map(|ms| ms as f64 / 1000.0)
    }),
    ("twinlog_sync_failing", "gauge", "Whether the last attempt failed", |s| {
        Some(f64::from(u8::from(s.last_error.is_some())))
    }),
];

/// Appends the series of all mirrors; kinds times mirrors bound their number.
pub fn prometheus(out: &mut String, catalog: &Catalog, statuses: &Statuses) {
    for (name, form, help, pick) in SERIES {
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {form}").expect("a string takes everything");
        for (mirror, _) in catalog.mirrors() {
            for kind in Kind::ALL {
                let Some(value) = pick(&statuses.get(mirror, kind)) else { continue };
                // A mirror's name is of [a-zA-Z0-9._-], so nothing needs to be escaped.
                writeln!(out, "{name}{{mirror=\"{mirror}\",kind=\"{kind}\"}} {value}")
                    .expect("a string takes everything");
            }
        }
    }
}
