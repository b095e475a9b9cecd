//! pure: quotas of clients that a broker is given: from the description of a mirror, in the journal, and as records of its metadata.

use crate::source::report::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use twinlog_proto::messages::describe_mirrors::{DescribedMirror, DescribedQuota};
use twinlog_proto::messages::kraft_records::{ClientQuotaEntity, ClientQuotaRecord};

/// A quota.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Whom it holds for: kinds (`user`, `client-id`, `ip`) with their names, null for the default.
    pub entity: BTreeMap<String, Option<String>>,
    /// Which it is.
    pub key: String,
    /// How much, in its unit.
    pub value: f64,
}

impl Quota {
    /// Whether the source of a mirror ever told its quotas: there are some, or it said since the start that there are none.
    #[must_use]
    pub fn known(described: &DescribedMirror) -> bool {
        let said = described.syncs.iter().any(|sync| sync.kind == Kind::Quotas.name() && sync.last_success_ms >= 0);
        said || !described.quotas.is_empty() || !described.scram_users.is_empty()
    }
}

impl From<DescribedQuota> for Quota {
    fn from(described: DescribedQuota) -> Self {
        let entity = described.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
        Self { entity, key: described.key, value: described.value }
    }
}

impl From<&Quota> for ClientQuotaRecord {
    fn from(quota: &Quota) -> Self {
        let part = |(kind, name): (&String, &Option<String>)| ClientQuotaEntity {
            entity_type: kind.clone(),
            entity_name: name.clone(),
        };
        Self {
            entity: quota.entity.iter().map(part).collect(),
            key: quota.key.clone(),
            value: quota.value,
            remove: false,
        }
    }
}
