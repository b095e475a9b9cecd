//! pure: the quotas of the source against those that are kept: what is different.

use crate::mirror::quotas::{Quota, Quotas};
use crate::source::report::{Action, Change};
use std::collections::BTreeSet;
use twinlog_proto::messages::describe_client_quotas::EntryData;

/// What a cluster told.
#[must_use]
pub fn quotas(entries: Vec<EntryData>, scram_users: BTreeSet<String>) -> Quotas {
    let mut quotas = Quotas { scram_users, ..Quotas::default() };
    for entry in entries {
        let mut entity: Vec<_> = entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect();
        entity.sort();
        for value in entry.values {
            quotas.amounts.insert(Quota { entity: entity.clone(), key: value.key }, value.value);
        }
    }
    quotas
}

/// What is different at the source.
#[must_use]
pub fn changes(source: &Quotas, known: &Quotas) -> Vec<Change> {
    let all: BTreeSet<&Quota> = source.amounts.keys().chain(known.amounts.keys()).collect();
    let different = all.into_iter().filter(|quota| source.amounts.get(quota) != known.amounts.get(quota));
    let change = |quota: &Quota| {
        let of = |quotas: &Quotas| quotas.amounts.get(quota).map(ToString::to_string);
        let to = of(source);
        let action = if to.is_some() { Action::Set } else { Action::Remove };
        Change { resource: quota.whom(), key: quota.key.clone(), from: of(known), to, action, reason: None }
    };
    different.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::describe_client_quotas::{EntityData, ValueData};

    #[test]
    fn what_the_source_adds_changes_and_removes_is_told() {
        let entry = |user: Option<&str>, values: &[(&str, f64)]| EntryData {
            entity: vec![EntityData { entity_type: "user".into(), entity_name: user.map(Into::into) }],
            values: values.iter().map(|(key, value)| ValueData { key: (*key).into(), value: *value }).collect(),
        };
        let of = |entries| quotas(entries, BTreeSet::new());
        let known = of(vec![entry(Some("a"), &[("x", 1.0), ("y", 2.0)])]);
        let source = of(vec![entry(Some("a"), &[("x", 1.5)]), entry(None, &[("x", 9.0)])]);
        let told = changes(&source, &known);
        let told: Vec<_> = told.iter().map(|c| (c.resource.as_str(), c.key.as_str(), c.to.as_deref())).collect();
        let expected = [("user=<default>", "x", Some("9")), ("user=a", "x", Some("1.5")), ("user=a", "y", None)];
        assert_eq!(told, expected);
        assert!(changes(&source, &source).is_empty());
    }
}
