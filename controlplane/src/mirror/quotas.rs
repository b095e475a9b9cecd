//! pure: the quotas of clients at a mirror's source, and who has a password there: kept for a broker that the mirror is handed over to.

use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::messages::state_log::{QuotaEntity, QuotaEntry, QuotasValue};

/// A quota: whom it holds for, as kinds with their names (none: the default), and which it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quota {
    /// Whom it holds for, sorted by kind.
    pub entity: Vec<(String, Option<String>)>,
    /// Which it is, such as `producer_byte_rate`.
    pub key: String,
}

/// What a source has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quotas {
    /// How much each is, in its unit.
    pub amounts: BTreeMap<Quota, f64>,
    /// Users with a SCRAM password, which nobody tells.
    pub scram_users: BTreeSet<String>,
}

impl Quota {
    /// Whom it holds for, in words: `user=alice,client-id=<default>`.
    #[must_use]
    pub fn whom(&self) -> String {
        let part =
            |(kind, name): &(String, Option<String>)| format!("{kind}={}", name.as_deref().unwrap_or("<default>"));
        self.entity.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

impl Quotas {
    /// As the value of a record.
    #[must_use]
    pub fn to_value(&self) -> QuotasValue {
        let entity = |(entity_type, entity_name): &(String, Option<String>)| QuotaEntity {
            entity_type: entity_type.clone(),
            entity_name: entity_name.clone(),
        };
        let entry = |(quota, value): (&Quota, &f64)| QuotaEntry {
            entity: quota.entity.iter().map(entity).collect(),
            key: quota.key.clone(),
            value: *value,
        };
        QuotasValue {
            quotas: self.amounts.iter().map(entry).collect(),
            scram_users: self.scram_users.iter().cloned().collect(),
        }
    }

    /// From the value of a record.
    #[must_use]
    pub fn from_value(value: QuotasValue) -> Self {
        let quota = |entry: QuotaEntry| {
            let entity = entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
            (Quota { entity, key: entry.key }, entry.value)
        };
        Self {
            amounts: value.quotas.into_iter().map(quota).collect(),
            scram_users: value.scram_users.into_iter().collect(),
        }
    }
}
