//! A pass proves: a node that nobody formatted, or that `kafka-storage format` did for a static or a dynamic quorum, serves topics whose
//! directories were put into its log directories, after its metadata was laid out by us and by no tool of Kafka: with their ids, settings,
//! records and transactions, at a higher leader epoch, with access rules, and giving out the producer ids that come next. On the oldest
//! release and on the newest, on one log directory and on two.

use controlplane::clock::now_ms;
use controlplane::handover::identity::{self, Identity, IdentityPartition, IdentityTopic};
use controlplane::handover::layout::{self, Asked, Layout};
use controlplane::random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use twinlog_proto::messages::kraft_records::{ClientQuotaEntity, ClientQuotaRecord, UserScramCredentialRecord};
use twinlog_proto::security::acl::AclBinding;
use twinlog_proto::security::codes::{Operation, PatternType, Permission, ResourceType};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::{Oracle, Seen};
use twinlog_tests::{place, standby};

const OLDEST: &str = "4.0.2";
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 2;
const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
/// What the nodes give out first: the thousandth above a million.
const NEXT_PRODUCER_ID: i64 = 1_007_000;
/// Above the epochs of the source.
const LEADER_EPOCH: i32 = 14;
/// Producer ids, topic, two settings, two partitions, access rule, quota, credential.
const OURS: usize = 9;

/// What was made at the source.
struct Source {
    data: PathBuf,
    id: String,
    seen: Vec<Vec<Seen>>,
}

#[test]
fn genesis_by_us_alone_makes_a_stock_node_serve_prepared_directories() {
    let _turn = place::turn();
    let scratch = place::scratch("genesis");
    let mut oracle = Oracle::start();
    let source = make_source(&scratch.path().join("source"), &mut oracle);
    let node = |name: &str| {
        let dir = scratch.path().join(name);
        let first = dir.join("data");
        (Spec::new(dir), first)
    };
    let (spec, first) = node("oldest");
    let mut broker = serves(spec.version(OLDEST).unformatted(), &[first], 3, &source, &mut oracle);
    starts_again(&mut broker, &source, &mut oracle);
    let (spec, first) = node("newest");
    let dirs = [first.clone(), first.with_file_name("second")];
    drop(serves(spec.unformatted().log_dirs(dirs.to_vec()), &dirs, 3, &source, &mut oracle));
    let (spec, first) = node("formatted");
    drop(serves(spec, &[first], 6, &source, &mut oracle));
    let (spec, first) = node("standalone");
    let mut broker = serves(spec.standalone(), &[first], 6, &source, &mut oracle);
    starts_again(&mut broker, &source, &mut oracle);
}

/// Two partitions with records, a committed and an aborted transaction, and two leader epochs.
fn make_source(dir: &Path, oracle: &mut Oracle) -> Source {
    let mut broker = Broker::start(Spec::new(dir));
    let boot = broker.address();
    let id = oracle.create(&boot, TOPIC, PARTITIONS, &json!({"retention.ms": "987654321", "segment.bytes": "1048576"}));
    oracle.produce(&boot, TOPIC, json!({"partitions": PARTITIONS, "count": 40, "codec": "zstd"}));
    broker.restart();
    oracle.produce(&boot, TOPIC, json!({"partitions": PARTITIONS, "count": 20, "txn": "a", "end": "commit"}));
    oracle.produce(&boot, TOPIC, json!({"partitions": PARTITIONS, "count": 20, "txn": "b", "end": "abort"}));
    let seen = LEVELS.map(|level| oracle.read(&boot, &[TOPIC], level)).into();
    broker.stop();
    Source { data: dir.join("data"), id, seen }
}

/// Lays out a node on copies of the source's directories, one after the other in `dirs`, starts it and looks at what it serves; `levels`
/// are the records that are in the file besides ours. The node is stopped afterwards.
fn serves(spec: Spec, dirs: &[PathBuf], levels: usize, source: &Source, oracle: &mut Oracle) -> Broker {
    let spec = spec
        .property("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .property("super.users", "User:ANONYMOUS");
    let mut broker = Broker::prepare(spec);
    let records = lay_out(&broker, dirs, source);
    assert_eq!(records, levels + OURS);
    for dir in dirs {
        std::fs::write(dir.join(".kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":-1}"#).expect("the marker");
    }
    standby::resume(&mut broker, &dirs[0], records);
    let boot = broker.address();
    let found = oracle.ask(&json!({"do": "describe", "boot": boot, "topics": [TOPIC]}));
    assert_eq!(found[0]["id"], source.id.as_str());
    let partitions = found[0]["partitions"].as_array().expect("partitions");
    assert!(partitions.len() == 2 && partitions.iter().all(|p| p["leader"] == 1), "{found}");
    let settings = oracle.ask(&json!({"do": "own-settings", "boot": boot, "topic": TOPIC}));
    assert_eq!(settings, json!({"retention.ms": "987654321", "segment.bytes": "1048576"}));
    assert_eq!(oracle.ask(&json!({"do": "list-acls", "boot": boot})), rule());
    assert_eq!(LEVELS.map(|level| oracle.read(&boot, &[TOPIC], level)).to_vec(), source.seen);
    for index in 0..PARTITIONS {
        oracle.produce(&boot, TOPIC, json!({"partition": index, "count": 1, "idempotent": true}));
    }
    broker.stop();
    for index in 0..PARTITIONS {
        let log = Log::read(&broker.partition_dir(TOPIC, index)).expect("a sound log");
        let last = log.batches().last().expect("a batch");
        assert_eq!(last.producer_id, NEXT_PRODUCER_ID + i64::from(index));
        assert!(last.epoch > LEADER_EPOCH, "epoch {}", last.epoch);
    }
    broker
}

/// What the node has of its own after its first stop serves the next start as well.
fn starts_again(broker: &mut Broker, source: &Source, oracle: &mut Oracle) {
    broker.resume();
    let found = oracle.ask(&json!({"do": "describe", "boot": broker.address(), "topics": [TOPIC]}));
    assert_eq!(found[0]["id"], source.id.as_str());
    let ends = oracle.offsets(&broker.address(), TOPIC);
    let before = &source.seen[0];
    for ((_, end, _), seen) in ends.iter().zip(before) {
        assert_eq!(*end, seen.end + 1, "one record was produced to each partition");
    }
    broker.stop();
}

/// Names of the codes as stock clients show them.
fn rule() -> Value {
    json!(["TOPIC:orders:LITERAL:User:alice:READ:ALLOW"])
}

/// Puts the directories in place and writes the metadata, twice as after a kill; gives the number of records.
fn lay_out(broker: &Broker, dirs: &[PathBuf], source: &Source) -> usize {
    let node = layout::read_node(&broker.dir().join("server.properties")).unwrap_or_else(|all| panic!("{all:?}"));
    let asked = Asked::default();
    identity::format(&node, &Layout::look(&node, &asked), &asked).unwrap_or_else(|problem| panic!("{problem}"));
    let partition = |index: i32| {
        let directory = dirs[index as usize % dirs.len()].clone();
        let name = format!("{TOPIC}-{index}");
        place::copy_folder(&source.data.join(&name), &directory.join(name));
        IdentityPartition { index, leader_epoch: LEADER_EPOCH, directory }
    };
    let topic = IdentityTopic {
        name: TOPIC.into(),
        id: source.id.parse().expect("an id"),
        configs: BTreeMap::from([
            ("retention.ms".into(), "987654321".into()),
            ("segment.bytes".into(), "1048576".into()),
        ]),
        partitions: (0..PARTITIONS).map(partition).collect(),
    };
    let identity = Identity { next_producer_id: NEXT_PRODUCER_ID, topics: vec![topic], ..clients() };
    let keep = broker.dir().join("kept");
    let mut records = 0;
    for _attempt in 0..2 {
        let layout = Layout::look(&node, &asked);
        assert!(layout.problems.is_empty(), "{:?}", layout.problems);
        let file = identity::build(&node, &layout, &identity, now_ms(), random::uuid);
        let file = file.unwrap_or_else(|problem| panic!("{problem}"));
        identity::write(&file, &keep).unwrap_or_else(|problem| panic!("{problem}"));
        records = file.records;
    }
    records
}

/// What the node is to know about clients.
fn clients() -> Identity {
    let acl = AclBinding {
        resource_type: ResourceType::Topic,
        resource_name: TOPIC.into(),
        pattern_type: PatternType::Literal,
        principal: "User:alice".into(),
        host: "*".into(),
        operation: Operation::Read,
        permission: Permission::Allow,
    };
    let quota = ClientQuotaRecord {
        entity: vec![ClientQuotaEntity { entity_type: "user".into(), entity_name: Some("alice".into()) }],
        key: "consumer_byte_rate".into(),
        value: 1_048_576.0,
        remove: false,
    };
    let scram = UserScramCredentialRecord {
        name: "alice".into(),
        mechanism: 1,
        salt: vec![1; 16],
        stored_key: vec![2; 32],
        server_key: vec![3; 32],
        iterations: 4096,
    };
    Identity { acls: vec![acl], quotas: vec![quota], scram: vec![scram], ..Identity::default() }
}
