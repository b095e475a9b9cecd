//! pure: records of a cluster's metadata and the control records between them, with Kafka's names.

use super::records::text;
use crate::mirror::settings::MASKED;
use serde_json::{Map, Value, json};
use twinlog_proto::error::DecodeError;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::kraft_records::{
    AccessControlEntryRecord, ClientQuotaRecord, ConfigRecord, LeaderChangeMessage, LeaderChangeVoter,
    PartitionChangeRecord, PartitionRecord, VotersRecord,
};
use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};
use twinlog_proto::storage::kraft::control::ControlRecord;
use twinlog_proto::storage::kraft::records::{
    DELEGATION_TOKEN, MetadataRecord, REMOVE_DELEGATION_TOKEN, type_and_version, type_name,
};

/// What the names of settings have in them whose values no broker shows.
const SECRETS: [&str; 3] = ["password", "jaas.config", "keystore.key"];

type Field = (&'static str, Value);

/// Type, version and content of a record; the bare bytes and why when they cannot be read.
pub(super) fn fields(key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<Field> {
    let decoded = match key {
        Some(key) => control(key, value.unwrap_or_default()),
        None => data(value.unwrap_or_default()),
    };
    // A damaged record may hold secrets anywhere; its bytes are in the file.
    decoded.unwrap_or_else(|why| vec![("error", json!(why.to_string())), ("key", text(key)), ("value", json!(MASKED))])
}

fn data(value: &[u8]) -> Result<Vec<Field>, DecodeError> {
    let (kind, version) = type_and_version(value)?;
    let name = type_name(kind).map_or_else(|| json!(kind), |name| json!(name));
    let data = match MetadataRecord::decode(value)? {
        MetadataRecord::Topic(topic) => json!({ "name": topic.name, "topicId": id(topic.topic_id) }),
        MetadataRecord::RemoveTopic(topic) => json!({ "topicId": id(topic.topic_id) }),
        MetadataRecord::Partition(partition) => partition_data(partition),
        MetadataRecord::PartitionChange(change) => change_data(change),
        MetadataRecord::Config(config) => config_data(config),
        MetadataRecord::FeatureLevel(level) => json!({ "name": level.name, "featureLevel": level.feature_level }),
        MetadataRecord::ProducerIds(ids) => json!({
            "brokerId": ids.broker_id,
            "brokerEpoch": ids.broker_epoch,
            "nextProducerId": ids.next_producer_id,
        }),
        MetadataRecord::ClientQuota(quota) => quota_data(quota),
        MetadataRecord::AccessControlEntry(acl) => acl_data(&acl),
        MetadataRecord::UserScramCredential(scram) => json!({
            "name": scram.name,
            "mechanism": scram.mechanism,
            "iterations": scram.iterations,
            "salt": MASKED,
            "storedKey": MASKED,
            "serverKey": MASKED,
        }),
        MetadataRecord::Other { kind: DELEGATION_TOKEN | REMOVE_DELEGATION_TOKEN, .. } => json!(MASKED),
        MetadataRecord::Other { body, .. } => text(Some(&body)),
    };
    Ok(vec![("type", name), ("version", json!(version)), ("data", data)])
}

fn id(id: Uuid) -> String {
    id.to_string()
}

fn ids(all: &[Uuid]) -> Vec<String> {
    all.iter().map(Uuid::to_string).collect()
}

fn partition_data(partition: PartitionRecord) -> Value {
    let mut out = json!({
        "partitionId": partition.partition_id,
        "topicId": id(partition.topic_id),
        "replicas": partition.replicas,
        "isr": partition.isr,
        "removingReplicas": partition.removing_replicas,
        "addingReplicas": partition.adding_replicas,
        "leader": partition.leader,
        "leaderRecoveryState": partition.leader_recovery_state,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
        "directories": ids(&partition.directories),
    });
    let elr = partition.eligible_leader_replicas;
    add_replicas(&mut out, [("eligibleLeaderReplicas", elr), ("lastKnownElr", partition.last_known_elr)]);
    out
}

/// Adds what is there.
fn add_replicas<const N: usize>(out: &mut Value, more: [(&str, Option<Vec<i32>>); N]) {
    for (name, replicas) in more {
        if let Some(replicas) = replicas {
            out[name] = json!(replicas);
        }
    }
}

/// What changes, and nothing of the rest.
fn change_data(change: PartitionChangeRecord) -> Value {
    let mut out = json!({ "partitionId": change.partition_id, "topicId": id(change.topic_id) });
    let unchanged = PartitionChangeRecord::default();
    if change.leader != unchanged.leader {
        out["leader"] = json!(change.leader);
    }
    if change.leader_recovery_state != unchanged.leader_recovery_state {
        out["leaderRecoveryState"] = json!(change.leader_recovery_state);
    }
    let more = [
        ("isr", change.isr),
        ("replicas", change.replicas),
        ("removingReplicas", change.removing_replicas),
        ("addingReplicas", change.adding_replicas),
        ("eligibleLeaderReplicas", change.eligible_leader_replicas),
        ("lastKnownElr", change.last_known_elr),
    ];
    add_replicas(&mut out, more);
    if let Some(directories) = change.directories {
        out["directories"] = json!(ids(&directories));
    }
    out
}

fn config_data(config: ConfigRecord) -> Value {
    // Brokers' names may have a listener's in front.
    let secret = config.value.is_some() && SECRETS.iter().any(|word| config.name.contains(word));
    json!({
        "resourceType": config.resource_type,
        "resourceName": config.resource_name,
        "name": config.name,
        "value": if secret { json!(MASKED) } else { json!(config.value) },
    })
}

fn quota_data(quota: ClientQuotaRecord) -> Value {
    let entity: Map<_, _> =
        quota.entity.into_iter().map(|entity| (entity.entity_type, json!(entity.entity_name))).collect();
    json!({ "entity": entity, "key": quota.key, "value": quota.value, "remove": quota.remove })
}

/// The names of the numbers; a number that is not known stands as it is.
fn acl_data(acl: &AccessControlEntryRecord) -> Value {
    let named = |name: Option<&str>, code: i8| name.map_or_else(|| json!(code), |name| json!(name));
    json!({
        "id": id(acl.id),
        "resourceType": named(ResourceType::from_code(acl.resource_type).map(ResourceType::name), acl.resource_type),
        "resourceName": acl.resource_name,
        "patternType": named(PatternType::from_code(acl.pattern_type).map(PatternType::name), acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": named(Operation::from_code(acl.operation).map(Operation::name), acl.operation),
        "permissionType": named(Permission::from_code(acl.permission_type).map(Permission::name), acl.permission_type),
    })
}

fn control(key: &[u8], value: &[u8]) -> Result<Vec<Field>, DecodeError> {
    let (name, data) = match ControlRecord::decode(key, value)? {
        ControlRecord::LeaderChange(change) => ("LEADER_CHANGE", leader_change(&change)),
        ControlRecord::SnapshotHeader(header) => {
            ("SNAPSHOT_HEADER", json!({ "lastContainedLogTimestamp": header.last_contained_log_timestamp }))
        }
        ControlRecord::SnapshotFooter(_) => ("SNAPSHOT_FOOTER", json!({})),
        ControlRecord::KRaftVersion(level) => ("KRAFT_VERSION", json!({ "kraftVersion": level.kraft_version })),
        ControlRecord::Voters(voters) => ("KRAFT_VOTERS", voters_data(voters)),
        ControlRecord::Other { kind } => {
            return Ok(vec![("controlType", json!(kind)), ("data", text(Some(value)))]);
        }
    };
    Ok(vec![("controlType", json!(name)), ("data", data)])
}

fn leader_change(change: &LeaderChangeMessage) -> Value {
    let nodes = |voters: &[LeaderChangeVoter]| voters.iter().map(|voter| voter.voter_id).collect::<Vec<_>>();
    json!({
        "leaderId": change.leader_id,
        "voters": nodes(&change.voters),
        "grantingVoters": nodes(&change.granting_voters),
    })
}

fn voters_data(record: VotersRecord) -> Value {
    let voters = record.voters.into_iter().map(|voter| {
        let endpoints = voter.endpoints.iter().map(|end| format!("{}://{}:{}", end.name, end.host, end.port));
        json!({
            "voterId": voter.voter_id,
            "voterDirectoryId": id(voter.voter_directory_id),
            "endpoints": endpoints.collect::<Vec<_>>(),
            "minSupportedVersion": voter.kraft_version_feature.min_supported_version,
            "maxSupportedVersion": voter.kraft_version_feature.max_supported_version,
        })
    });
    Value::Array(voters.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::storage::kraft::snapshot::Snapshot;

    /// Every record of the golden snapshot, as it is shown.
    fn shown() -> Vec<String> {
        let bytes = include_bytes!("../../../../proto/golden/kraft/records-4.4.checkpoint");
        let snapshot = Snapshot::read(bytes).unwrap();
        snapshot.values().map(|value| format!("{:?}", fields(None, Some(value)))).collect()
    }

    #[test]
    fn records_have_kafka_s_names_and_secrets_are_not_shown() {
        let all = shown();
        for (index, words) in [
            (0, &["FEATURE_LEVEL_RECORD", "metadata.version", "33"][..]),
            (2, &["TOPIC_RECORD", "orders", "OgPTlPLSRv6jUn9CaRPJWg"]),
            (6, &["PARTITION_RECORD", "300", "lastKnownElr", "eligibleLeaderReplicas"]),
            (9, &["CLIENT_QUOTA_RECORD", "alice", "1048576.5"]),
            (10, &["ACCESS_CONTROL_ENTRY_RECORD", "TOPIC", "LITERAL", "READ", "ALLOW"]),
            (11, &["USER_SCRAM_CREDENTIAL_RECORD", "alice", "4096", MASKED]),
            (13, &["NO_OP_RECORD"]),
        ] {
            assert!(words.iter().all(|word| all[index].contains(word)), "{index}: {}", all[index]);
        }
        assert!(!all[11].contains("stored\"") && !all[11].contains("server\""), "{}", all[11]);
        assert!(!all[5].contains("lastKnownElr"), "{}", all[5]);
    }

    #[test]
    fn a_type_that_is_not_known_is_a_number_and_damage_is_told_without_the_bytes() {
        assert_eq!(fields(None, Some(&[1, 99, 0, b'a']))[0], ("type", json!(99)));
        let token = format!("{:?}", fields(None, Some(b"\x01\x0a\x00secret")));
        assert!(token.contains("DELEGATION_TOKEN_RECORD") && !token.contains("secret"), "{token}");
        let damaged = format!("{:?}", fields(None, Some(b"\x01\x0b\x00\x07secret")));
        assert!(damaged.contains("error") && !damaged.contains("secret"), "{damaged}");
        assert_eq!(fields(Some(&[0, 0, 0, 9]), Some(b""))[0], ("controlType", json!(9)));
        assert_eq!(fields(Some(&[0]), Some(b""))[0].0, "error");
        assert_eq!(fields(None, None)[0].0, "error");
    }

    #[test]
    fn a_change_of_a_partition_shows_what_changes() {
        let change = PartitionChangeRecord { leader: -1, last_known_elr: Some(vec![1]), ..Default::default() };
        let shown = fields(None, Some(&MetadataRecord::PartitionChange(change).encode(2).unwrap()));
        let zero = Uuid::ZERO.to_string();
        assert_eq!(shown[2].1, json!({ "partitionId": -1, "topicId": zero, "leader": -1, "lastKnownElr": [1] }));
    }

    #[test]
    fn a_secret_setting_of_a_broker_is_masked() {
        let record = |name: &str| {
            let config = ConfigRecord { name: name.into(), value: Some("hunter2".into()), ..ConfigRecord::default() };
            format!("{:?}", fields(None, Some(&MetadataRecord::Config(config).encode(0).unwrap())))
        };
        assert!(record("retention.ms").contains("hunter2") && !record("ssl.keystore.password").contains("hunter2"));
    }
}
