//! pure: facts to records of the state log and back: a type, a key, a versioned value.
//!
//! ```text
//! key     i16 record type | fields of the type, never flexible
//! value   i16 value version | fields, flexible; null removes what the key names
//! ```
//! Types 1 and 2 have the layout of the KIP-1279 draft, whose key is the mirror's name alone: what a record is about stands
//! in key and value together, so compaction here goes by facts and not by keys. Types that are not known are kept.

mod acl;
mod given;
mod group;
mod hand_over;
mod quotas;

use crate::mirror::catalog::{
    Desired, LastMirrored, MirrorFacts, Placement, Standing, StateRecord, TopicFacts, TopicSettings,
};
use crate::mirror::topic_configs::TopicConfigs;
use crate::statelog::batch::KeyValue;
use std::collections::BTreeMap;
use twinlog_proto::error::{DecodeError, Malformed};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::state_log::{
    HostPartitionKey, HostPartitionValue, LastMirrorEpochsKey, LastMirrorEpochsPartition, LastMirrorEpochsTopic,
    LastMirrorEpochsValue, MirrorKey, MirrorPartitionStateKey, MirrorPartitionStateValue, MirrorSetting,
    MirrorTopicKey, MirrorTopicValue, MirrorValue, TopicConfigsKey,
};
use twinlog_proto::mirror_state::MirrorState;
use twinlog_proto::reader::Reader;
use twinlog_proto::writer::Writer;

/// Where mirroring ended.
pub const TYPE_LAST_MIRRORED: i16 = 1;
/// The state of a partition.
pub const TYPE_STANDING: i16 = 2;
/// A mirror.
pub const TYPE_MIRROR: i16 = 101;
/// What is wanted of a topic.
pub const TYPE_TOPIC: i16 = 102;
/// Where a partition lives on a host.
pub const TYPE_PLACEMENT: i16 = 103;
/// The settings that a topic is to have.
pub const TYPE_CONFIGS: i16 = 105;
/// An access rule that a running destination was given.
pub const TYPE_ACL_GIVEN: i16 = 106;
/// What we write for a group at a running destination.
pub const TYPE_GROUP_OFFSETS: i16 = 107;
/// The broker that a topic was handed over to.
pub const TYPE_HAND_OVER: i16 = 108;
/// The quotas of a mirror's source.
pub const TYPE_QUOTAS: i16 = 109;
/// An access control entry.
pub const TYPE_ACL: i16 = 104;

/// This host; there is one data-plane host for now.
const HOST_ID: &str = "local";
const VERSION: i16 = 0;

/// The records of some facts, in order; the positions of a mirror become one record at the end.
///
/// # Panics
/// When a text is longer than 32767 bytes, which every limit forbids.
#[must_use]
pub fn encode_all(facts: &[StateRecord]) -> Vec<KeyValue> {
    let mut records = Vec::with_capacity(facts.len());
    let mut positions: BTreeMap<&str, BTreeMap<&str, Vec<LastMirrorEpochsPartition>>> = BTreeMap::new();
    for fact in facts {
        match fact {
            StateRecord::LastMirrored { mirror, topic, partition, last } => {
                let of_topic = positions.entry(mirror).or_default().entry(topic).or_default();
                of_topic.push(LastMirrorEpochsPartition {
                    partition_index: *partition,
                    last_mirror_epoch: last.epoch,
                    last_mirrored_offset: last.offset,
                });
            }
            StateRecord::Acl { origin, binding, present } => records.push(acl::encode(origin, binding, *present)),
            StateRecord::AclGiven { mirror: m, binding, to } => records.push(given::encode(m, binding, to.as_deref())),
            StateRecord::GroupOffsets { mirror, group, topic, offsets } => {
                records.push(group::encode(mirror, group, topic, offsets.as_ref()));
            }
            StateRecord::Quotas { mirror, quotas } => records.push(quotas::encode(mirror, quotas.as_ref())),
            StateRecord::HandedOver { mirror, topic, to } => {
                records.push(hand_over::encode(mirror, topic, to.as_deref()));
            }
            StateRecord::Foreign(record) => records.push(record.clone()),
            StateRecord::Mirror { mirror, facts } => {
                // What comes after it in the log would be taken for positions of a mirror that is created again.
                if facts.is_none() {
                    positions.remove(mirror.as_str());
                }
                let key = MirrorKey { mirror_name: mirror.clone() };
                records.push(record(TYPE_MIRROR, &key, facts.as_ref().map(mirror_value).as_ref()));
            }
            StateRecord::Topic { mirror, topic, facts } => {
                if let (None, Some(topics)) = (facts, positions.get_mut(mirror.as_str())) {
                    topics.remove(topic.as_str());
                }
                let key = MirrorTopicKey { mirror_name: mirror.clone(), topic_name: topic.clone() };
                records.push(record(TYPE_TOPIC, &key, facts.as_ref().map(topic_value).as_ref()));
            }
            StateRecord::Placement { mirror, topic, partition, placement } => {
                let key = HostPartitionKey {
                    host_id: HOST_ID.to_owned(),
                    mirror_name: mirror.clone(),
                    topic_name: topic.clone(),
                    partition: *partition,
                };
                records.push(record(TYPE_PLACEMENT, &key, placement.as_ref().map(placement_value).as_ref()));
            }
            StateRecord::Configs { mirror, topic, configs } => {
                records.push(configs_record(mirror, topic, configs.as_ref()));
            }
            StateRecord::Standing { mirror, topic, topic_id, partition, standing } => {
                let key = MirrorPartitionStateKey { mirror_name: mirror.clone() };
                let value = standing_value(topic, *topic_id, *partition, standing);
                records.push(record(TYPE_STANDING, &key, Some(&value)));
            }
        }
    }
    for (mirror, topics) in positions.into_iter().filter(|(_, topics)| !topics.is_empty()) {
        let topic = |(name, partitions): (&str, _)| LastMirrorEpochsTopic { name: name.to_owned(), partitions };
        let value = LastMirrorEpochsValue { topics: topics.into_iter().map(topic).collect() };
        let key = LastMirrorEpochsKey { mirror_name: mirror.to_owned() };
        records.push(record(TYPE_LAST_MIRRORED, &key, Some(&value)));
    }
    records
}

/// The facts of one record.
///
/// # Errors
/// When a record of a known type does not follow its layout, or carries a code that means nothing.
pub fn decode(record: &KeyValue) -> Result<Vec<StateRecord>, DecodeError> {
    let mut key = Reader::new("state log key", &record.key);
    let fact = match key.read_i16()? {
        TYPE_LAST_MIRRORED => return decode_positions(key, record),
        TYPE_STANDING => decode_standing(key, record)?,
        TYPE_MIRROR => {
            let mirror = whole::<MirrorKey>(key)?.mirror_name;
            StateRecord::Mirror { mirror, facts: value(record)?.map(mirror_facts) }
        }
        TYPE_TOPIC => {
            let MirrorTopicKey { mirror_name: mirror, topic_name: topic } = whole(key)?;
            let facts = value(record)?.map(topic_facts).transpose()?;
            StateRecord::Topic { mirror, topic, facts }
        }
        TYPE_PLACEMENT => {
            let HostPartitionKey { mirror_name: mirror, topic_name: topic, partition, .. } = whole(key)?;
            let placement = value::<HostPartitionValue>(record)?.map(|found| Placement {
                slot: found.slot.cast_unsigned(),
                directory: found.data_directory,
                attempt: found.attempt,
                asked_version: found.asked_version,
                discard: found.discard,
            });
            StateRecord::Placement { mirror, topic, partition, placement }
        }
        TYPE_CONFIGS => {
            let TopicConfigsKey { mirror_name: mirror, topic_name: topic } = whole(key)?;
            StateRecord::Configs { mirror, topic, configs: value(record)?.map(TopicConfigs::from_value) }
        }
        TYPE_ACL => acl::decode(key, record)?,
        TYPE_ACL_GIVEN => given::decode(key, record)?,
        TYPE_GROUP_OFFSETS => group::decode(key, record)?,
        TYPE_HAND_OVER => hand_over::decode(key, record)?,
        TYPE_QUOTAS => quotas::decode(key, record)?,
        _ => StateRecord::Foreign(record.clone()),
    };
    Ok(vec![fact])
}

fn decode_positions(key: Reader<'_>, record: &KeyValue) -> Result<Vec<StateRecord>, DecodeError> {
    let mirror = whole::<LastMirrorEpochsKey>(key)?.mirror_name;
    let Some(found) = value::<LastMirrorEpochsValue>(record)? else { return Ok(Vec::new()) };
    let mut facts = Vec::new();
    for topic in found.topics {
        for partition in topic.partitions {
            let last = LastMirrored { offset: partition.last_mirrored_offset, epoch: partition.last_mirror_epoch };
            let (mirror, topic) = (mirror.clone(), topic.name.clone());
            facts.push(StateRecord::LastMirrored { mirror, topic, partition: partition.partition_index, last });
        }
    }
    Ok(facts)
}

fn decode_standing(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let mirror = whole::<MirrorPartitionStateKey>(key)?.mirror_name;
    // The draft's tombstone is of a whole mirror.
    let Some(found) = value::<MirrorPartitionStateValue>(record)? else {
        return Ok(StateRecord::Mirror { mirror, facts: None });
    };
    let standing = Standing {
        state: state(found.state)?,
        previous: state(found.previous_state)?,
        retry_attempt: found.retry_attempt,
        message: found.error_message,
        by_source: found.by_source,
        state_epoch: found.state_epoch,
        writer_epoch: found.writer_epoch,
    };
    let (topic, topic_id, partition) = (found.topic_name, found.topic_id, found.partition);
    Ok(StateRecord::Standing { mirror, topic, topic_id, partition, standing })
}

fn record<K: Message, V: Message>(record_type: i16, key: &K, value: Option<&V>) -> KeyValue {
    KeyValue { key: prefixed(record_type, key), value: value.map(|value| prefixed(VERSION, value)) }
}

fn prefixed<M: Message>(prefix: i16, message: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes);
    w.write_i16(prefix);
    message.encode(&mut w, VERSION).expect("every text of the catalog is bounded below what a record can carry");
    bytes
}

fn whole<M: Message>(mut key: Reader<'_>) -> Result<M, DecodeError> {
    let message = M::decode(&mut key, VERSION)?;
    key.finish()?;
    Ok(message)
}

/// The value; bytes after what this version knows are a newer version's.
fn value<M: Message>(record: &KeyValue) -> Result<Option<M>, DecodeError> {
    let Some(bytes) = &record.value else { return Ok(None) };
    let mut r = Reader::new(M::NAME, bytes);
    let version = r.read_i16()?;
    if version != VERSION {
        return Err(r.error(Malformed::Version { found: i32::from(version) }));
    }
    M::decode(&mut r, VERSION).map(Some)
}

fn state(code: i8) -> Result<MirrorState, DecodeError> {
    MirrorState::from_code(code)
        .map_err(|unknown| DecodeError::out_of_bounds("state code", 0, i64::from(unknown.0), 16))
}

fn standing_value(topic: &str, topic_id: Uuid, partition: i32, standing: &Standing) -> MirrorPartitionStateValue {
    MirrorPartitionStateValue {
        topic_name: topic.to_owned(),
        partition,
        state: standing.state.code(),
        previous_state: standing.previous.code(),
        retry_attempt: standing.retry_attempt,
        topic_id,
        error_message: standing.message.clone(),
        state_epoch: standing.state_epoch,
        by_source: standing.by_source,
        writer_epoch: standing.writer_epoch,
        ..MirrorPartitionStateValue::default()
    }
}

fn placement_value(placement: &Placement) -> HostPartitionValue {
    HostPartitionValue {
        slot: placement.slot.cast_signed(),
        data_directory: placement.directory.clone(),
        attempt: placement.attempt,
        asked_version: placement.asked_version,
        discard: placement.discard,
    }
}

fn configs_record(mirror: &str, topic: &str, configs: Option<&TopicConfigs>) -> KeyValue {
    let key = TopicConfigsKey { mirror_name: mirror.to_owned(), topic_name: topic.to_owned() };
    record(TYPE_CONFIGS, &key, configs.map(TopicConfigs::to_value).as_ref())
}

fn mirror_value(facts: &MirrorFacts) -> MirrorValue {
    let setting = |(name, value): (&String, &String)| MirrorSetting { name: name.clone(), value: Some(value.clone()) };
    MirrorValue {
        source_cluster_id: facts.source_cluster_id.clone(),
        settings: facts.settings.iter().map(setting).collect(),
        include_patterns: facts.include.clone(),
        exclude_patterns: facts.exclude.clone(),
        assignment_version: facts.assignment_version,
        destination_cluster_id: facts.destination_cluster_id.clone(),
    }
}

fn mirror_facts(value: MirrorValue) -> MirrorFacts {
    MirrorFacts {
        source_cluster_id: value.source_cluster_id,
        settings: value.settings.into_iter().filter_map(|s| Some((s.name, s.value?))).collect(),
        include: value.include_patterns,
        exclude: value.exclude_patterns,
        assignment_version: value.assignment_version,
        destination_cluster_id: value.destination_cluster_id,
    }
}

fn topic_value(facts: &TopicFacts) -> MirrorTopicValue {
    let desired = match facts.desired {
        Desired::Mirror => MirrorState::Mirroring,
        Desired::Pause => MirrorState::Paused,
        Desired::Stop => MirrorState::Stopped,
    };
    MirrorTopicValue {
        topic_id: facts.id,
        desired_state: desired.code(),
        num_partitions: facts.partition_count,
        segment_bytes: facts.settings.segment_bytes,
        segment_ms: facts.settings.segment_ms,
        segment_jitter_ms: facts.settings.segment_jitter_ms,
        segment_index_bytes: facts.settings.segment_index_bytes,
        index_interval_bytes: facts.settings.index_interval_bytes,
        compacted: facts.settings.compacted,
        max_compaction_lag_ms: facts.settings.max_compaction_lag_ms,
    }
}

fn topic_facts(value: MirrorTopicValue) -> Result<TopicFacts, DecodeError> {
    let desired = match state(value.desired_state)? {
        MirrorState::Mirroring => Desired::Mirror,
        MirrorState::Paused => Desired::Pause,
        MirrorState::Stopped => Desired::Stop,
        other => {
            return Err(DecodeError::out_of_bounds("MirrorTopicValue.DesiredState", 0, i64::from(other.code()), 6));
        }
    };
    Ok(TopicFacts {
        id: value.topic_id,
        desired,
        partition_count: value.num_partitions,
        settings: TopicSettings {
            segment_bytes: value.segment_bytes,
            segment_ms: value.segment_ms,
            segment_jitter_ms: value.segment_jitter_ms,
            segment_index_bytes: value.segment_index_bytes,
            index_interval_bytes: value.index_interval_bytes,
            compacted: value.compacted,
            max_compaction_lag_ms: value.max_compaction_lag_ms,
        },
    })
}

/// The catalog that replaying the records of `facts` builds.
#[cfg(test)]
fn replayed(facts: &[StateRecord]) -> crate::mirror::catalog::Catalog {
    let mut catalog = crate::mirror::catalog::Catalog::default();
    for record in encode_all(facts) {
        decode(&record).unwrap().iter().for_each(|fact| catalog.apply(fact));
    }
    catalog
}
