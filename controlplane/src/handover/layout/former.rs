//! pure: what a node's metadata held when it was last stopped, replayed from the values of its records: what of it a node that is laid out
//! anew is to know again, and which topics it knew.

use super::bootstrap::Bootstrap;
use crate::handover::node::{Node, Quorum};
use crate::handover::problem::Problem;
use crate::handover::release::Release;
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_proto::error::{DecodeError, EncodeError};
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::kraft_records::{
    AccessControlEntryRecord, ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, VotersRecord,
};
use twinlog_proto::reader::Reader;
use twinlog_proto::storage::kraft::control::ControlRecord;
use twinlog_proto::storage::kraft::records::{DELEGATION_TOKEN, METADATA_VERSION, MetadataRecord};
use twinlog_proto::storage::kraft::snapshot::Snapshot;
use twinlog_proto::storage::kraft::{BOOTSTRAP_CHECKPOINT, FIRST_SNAPSHOT, METADATA_LOG};

const REGISTER_BROKER: u32 = 0;
const UNREGISTER_BROKER: u32 = 1;
const REMOVE_ACL: u32 = 19;
const REMOVE_SCRAM: u32 = 22;
const BEGIN_TRANSACTION: u32 = 23;
const END_TRANSACTION: u32 = 24;
const ABORT_TRANSACTION: u32 = 25;
/// Resource type of a topic.
const TOPIC: i8 = 2;
/// The leader of a partition does not change.
const NO_CHANGE: i32 = -2;
/// The first level of metadata.version of 4.4, which begins with the snapshot of an empty log.
const LEVEL_4_4: i16 = 31;
const ANEW: &str = "hand over to a node whose log.dirs are empty, or freshly formatted and never started";

/// What the metadata held.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Former {
    levels: BTreeMap<String, i16>,
    configs: BTreeMap<(i8, String, String), String>,
    quotas: Vec<ClientQuotaRecord>,
    acls: BTreeMap<Uuid, AccessControlEntryRecord>,
    /// By user and mechanism: the value of the record.
    scram: BTreeMap<(String, i8), Vec<u8>>,
    /// Who may vote, when that is kept in the log.
    pub(super) voters: Option<(Vec<u8>, VotersRecord)>,
    /// Brokers that are registered, with the highest metadata.version that each of them speaks.
    brokers: BTreeMap<i32, i16>,
    /// The first producer id that is not given out.
    pub next_producer_id: i64,
    /// Topics by id.
    pub topics: BTreeMap<Uuid, String>,
    /// Leader epochs of partitions.
    pub leader_epochs: BTreeMap<(Uuid, i32), i32>,
    /// Delegation tokens, which do not come along.
    pub tokens: usize,
    /// Records of a transaction that has not ended.
    pending: Option<Vec<Vec<u8>>>,
}

impl Former {
    /// Takes the key and value of a control record of the log.
    pub(super) fn control(&mut self, key: &[u8], value: &[u8]) {
        if let Ok(ControlRecord::Voters(voters)) = ControlRecord::decode(key, value) {
            self.voters = Some((value.to_vec(), voters));
        }
    }

    /// Takes a snapshot, of what everything before the log was.
    ///
    /// # Errors
    /// As [`Former::take`].
    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), DecodeError> {
        if let Some((value, voters)) = snapshot.voters_value().zip(snapshot.voters()) {
            self.voters = Some((value.to_vec(), voters));
        }
        snapshot.values().try_for_each(|value| self.take(value))
    }

    /// Takes the value of a record.
    ///
    /// # Errors
    /// When it is none that a controller writes.
    pub(super) fn take(&mut self, value: &[u8]) -> Result<(), DecodeError> {
        let record = MetadataRecord::decode(value)?;
        match (&record, &mut self.pending) {
            (MetadataRecord::Other { kind: BEGIN_TRANSACTION, .. }, _) => self.pending = Some(Vec::new()),
            (MetadataRecord::Other { kind: ABORT_TRANSACTION, .. }, _) => self.pending = None,
            (MetadataRecord::Other { kind: END_TRANSACTION, .. }, _) => {
                for value in self.pending.take().unwrap_or_default() {
                    self.apply(MetadataRecord::decode(&value)?, &value)?;
                }
            }
            (_, Some(pending)) => pending.push(value.to_vec()),
            (_, None) => self.apply(record, value)?,
        }
        Ok(())
    }

    fn apply(&mut self, record: MetadataRecord, value: &[u8]) -> Result<(), DecodeError> {
        match record {
            MetadataRecord::Topic(topic) => drop(self.topics.insert(topic.topic_id, topic.name)),
            MetadataRecord::RemoveTopic(removed) => {
                self.topics.remove(&removed.topic_id);
                self.leader_epochs.retain(|(topic, _), _| *topic != removed.topic_id);
            }
            MetadataRecord::Partition(partition) => {
                self.leader_epochs.insert((partition.topic_id, partition.partition_id), partition.leader_epoch);
            }
            MetadataRecord::PartitionChange(change) if change.leader != NO_CHANGE => {
                if let Some(epoch) = self.leader_epochs.get_mut(&(change.topic_id, change.partition_id)) {
                    *epoch = epoch.saturating_add(1);
                }
            }
            MetadataRecord::PartitionChange(_) => {}
            MetadataRecord::Config(config) if config.resource_type == TOPIC => {}
            MetadataRecord::Config(ConfigRecord { resource_type, resource_name, name, value }) => {
                let key = (resource_type, resource_name, name);
                match value {
                    Some(value) => drop(self.configs.insert(key, value)),
                    None => drop(self.configs.remove(&key)),
                }
            }
            MetadataRecord::UserScramCredential(user) => {
                self.scram.insert((user.name, user.mechanism), value.to_vec());
            }
            MetadataRecord::FeatureLevel(feature) => {
                self.levels.insert(feature.name.clone(), feature.feature_level);
                self.levels.retain(|_, level| *level > 0);
            }
            MetadataRecord::ClientQuota(quota) => {
                self.quotas.retain(|known| known.entity != quota.entity || known.key != quota.key);
                self.quotas.extend((!quota.remove).then_some(quota));
            }
            MetadataRecord::ProducerIds(ids) => {
                self.next_producer_id = self.next_producer_id.max(ids.next_producer_id);
            }
            MetadataRecord::AccessControlEntry(acl) => drop(self.acls.insert(acl.id, acl)),
            MetadataRecord::Other { kind, body, .. } => self.other(kind, &body)?,
        }
        Ok(())
    }

    /// Records of which only the beginning is read.
    fn other(&mut self, kind: u32, body: &[u8]) -> Result<(), DecodeError> {
        let mut r = Reader::new("metadata record", body);
        match kind {
            REGISTER_BROKER => {
                let id = r.read_i32()?;
                self.brokers.insert(id, highest_level(body));
            }
            UNREGISTER_BROKER => drop(self.brokers.remove(&r.read_i32()?)),
            REMOVE_ACL => drop(self.acls.remove(&Uuid(r.read_array()?))),
            REMOVE_SCRAM => {
                let bytes = (r.read_uvarint()? as usize).saturating_sub(1);
                let name = String::from_utf8_lossy(r.read_slice(bytes)?).into_owned();
                let mechanism = r.read_array::<1>()?[0].cast_signed();
                self.scram.remove(&(name, mechanism));
            }
            DELEGATION_TOKEN => self.tokens += 1,
            _ => {}
        }
        Ok(())
    }

    /// The file that the metadata of the node `node` begins with when it is laid out anew, whose directory has the id `directory`; with
    /// what was there besides topics.
    ///
    /// # Errors
    /// When the node was one of several, or its levels are none that are known here.
    pub(super) fn bootstrap(&self, node: &Node, directory: Option<Uuid>, now_ms: i64) -> Result<Bootstrap, Problem> {
        let folder = node.metadata_log_dir.join(METADATA_LOG);
        let wrong = |why: String| Problem::new(folder.display(), why, ANEW);
        if let Some(other) = self.brokers.keys().find(|id| **id != node.id) {
            return Err(wrong(format!("its cluster has another broker, node {other}: what that knows would be gone")));
        }
        let level = self.levels.get(METADATA_VERSION).copied();
        let level = level.ok_or_else(|| wrong("it has no metadata.version".to_owned()))?;
        let release = Release::of_level(level);
        let release = release.ok_or_else(|| wrong(format!("metadata.version {level} is newer than 4.4")))?;
        let speaks = self.brokers.get(&node.id).copied().unwrap_or(0);
        let mut first = Snapshot::empty(now_ms);
        let mut legacy = level < LEVEL_4_4;
        if node.quorum == Quorum::Dynamic {
            match &self.voters {
                Some((value, voters)) if is_alone(voters, node.id, directory) => {
                    first = Snapshot::with_voters(now_ms, value);
                }
                _ => return Err(wrong(format!("node {} is not its only voter, by the id of this directory", node.id))),
            }
            // Up to 4.3 the records have a file of their own beside the one with the voters; 4.4 does not look at it then.
            legacy &= speaks < LEVEL_4_4;
        }
        let mut formatted = if legacy { Snapshot::empty(now_ms) } else { first.clone() };
        for value in self.values().map_err(|cause| wrong(cause.to_string()))? {
            formatted.push(now_ms, value);
        }
        let file = match legacy {
            true => node.metadata_log_dir.join(BOOTSTRAP_CHECKPOINT),
            false => folder.join(FIRST_SNAPSHOT),
        };
        let voters = (legacy && node.quorum == Quorum::Dynamic).then_some((folder.join(FIRST_SNAPSHOT), first));
        Ok(Bootstrap { file, formatted: Some(formatted), level, release, added: 0, voters })
    }

    /// What a node that is laid out anew knows again, as values of records.
    fn values(&self) -> Result<Vec<Vec<u8>>, EncodeError> {
        let mut records = Vec::new();
        // The level that says how all others are read comes first.
        let mut levels: Vec<_> = self.levels.iter().collect();
        levels.sort_by_key(|(name, _)| (*name != METADATA_VERSION, *name));
        records.extend(levels.into_iter().map(|(name, level)| {
            MetadataRecord::FeatureLevel(FeatureLevelRecord { name: name.clone(), feature_level: *level })
        }));
        records.extend(self.configs.iter().map(|((resource_type, resource_name, name), value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type: *resource_type,
                resource_name: resource_name.clone(),
                name: name.clone(),
                value: Some(value.clone()),
            })
        }));
        records.extend(self.quotas.iter().cloned().map(MetadataRecord::ClientQuota));
        records.extend(self.acls.values().cloned().map(MetadataRecord::AccessControlEntry));
        let mut values: Vec<Vec<u8>> = records.iter().map(|record| record.encode(0)).collect::<Result<_, _>>()?;
        values.extend(self.scram.values().cloned());
        Ok(values)
    }
}

/// Whether the node is the only voter, by the id of its directory.
fn is_alone(voters: &VotersRecord, id: i32, directory: Option<Uuid>) -> bool {
    matches!(&voters.voters[..], [only] if only.voter_id == id && Some(only.voter_directory_id) == directory)
}

/// The highest metadata.version that a broker speaks, of its registration: the range stands behind the name in every version of that record.
fn highest_level(body: &[u8]) -> i16 {
    let name = METADATA_VERSION.as_bytes();
    let at = body.windows(name.len()).position(|window| window == name);
    let range = at.and_then(|at| body.get(at + name.len() + 2..at + name.len() + 4));
    range.map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Why a node with topics of its own is not laid out.
pub(super) fn of_its_own(folder: &Path, former: &Former) -> Problem {
    /// Topics that are named.
    const SHOWN_MAX: usize = 5;
    let mut topics: Vec<&str> = former.topics.values().map(String::as_str).collect();
    topics.sort_unstable();
    let shown = topics[..topics.len().min(SHOWN_MAX)].join(", ");
    let of_its_own = match topics.len() {
        0 => String::new(),
        n if n > SHOWN_MAX => format!(" and has topics of its own: {shown} and {} more", n - SHOWN_MAX),
        _ => format!(" and has topics of its own: {shown}"),
    };
    Problem::new(folder.display(), format_args!("the node was started before{of_its_own}"), ANEW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::layout::tests::Place;
    use std::fs;
    use twinlog_proto::messages::kraft_records::{
        PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, TopicRecord, UserScramCredentialRecord,
    };

    fn take(former: &mut Former, record: &MetadataRecord) {
        former.take(&record.encode(2).unwrap()).unwrap();
    }

    fn other(kind: u32, body: &[u8]) -> MetadataRecord {
        MetadataRecord::Other { kind, version: 0, body: body.to_vec() }
    }

    fn config(value: Option<&str>) -> MetadataRecord {
        MetadataRecord::Config(ConfigRecord {
            resource_type: 4,
            resource_name: String::new(),
            name: "log.retention.ms".into(),
            value: value.map(ToOwned::to_owned),
        })
    }

    fn acl(id: u8) -> MetadataRecord {
        let principal = "User:a".to_owned();
        MetadataRecord::AccessControlEntry(AccessControlEntryRecord {
            id: Uuid([id; 16]),
            principal,
            ..Default::default()
        })
    }

    fn scram(name: &str) -> MetadataRecord {
        MetadataRecord::UserScramCredential(UserScramCredentialRecord {
            name: name.into(),
            mechanism: 1,
            ..Default::default()
        })
    }

    /// What a node of `release` held that was formatted by its tool, ran as a binary that speaks `level`, and had a topic.
    fn former(place: &Place, level: i16) -> Former {
        let mut former = Former::default();
        for path in [place.path(METADATA_LOG).join(FIRST_SNAPSHOT), place.path(BOOTSTRAP_CHECKPOINT)] {
            if let Ok(bytes) = fs::read(path) {
                former.snapshot(&Snapshot::read(&bytes).unwrap()).unwrap();
            }
        }
        let mut body = vec![0, 0, 0, 1];
        body.extend(b"...\x11metadata.version\0\x07");
        body.extend(level.to_be_bytes());
        take(&mut former, &other(REGISTER_BROKER, &body));
        let topic_id = Uuid([7; 16]);
        take(&mut former, &MetadataRecord::Topic(TopicRecord { name: "orders".into(), topic_id }));
        let partition = PartitionRecord { partition_id: 0, topic_id, leader_epoch: 5, ..Default::default() };
        take(&mut former, &MetadataRecord::Partition(partition));
        for leader in [-1, 1, NO_CHANGE] {
            let change = PartitionChangeRecord { topic_id, partition_id: 0, leader, ..Default::default() };
            take(&mut former, &MetadataRecord::PartitionChange(change));
        }
        let ids = ProducerIdsRecord { next_producer_id: 3_000, ..Default::default() };
        take(&mut former, &MetadataRecord::ProducerIds(ids));
        [config(None), config(Some("1")), acl(1), acl(2)].iter().for_each(|record| take(&mut former, record));
        [scram("one"), scram("two")].iter().for_each(|record| take(&mut former, record));
        take(&mut former, &other(REMOVE_ACL, &[&[1; 16][..], &[0]].concat()));
        take(&mut former, &other(REMOVE_SCRAM, b"\x04one\x01\0"));
        for (kind, value) in [(ABORT_TRANSACTION, "2"), (END_TRANSACTION, "3")] {
            take(&mut former, &other(BEGIN_TRANSACTION, &[]));
            take(&mut former, &config(Some(value)));
            take(&mut former, &other(kind, &[]));
        }
        former
    }

    #[test]
    fn a_node_that_had_another_life_begins_with_what_it_held_besides_topics() {
        for (golden, speaks, name) in [
            ("4.0/static", 25, BOOTSTRAP_CHECKPOINT),
            ("4.0/static", 33, BOOTSTRAP_CHECKPOINT),
            ("4.0/standalone", 25, BOOTSTRAP_CHECKPOINT),
            ("4.0/standalone", 33, FIRST_SNAPSHOT),
            ("4.4/static", 33, FIRST_SNAPSHOT),
            ("4.4/standalone", 33, FIRST_SNAPSHOT),
        ] {
            let place = Place::new(Some(golden), "");
            let mut former = former(&place, speaks);
            // A transaction that never ended.
            take(&mut former, &other(BEGIN_TRANSACTION, &[]));
            take(&mut former, &config(Some("4")));
            assert_eq!((former.next_producer_id, former.leader_epochs[&(Uuid([7; 16]), 0)]), (3_000, 7));
            let before = place.look();
            let directory = before.directory_id(&place.path(""));
            let made = former.bootstrap(&place.node, directory, 5).unwrap();
            assert!(made.file.ends_with(name), "{golden} {speaks}: {made:?}");
            let records: Vec<_> =
                made.formatted.as_ref().unwrap().values().map(|v| MetadataRecord::decode(v).unwrap()).collect();
            let levels = before.bootstrap.as_ref().unwrap().formatted.as_ref().unwrap().len();
            assert_eq!(records[levels..], [config(Some("3")), acl(2), scram("two")], "{golden}");
            // It is then what a format tool would have left.
            fs::remove_dir_all(place.path(METADATA_LOG)).unwrap();
            fs::remove_file(place.path(BOOTSTRAP_CHECKPOINT)).ok();
            let voters = made.voters.as_ref().map(|(path, snapshot)| (path, snapshot.write()));
            for (path, bytes) in voters.into_iter().chain([(&made.file, made.formatted.as_ref().unwrap().write())]) {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            let after = place.look();
            assert_eq!((after.problems.len(), after.former.is_none()), (0, true), "{golden} {speaks}: {after:?}");
            let after = after.bootstrap.unwrap();
            assert_eq!((&after.file, after.formatted.as_ref()), (&made.file, made.formatted.as_ref()), "{golden}");
        }
    }

    #[test]
    fn a_node_that_was_one_of_several_is_not_laid_out_anew() {
        let place = Place::new(Some("4.4/static"), "");
        let mut former = former(&place, 33);
        take(&mut former, &other(REGISTER_BROKER, &[0, 0, 0, 2]));
        assert!(former.bootstrap(&place.node, None, 5).unwrap_err().to_string().contains("node 2"));
        take(&mut former, &other(UNREGISTER_BROKER, &[0, 0, 0, 2]));
        assert!(former.bootstrap(&place.node, None, 5).is_ok());
        let place = Place::new(Some("4.4/standalone"), "");
        let refused = self::former(&place, 33).bootstrap(&place.node, Some(Uuid([9; 16])), 5).unwrap_err();
        assert!(refused.to_string().contains("only voter"), "{refused}");
    }
}
