//! pure: the syncs of a mirror in the answer to DescribeMirrors.

use crate::mirror::catalog::Catalog;
use crate::source::report::Kind;
use crate::sync::status::Statuses;
use twinlog_proto::messages::describe_mirrors::{
    DescribeMirrorsResponse, DescribedQuota, DescribedQuotaEntity, DescribedSync,
};
use twinlog_proto::messages::state_log::QuotaEntry;

/// Adds to each described mirror what its syncs did.
pub fn add(response: &mut DescribeMirrorsResponse, catalog: &Catalog, statuses: &Statuses) {
    for described in &mut response.mirrors {
        let Some(mirror) = catalog.mirror(&described.mirror_name).filter(|_| described.error_code == 0) else {
            continue;
        };
        described.quotas = mirror.quotas.to_value().quotas.into_iter().map(quota).collect();
        described.scram_users = mirror.quotas.scram_users.iter().cloned().collect();
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

fn quota(entry: QuotaEntry) -> DescribedQuota {
    let parts = entry.entity.into_iter();
    let entity = parts.map(|p| DescribedQuotaEntity { entity_type: p.entity_type, entity_name: p.entity_name });
    DescribedQuota { entity: entity.collect(), key: entry.key, value: entry.value }
}
