//! What clients do at the source before the hand-over, that must be there after it: groups of three kinds, access rules, quotas; and the
//! producers that live on.

use super::source::SHARED;
use serde_json::{Value, json};
use twinlog_tests::oracle::Oracle;

/// A group that has read a part of `grouped`.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Its id.
    pub(super) id: &'static str,
    /// Its protocol.
    pub(super) protocol: &'static str,
    /// Its offsets as an administrator is told: `{"grouped-0": [offset, epoch, note]}`.
    pub(super) offsets: Value,
}

/// A group of the classic protocol, one of the consumer protocol, and one that committed the highest epoch.
pub(super) const GROUPS: [(&str, &str); 3] =
    [("readers", "classic"), ("newer-readers", "consumer"), ("far-readers", "classic")];
/// A share group.
pub(super) const SHARERS: &str = "sharers";
/// How many records it accepts at the source.
const ACCEPTED: i64 = 25;

/// Access rules: resource type, name, pattern type, principal, operation, permission.
const RULES: [[&str; 6]; 3] = [
    ["TOPIC", "plain", "LITERAL", "User:alice", "READ", "ALLOW"],
    ["GROUP", "app-", "PREFIXED", "User:bob", "ALL", "DENY"],
    ["TRANSACTIONAL_ID", "three", "LITERAL", "User:alice", "WRITE", "ALLOW"],
];

/// Has groups read and commit; where they stand then.
pub(super) fn groups(oracle: &mut Oracle, boot: &str) -> Vec<Group> {
    // Records from offset 50 on have the second epoch.
    for ((id, protocol), count) in GROUPS.into_iter().zip([20, 30, 70]) {
        joins(oracle, boot, id, protocol, count).unwrap_or_else(|why| panic!("{why}"));
    }
    GROUPS.map(|(id, protocol)| Group { id, protocol, offsets: offsets(oracle, boot, id) }).into()
}

/// A member reads at least `count` records, commits and leaves; the first offset that it got.
pub(super) fn joins(oracle: &mut Oracle, boot: &str, id: &str, protocol: &str, count: i64) -> Result<i64, String> {
    let ask =
        json!({"do": "join", "boot": boot, "group": id, "protocol": protocol, "topic": "grouped", "count": count});
    let told = oracle.try_ask(&ask)?;
    oracle.try_ask(&json!({"do": "leave", "boot": boot, "group": id}))?;
    told["first"]["0"].as_i64().ok_or_else(|| format!("{id}: {told}"))
}

/// The committed offsets of a group.
pub(super) fn offsets(oracle: &mut Oracle, boot: &str, id: &str) -> Value {
    oracle.ask(&json!({"do": "offsets", "boot": boot, "group": id}))
}

/// A share group accepts some records of `shared`, where the release has such groups.
pub(super) fn accepted(oracle: &mut Oracle, boot: &str) -> Option<Vec<i64>> {
    let features = oracle.ask(&json!({"do": "features", "boot": boot}));
    if features["share.version"].as_i64().is_none_or(|level| level < 1) {
        return None;
    }
    Some(shares(oracle, boot, ACCEPTED, true).unwrap_or_else(|why| panic!("{why}")))
}

/// A member of the share group accepts `count` records; their offsets, rising.
pub(super) fn shares(oracle: &mut Oracle, boot: &str, count: i64, earliest: bool) -> Result<Vec<i64>, String> {
    let ask = json!({"do": "share-read", "boot": boot, "group": SHARERS, "topic": "shared", "count": count, "earliest": earliest});
    let told = oracle.try_ask(&ask)?;
    let mut offsets: Vec<i64> = told.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
    offsets.sort_unstable();
    Ok(offsets)
}

/// How many records of `shared` are left to accept.
pub(super) fn left_to_share(accepted: &[i64]) -> Vec<i64> {
    (0..SHARED).filter(|offset| !accepted.contains(offset)).collect()
}

/// Makes access rules and quotas.
pub(super) fn rules_and_quotas(oracle: &mut Oracle, boot: &str) {
    oracle.ask(&json!({"do": "acls", "boot": boot, "add": RULES}));
    let entities =
        [json!({"user": "alice"}), json!({"user": "alice", "client-id": "batch"}), json!({"client-id": "web"})];
    for (entity, key) in entities.into_iter().zip(["consumer_byte_rate", "producer_byte_rate", "request_percentage"]) {
        oracle.ask(&json!({"do": "set-quota", "boot": boot, "entity": entity, "key": key, "value": 12345.0}));
    }
}

/// A producer that lives on, idempotent or in transactions, writes a batch of ten to `steady`; their first offset. All it knows is
/// an address that moves. It gives up after `delivery_ms`.
pub(super) fn lives(oracle: &mut Oracle, name: &str, txn: Option<&str>, delivery_ms: u32) -> Result<i64, String> {
    let mut ask = json!({"do": "produce", "boot": name, "topic": "steady", "count": 10, "perBatch": 10, "deliveryMs": delivery_ms});
    ask["keep"] = txn.unwrap_or("idempotent").into();
    if let Some(txn) = txn {
        (ask["txn"], ask["end"]) = (txn.into(), "commit".into());
    }
    let told = oracle.try_ask(&ask)?;
    told[0]["first"].as_i64().ok_or_else(|| told.to_string())
}
