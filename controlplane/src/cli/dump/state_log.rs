//! pure: keys and values of the state log's records.

use super::records::text;
use crate::mirror::settings::{self, MASKED};
use serde_json::{Value, json};
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::state_log::{
    ACL, AclKey, AclValue, GIVEN_ACL, GROUP_OFFSETS, GivenAclKey, GivenAclValue, GroupOffsetsKey, GroupOffsetsValue,
    HAND_OVER, HOST_PARTITION, HandOverKey, HandOverValue, HostPartitionKey, HostPartitionValue, LAST_MIRROR_EPOCHS,
    LastMirrorEpochsKey, LastMirrorEpochsValue, MIRROR, MIRROR_PARTITION_STATE, MIRROR_TOPIC, MirrorKey,
    MirrorPartitionStateKey, MirrorPartitionStateValue, MirrorTopicKey, MirrorTopicValue, MirrorValue, QUOTAS,
    QuotaEntity, QuotaEntry, QuotasKey, QuotasValue, TOPIC_CONFIGS, TopicConfigEntry, TopicConfigsKey,
    TopicConfigsValue,
};
use twinlog_proto::mirror_state::MirrorState;
use twinlog_proto::reader::Reader;
use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};

type Field = (&'static str, Value);

/// The fields of a record: its type, key and value; the bare bytes and why when they cannot be read.
pub(super) fn fields(key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<Field> {
    match decoded(key.unwrap_or_default(), value) {
        Ok(Some(fields)) => fields,
        Ok(None) => vec![("type", json!("unknown")), ("key", text(key)), ("value", text(value))],
        // A damaged record of a mirror may hold its secrets anywhere.
        Err(why) if key.is_some_and(|key| key.starts_with(&MIRROR.to_be_bytes())) => {
            vec![("error", json!(why.to_string())), ("key", text(key)), ("value", json!(MASKED))]
        }
        Err(why) => vec![("error", json!(why.to_string())), ("key", text(key)), ("value", text(value))],
    }
}

fn decoded(key: &[u8], value: Option<&[u8]>) -> Result<Option<Vec<Field>>, DecodeError> {
    let mut reader = Reader::new("state log key", key);
    let number = reader.read_i16()?;
    let (name, key, value) = match number {
        LAST_MIRROR_EPOCHS => {
            let LastMirrorEpochsKey { mirror_name } = whole(reader)?;
            ("LastMirrorEpochs", json!({ "mirror": mirror_name }), valued(value, last_mirror_epochs)?)
        }
        MIRROR_PARTITION_STATE => {
            let MirrorPartitionStateKey { mirror_name } = whole(reader)?;
            ("MirrorPartitionState", json!({ "mirror": mirror_name }), valued(value, partition_state)?)
        }
        MIRROR => {
            let MirrorKey { mirror_name } = whole(reader)?;
            ("Mirror", json!({ "mirror": mirror_name }), valued(value, mirror)?)
        }
        MIRROR_TOPIC => {
            let MirrorTopicKey { mirror_name, topic_name } = whole(reader)?;
            ("MirrorTopic", json!({ "mirror": mirror_name, "topic": topic_name }), valued(value, topic)?)
        }
        HOST_PARTITION => {
            let HostPartitionKey { host_id, mirror_name, topic_name, partition } = whole(reader)?;
            let key = json!({ "host": host_id, "mirror": mirror_name, "topic": topic_name, "partition": partition });
            ("HostPartition", key, valued(value, placement)?)
        }
        TOPIC_CONFIGS => {
            let TopicConfigsKey { mirror_name, topic_name } = whole(reader)?;
            ("TopicConfigs", json!({ "mirror": mirror_name, "topic": topic_name }), valued(value, configs)?)
        }
        ACL => {
            let key: AclKey = whole(reader)?;
            ("Acl", acl(key), valued(value, |AclValue {}| json!({}))?)
        }
        GIVEN_ACL => {
            let key: GivenAclKey = whole(reader)?;
            (
                "GivenAcl",
                acl(given(key)),
                valued(value, |GivenAclValue { cluster_id }| json!({ "cluster": cluster_id }))?,
            )
        }
        GROUP_OFFSETS => {
            let GroupOffsetsKey { mirror_name, group_id, topic_name } = whole(reader)?;
            let key = json!({ "mirror": mirror_name, "group": group_id, "topic": topic_name });
            ("GroupOffsets", key, valued(value, group_offsets)?)
        }
        HAND_OVER => {
            let HandOverKey { mirror_name, topic_name } = whole(reader)?;
            let key = json!({ "mirror": mirror_name, "topic": topic_name });
            let to = |HandOverValue { handed_over_to }| json!({ "handedOverTo": handed_over_to });
            ("HandOver", key, valued(value, to)?)
        }
        QUOTAS => {
            let QuotasKey { mirror_name } = whole(reader)?;
            ("Quotas", json!({ "mirror": mirror_name }), valued(value, quotas)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![("type", json!(number)), ("name", json!(name)), ("key", key), ("value", value)]))
}

fn whole<M: Message>(mut reader: Reader<'_>) -> Result<M, DecodeError> {
    let message = M::decode(&mut reader, 0)?;
    reader.finish()?;
    Ok(message)
}

/// The value after its version, or null: then the record removes what the key names.
fn valued<M: Message>(value: Option<&[u8]>, show: impl Fn(M) -> Value) -> Result<Value, DecodeError> {
    let Some(value) = value else { return Ok(Value::Null) };
    let mut reader = Reader::new("state log value", value);
    let version = reader.read_i16()?;
    Ok(show(M::decode(&mut reader, version)?))
}

fn last_mirror_epochs(value: LastMirrorEpochsValue) -> Value {
    let topics = value.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            json!({
                "partition": partition.partition_index,
                "lastMirrorEpoch": partition.last_mirror_epoch,
                "lastMirroredOffset": partition.last_mirrored_offset,
            })
        });
        json!({ "topic": topic.name, "partitions": partitions.collect::<Vec<_>>() })
    });
    Value::Array(topics.collect())
}

fn group_offsets(value: GroupOffsetsValue) -> Value {
    let partitions = value.partitions.iter();
    let partitions =
        partitions.map(|p| json!({ "partition": p.partition_index, "offset": p.offset, "before": p.before }));
    Value::Array(partitions.collect())
}

fn state(code: i8) -> Value {
    MirrorState::from_code(code).map_or_else(|unknown| json!(unknown.0), |state| json!(state.name()))
}

fn partition_state(value: MirrorPartitionStateValue) -> Value {
    json!({
        "topic": value.topic_name,
        "partition": value.partition,
        "topicId": value.topic_id.to_string(),
        "state": state(value.state),
        "previousState": state(value.previous_state),
        "stateEpoch": value.state_epoch,
        "retryAttempt": value.retry_attempt,
        "lastMirroredOffset": value.last_mirrored_offset,
        "lastMirrorEpoch": value.last_mirror_epoch,
        "errorMessage": value.error_message,
    })
}

fn mirror(value: MirrorValue) -> Value {
    let settings =
        value.settings.into_iter().map(|setting| (setting.name.clone(), shown(&setting.name, setting.value)));
    json!({
        "sourceClusterId": value.source_cluster_id,
        "settings": settings.collect::<serde_json::Map<_, _>>(),
        "includePatterns": value.include_patterns,
        "excludePatterns": value.exclude_patterns,
        "assignmentVersion": value.assignment_version,
        "destinationClusterId": value.destination_cluster_id,
    })
}

/// The value of a setting, or that it is a secret.
pub(super) fn shown(name: &str, value: Option<String>) -> Value {
    if value.is_some() && settings::is_secret(name) { json!(MASKED) } else { json!(value) }
}

fn topic(value: MirrorTopicValue) -> Value {
    json!({
        "topicId": value.topic_id.to_string(),
        "desiredState": state(value.desired_state),
        "numPartitions": value.num_partitions,
        "segmentBytes": value.segment_bytes,
        "segmentMs": value.segment_ms,
        "segmentJitterMs": value.segment_jitter_ms,
        "segmentIndexBytes": value.segment_index_bytes,
        "indexIntervalBytes": value.index_interval_bytes,
        "compacted": value.compacted,
        "maxCompactionLagMs": value.max_compaction_lag_ms,
    })
}

fn quotas(value: QuotasValue) -> Value {
    let whom = |entity: Vec<QuotaEntity>| {
        let parts = entity.into_iter().map(|part| (part.entity_type, json!(part.entity_name)));
        parts.collect::<serde_json::Map<_, _>>()
    };
    let quota = |entry: QuotaEntry| json!({ "entity": whom(entry.entity), "key": entry.key, "value": entry.value });
    let quotas: Vec<Value> = value.quotas.into_iter().map(quota).collect();
    json!({ "quotas": quotas, "scramUsers": value.scram_users })
}

fn configs(value: TopicConfigsValue) -> Value {
    let entries = |entries: Vec<TopicConfigEntry>| {
        entries.into_iter().map(|entry| (entry.name, json!(entry.value))).collect::<serde_json::Map<_, _>>()
    };
    json!({
        "synced": entries(value.synced),
        "overrides": entries(value.overrides),
        "written": entries(value.written),
        "inherited": value.inherited.into_iter().map(|e| (e.name, json!({ "value": e.value, "origin": e.origin })))
            .collect::<serde_json::Map<_, _>>(),
    })
}

/// The names of the numbers; a number that is not known stands as it is.
/// What a destination was given is shown as what is kept.
fn given(key: GivenAclKey) -> AclKey {
    AclKey {
        origin_mirror: key.mirror_name,
        resource_type: key.resource_type,
        resource_name: key.resource_name,
        pattern_type: key.pattern_type,
        principal: key.principal,
        host: key.host,
        operation: key.operation,
        permission_type: key.permission_type,
    }
}

fn acl(key: AclKey) -> Value {
    let named = |name: Option<&str>, code: i8| name.map_or_else(|| json!(code), |name| json!(name));
    json!({
        "originMirror": key.origin_mirror,
        "resourceType": named(ResourceType::from_code(key.resource_type).map(ResourceType::name), key.resource_type),
        "resourceName": key.resource_name,
        "patternType": named(PatternType::from_code(key.pattern_type).map(PatternType::name), key.pattern_type),
        "principal": key.principal,
        "host": key.host,
        "operation": named(Operation::from_code(key.operation).map(Operation::name), key.operation),
        "permission": named(Permission::from_code(key.permission_type).map(Permission::name), key.permission_type),
    })
}

fn placement(value: HostPartitionValue) -> Value {
    json!({
        "slot": value.slot,
        "dataDirectory": value.data_directory,
        "attempt": value.attempt,
        "askedVersion": value.asked_version,
        "discard": value.discard,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::state_log::MirrorSetting;
    use twinlog_proto::writer::Writer;

    fn bytes(number: i16, message: &impl Message) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.write_i16(number);
        message.encode(&mut w, 0).unwrap();
        out
    }

    #[test]
    fn a_mirror_is_shown_without_its_secrets() {
        let setting = |name: &str, value: &str| MirrorSetting { name: name.into(), value: Some(value.into()) };
        let settings = vec![setting("bootstrap.servers", "h:1"), setting("sasl.jaas.config", "password=hunter2")];
        let value = bytes(0, &MirrorValue { settings, ..Default::default() });
        let fields = fields(Some(&bytes(MIRROR, &MirrorKey { mirror_name: "dr".into() })), Some(&value));
        let damaged = super::fields(
            Some(&bytes(MIRROR, &MirrorKey { mirror_name: "dr".into() })),
            Some(&value[..value.len() - 9]),
        );
        assert!(damaged[0].0 == "error" && !format!("{damaged:?}").contains("hunter"), "{damaged:?}");
        let text = format!("{fields:?}");
        assert!(text.contains("h:1") && text.contains(MASKED) && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn an_access_control_entry_is_shown_by_names_and_a_number_that_is_not_known_as_it_is() {
        let key = AclKey {
            resource_type: 8,
            resource_name: "dr".into(),
            pattern_type: 3,
            principal: "User:alice".into(),
            host: "*".into(),
            operation: 99,
            permission_type: 2,
            ..Default::default()
        };
        let text = format!("{:?}", fields(Some(&bytes(ACL, &key)), Some(&bytes(0, &AclValue::default()))));
        for word in ["CLUSTER_MIRROR", "LITERAL", "User:alice", "DENY", "99"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn a_removal_an_unknown_type_and_damage_are_told_apart() {
        let key = bytes(MIRROR, &MirrorKey { mirror_name: "dr".into() });
        assert_eq!(fields(Some(&key), None)[3], ("value", Value::Null));
        assert_eq!(fields(Some(&[0x7f, 0, 1]), Some(b"x"))[0], ("type", json!("unknown")));
        assert_eq!(fields(Some(&key[..5]), Some(b"x"))[0].0, "error");
        assert_eq!(fields(None, None)[0].0, "error");
    }
}
