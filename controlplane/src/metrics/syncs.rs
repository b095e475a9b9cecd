//! pure: the metrics of what is mirrored besides records.

use super::text::{Kind as Form, Page};
use crate::mirror::catalog::Catalog;
use crate::source::report::Kind;
use crate::sync::status::{Status, Statuses};

type Pick = fn(&Status) -> Option<f64>;

const SERIES: [(&str, Form, &str, Pick); 7] = [
    ("twinlog_sync_attempts_total", Form::Counter, "Syncs that were tried", |s| Some(s.attempts as f64)),
    ("twinlog_sync_errors_total", Form::Counter, "Syncs that failed as a whole", |s| Some(s.errors as f64)),
    ("twinlog_sync_changes_applied_total", Form::Counter, "Changes that syncs made", |s| Some(s.applied as f64)),
    ("twinlog_sync_changes_failed_total", Form::Counter, "Changes that syncs could not make", |s| {
        Some(s.failed as f64)
    }),
    ("twinlog_sync_differences_kept", Form::Gauge, "Differences that the last sync kept on purpose", |s| {
        Some(s.skipped as f64)
    }),
    ("twinlog_sync_last_success_timestamp_seconds", Form::Gauge, "When a sync last succeeded, since 1970", |s| {
        s.last_success_ms.map(|ms| ms as f64 / 1000.0)
    }),
    ("twinlog_sync_failing", Form::Gauge, "Whether the last attempt failed", |s| {
        Some(f64::from(u8::from(s.last_error.is_some())))
    }),
];

/// Kinds times mirrors bound the number of series.
pub(super) fn write(page: &mut Page, catalog: &Catalog, statuses: &Statuses) {
    for (name, form, help, pick) in SERIES {
        let mut family = page.family(name, form, help);
        for (mirror, _) in catalog.mirrors() {
            for kind in Kind::ALL {
                if let Some(value) = pick(&statuses.get(mirror, kind)) {
                    family.sample(&[("mirror", &mirror), ("kind", &kind)], value);
                }
            }
        }
    }
}
