//! A pass proves: what stock Kafka formatted a node with is read, and written back with the same bytes; records that its classes
//! serialized are read as they were given, and encoded to the same bytes.

mod common;

use common::golden;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::kraft_records::{
    AccessControlEntryRecord, ClientQuotaEntity, ClientQuotaRecord, ConfigRecord, FeatureLevelRecord, PartitionRecord,
    ProducerIdsRecord, RemoveTopicRecord, TopicRecord, UserScramCredentialRecord,
};
use twinlog_proto::storage::kraft::batch::Batch;
use twinlog_proto::storage::kraft::control::ControlRecord;
use twinlog_proto::storage::kraft::records::{MetadataRecord, partition_version, type_and_version};
use twinlog_proto::storage::kraft::snapshot::Snapshot;
use twinlog_proto::storage::kraft::{BOOTSTRAP_CHECKPOINT, FIRST_SNAPSHOT};
use twinlog_proto::storage::meta_properties::MetaProperties;

const RELEASES: [&str; 5] = ["4.0", "4.1", "4.2", "4.3", "4.4"];

/// Every snapshot that a release's format tool wrote.
fn formatted() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for release in RELEASES {
        for quorum in ["static", "standalone"] {
            for name in [BOOTSTRAP_CHECKPOINT, FIRST_SNAPSHOT] {
                let path = format!("kraft/{release}/{quorum}/{name}");
                if common::golden_path(&path).exists() {
                    files.push((path.clone(), golden(&path)));
                }
            }
        }
    }
    assert_eq!(
        files.len(),
        14,
        "4.4 has no bootstrap.checkpoint, and the others a first snapshot for a dynamic quorum only"
    );
    files
}

fn records(snapshot: &Snapshot) -> Vec<MetadataRecord> {
    snapshot.values().map(|value| MetadataRecord::decode(value).expect("a sound record")).collect()
}

#[test]
fn what_kafka_formatted_is_read_and_written_with_the_same_bytes() {
    for (path, bytes) in formatted() {
        let snapshot = Snapshot::read(&bytes).unwrap_or_else(|cause| panic!("{path}: {cause}"));
        assert_eq!(snapshot.write(), bytes, "{path}");
        for (record, value) in records(&snapshot).iter().zip(snapshot.values()) {
            assert!(matches!(record, MetadataRecord::FeatureLevel(_)), "{path}: {record:?}");
            assert_eq!(record.encode(2).unwrap(), value, "{path}");
        }
    }
}

#[test]
fn a_dynamic_quorum_has_its_voter_in_the_file_and_a_static_one_has_none() {
    for release in RELEASES {
        let folder = format!("kraft/{release}/standalone");
        let snapshot = Snapshot::read(&golden(&format!("{folder}/{FIRST_SNAPSHOT}"))).unwrap();
        let meta = MetaProperties::parse(&golden(&format!("{folder}/meta.properties"))).unwrap();
        let voters = snapshot.voters().expect(release).voters;
        assert_eq!((snapshot.kraft_version(), voters.len(), voters[0].voter_id), (1, 1, 1), "{release}");
        assert_eq!(Some(voters[0].voter_directory_id), meta.directory_id, "{release}");
        let endpoint = &voters[0].endpoints[0];
        assert_eq!((&endpoint.name[..], &endpoint.host[..], endpoint.port), ("CONTROLLER", "127.0.0.1", 9093));
        let name = if release == "4.4" { FIRST_SNAPSHOT } else { BOOTSTRAP_CHECKPOINT };
        let snapshot = Snapshot::read(&golden(&format!("kraft/{release}/static/{name}"))).unwrap();
        assert!(snapshot.voters().is_none() && snapshot.kraft_version() == 0, "{release}");
    }
}

/// The records of `kraft/records-4.4.json`, each with its version.
fn given() -> Vec<(i16, MetadataRecord)> {
    let (orders, other) = (orders(), directory());
    let config = |resource_type, resource_name: &str, name: &str, value: Option<&str>| {
        MetadataRecord::Config(ConfigRecord {
            resource_type,
            resource_name: resource_name.into(),
            name: name.into(),
            value: value.map(Into::into),
        })
    };
    let ids = ProducerIdsRecord { broker_id: -1, broker_epoch: -1, next_producer_id: 1_000_000 };
    let mut all = vec![
        (0, MetadataRecord::FeatureLevel(FeatureLevelRecord { name: "metadata.version".into(), feature_level: 33 })),
        (0, MetadataRecord::ProducerIds(ids)),
        (0, MetadataRecord::Topic(TopicRecord { name: "orders".into(), topic_id: orders })),
        (0, config(2, "orders", "retention.ms", Some("987654321"))),
        (0, config(4, "", "log.retention.ms", None)),
    ];
    all.extend(partitions());
    all.extend(clients());
    all.push((0, MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: other })));
    all.push((0, MetadataRecord::Other { kind: 20, version: 0, body: vec![0] }));
    all
}

fn orders() -> Uuid {
    "OgPTlPLSRv6jUn9CaRPJWg".parse().unwrap()
}

fn directory() -> Uuid {
    "yyK_8z0Fs_WXI05VhDo3gQ".parse().unwrap()
}

/// One in every version, and one with every tag.
fn partitions() -> Vec<(i16, MetadataRecord)> {
    let (orders, other) = (orders(), directory());
    let partition = |partition_id, directories| PartitionRecord {
        partition_id,
        topic_id: orders,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 14,
        partition_epoch: 0,
        directories,
        ..Default::default()
    };
    let tagged = PartitionRecord {
        replicas: vec![1, 2, 300],
        removing_replicas: vec![2],
        adding_replicas: vec![300],
        leader: -1,
        leader_recovery_state: 1,
        leader_epoch: 15,
        partition_epoch: 7,
        eligible_leader_replicas: Some(vec![2]),
        last_known_elr: Some(vec![1]),
        ..partition(1, vec![other, orders, other])
    };
    let all = [(2, partition(0, vec![other])), (2, tagged), (1, partition(2, vec![other])), (0, partition(3, vec![]))];
    all.map(|(version, record)| (version, MetadataRecord::Partition(record))).into()
}

/// What is kept about clients.
fn clients() -> Vec<(i16, MetadataRecord)> {
    let entity = |kind: &str, name: Option<&str>| ClientQuotaEntity {
        entity_type: kind.into(),
        entity_name: name.map(Into::into),
    };
    let quota = ClientQuotaRecord {
        entity: vec![entity("user", Some("alice")), entity("client-id", None)],
        key: "consumer_byte_rate".into(),
        value: 1_048_576.5,
        remove: false,
    };
    let acl = AccessControlEntryRecord {
        id: directory(),
        resource_type: 2,
        resource_name: "orders".into(),
        pattern_type: 3,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    };
    let scram = UserScramCredentialRecord {
        name: "alice".into(),
        mechanism: 1,
        salt: b"salt".into(),
        stored_key: b"stored".into(),
        server_key: b"server".into(),
        iterations: 4096,
    };
    vec![
        (0, MetadataRecord::ClientQuota(quota)),
        (0, MetadataRecord::AccessControlEntry(acl)),
        (0, MetadataRecord::UserScramCredential(scram)),
    ]
}

#[test]
fn records_of_stock_classes_are_read_as_given_and_encoded_to_the_same_bytes() {
    let bytes = golden("kraft/records-4.4.checkpoint");
    let snapshot = Snapshot::read(&bytes).unwrap();
    assert_eq!(snapshot.write(), bytes);
    let (wanted, values) = (given(), snapshot.values().collect::<Vec<_>>());
    assert_eq!(values.len(), wanted.len());
    for ((version, record), value) in wanted.iter().zip(values) {
        assert_eq!(MetadataRecord::decode(value).as_ref(), Ok(record));
        assert_eq!(record.encode(*version).unwrap(), value, "{record:?}");
    }
}

#[test]
fn what_is_put_behind_the_records_of_a_format_leaves_them_and_the_voters_as_they_are() {
    for (path, bytes) in formatted() {
        let mut snapshot = Snapshot::read(&bytes).unwrap();
        let (own, voters) = (snapshot.len(), snapshot.voters());
        let topic = |index: usize| {
            let record = TopicRecord { name: format!("t{index}"), topic_id: Uuid([7; 16]) };
            MetadataRecord::Topic(record).encode(0).unwrap()
        };
        for index in 0..2_500 {
            snapshot.push(1_700_000_000_000, topic(index));
        }
        let again = Snapshot::read(&snapshot.write()).unwrap_or_else(|cause| panic!("{path}: {cause}"));
        assert_eq!((again.len(), again.voters()), (own + 2_500, voters), "{path}");
        assert_eq!(again.values().nth(own + 2_499).unwrap(), topic(2_499));
        snapshot.truncate(own);
        assert_eq!(snapshot.write(), bytes, "{path}");
    }
}

#[test]
fn a_snapshot_of_our_own_is_split_into_batches_of_1000_records_and_1_mib() {
    let mut snapshot = Snapshot::empty(5);
    assert!(snapshot.is_empty());
    let value = |bytes: usize| MetadataRecord::Other { kind: 99, version: 0, body: vec![0; bytes] }.encode(0).unwrap();
    (0..1_001).for_each(|_| snapshot.push(5, value(1)));
    snapshot.push(5, value((1 << 20) - 100));
    snapshot.push(5, value(1 << 21));
    snapshot.push(5, value(1));
    let bytes = snapshot.write();
    assert_eq!(counts(&bytes), [1, 1_000, 2, 1, 1, 1]);
    assert_eq!(Snapshot::read(&bytes), Ok(snapshot));
}

/// Records of each batch.
fn counts(mut bytes: &[u8]) -> Vec<i32> {
    let mut counts = Vec::new();
    while !bytes.is_empty() {
        let batch = Batch::decode(bytes).unwrap();
        counts.push(batch.header.record_count);
        bytes = &bytes[batch.header.size_bytes()..];
    }
    counts
}

#[test]
fn partitions_are_written_in_the_version_of_the_level() {
    assert_eq!([7, 16, 17, 22, 23, 25, 33].map(partition_version), [0, 0, 1, 1, 2, 2, 2]);
}

#[test]
fn the_log_of_a_node_that_was_used_is_read_to_its_end_whatever_records_are_in_it() {
    let bytes = golden("kraft/4.4/used/__cluster_metadata-0/00000000000000000000.log");
    let (mut at, mut next, mut topics) = (0, 0, Vec::new());
    let (mut removed, mut others, mut leaders, mut changes) = (0, 0, 0, 0);
    while at < bytes.len() {
        let batch = Batch::decode(&bytes[at..]).unwrap_or_else(|cause| panic!("byte {at}: {cause}"));
        assert_eq!(batch.header.base_offset, next);
        for entry in batch.entries().map(Result::unwrap) {
            if let Some(key) = entry.key {
                let control = ControlRecord::decode(key, entry.value).unwrap();
                leaders += usize::from(matches!(control, ControlRecord::LeaderChange(_)));
                continue;
            }
            let record = MetadataRecord::decode(entry.value).unwrap();
            let (_, version) = type_and_version(entry.value).unwrap();
            assert_eq!(record.encode(version as i16).unwrap(), entry.value, "{record:?}");
            match record {
                MetadataRecord::Topic(topic) => topics.push(topic.name),
                MetadataRecord::RemoveTopic(_) => removed += 1,
                MetadataRecord::PartitionChange(_) => changes += 1,
                MetadataRecord::Other { .. } => others += 1,
                _ => {}
            }
        }
        (at, next) = (at + batch.header.size_bytes(), batch.header.next_offset());
    }
    assert_eq!((topics.join(" "), removed, leaders), ("kept gone".to_owned(), 1, 1));
    assert!(
        others > 0 && changes > 0,
        "registrations and what keeps time; the end of the partitions of a stopped broker"
    );
}
