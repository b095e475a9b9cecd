//! pure: the syncs of a mirror in the answer to DescribeMirrors.

use crate::mirror::catalog::Catalog;
use crate::source::report::Kind;
use crate::sync::status::Statuses;
use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsResponse, DescribedSync};

/// Adds to each described mirror what its syncs did.
pub fn add(response: &mut DescribeMirrorsResponse, catalog: &Catalog, statuses: &Statuses) {
    for described in &mut response.mirrors {
        let Some(mirror) = catalog.mirror(&described.mirror_name).filter(|_| described.error_code == 0) else {
            continue;
        };
        described.syncs = Kind::ALL
            .into_iter()
            .map(|kind| {
                let status = statuses.get(&described.mirror_name, kind);
                DescribedSync {
                    kind: kind.name().to_owned(),
                    interval_ms: i64::try_from(statuses.interval_ms(&mirror.facts.settings, kind)).unwrap_or(i64::MAX),
                    last_success_ms: status.last_success_ms.unwrap_or(-1),
                    last_attempt_ms: status.last_attempt_ms.unwrap_or(-1),
                    last_error: status.last_error,
                    note: status.note,
                    applied: status.applied.cast_signed(),
                    failed: status.failed.cast_signed(),
                    skipped: status.skipped.cast_signed(),
                }
            })
            .collect();
    }
}
