//! A pass proves: what a topic's settings come to at the source they come to at the broker that it is handed over to, whoever set them: the
//! topic, the source's broker, or Kafka itself; also when the source is gone by then and the new broker's own settings would have thrown
//! the records away at once.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

use super::world::{LIMIT, Started, text};

/// What decides about records.
const SETTINGS: [&str; 17] = [
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
];
/// Of the source's broker.
const AT_SOURCE: [(&str, &str); 4] = [
    ("log.retention.hours", "48"),
    ("log.segment.bytes", "2097152"),
    ("log.message.timestamp.before.max.ms", "9000000000000"),
    ("compression.type", "zstd"),
];
/// Of the other one, by which nothing would last for more than a moment, and nobody could write.
const AT_NODE: [(&str, &str); 6] = [
    ("log.retention.ms", "1000"),
    ("log.retention.bytes", "1"),
    ("log.cleanup.policy", "compact,delete"),
    ("message.max.bytes", "100000"),
    ("log.message.timestamp.type", "LogAppendTime"),
    ("min.insync.replicas", "2"),
];
/// Whom, as the tool wants it, and how much.
const QUOTAS: [(&[&str], &str); 4] = [
    (&["--entity-type", "users", "--entity-name", "alice"], "producer_byte_rate=1048576"),
    (&["--entity-type", "clients", "--entity-default"], "producer_byte_rate=99999999"),
    (
        &["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "app"],
        "consumer_byte_rate=2097152",
    ),
    (&["--entity-type", "ips", "--entity-name", "10.0.0.1"], "connection_creation_rate=50"),
];
const TOPICS: [&str; 3] = ["bare", "made", "stamped"];
const RECORDS: i64 = 50;
/// Retention is looked at every second there.
const RETENTION_TIME: Duration = Duration::from_secs(4);

#[test]
fn a_topic_has_at_its_new_broker_what_it_had_at_the_source_whoever_set_it() {
    let _turn = place::turn();
    let scratch = place::scratch("promote-settings");
    let with = |dir: &str, settings: &[(&str, &str)]| {
        settings.iter().fold(Spec::new(scratch.path().join(dir)), |spec, (key, value)| spec.property(key, value))
    };
    let mut source = Broker::start(with("source", &AT_SOURCE));
    let (boot, mut oracle) = (source.address(), Oracle::start());
    let made = json!({"retention.ms": "987654321", "cleanup.policy": "compact", "max.message.bytes": "3000000"});
    let stamped = json!({"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"});
    for (topic, config) in TOPICS.into_iter().zip([json!({}), made, stamped]) {
        oracle.create(&boot, topic, 1, &config);
        oracle.produce(&boot, topic, json!({"count": RECORDS, "perBatch": 10}));
    }
    has_limits(&source);
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    // Asked for by hand only, so that what would be taken over is still to be seen.
    site.mirror_with("dr", &boot, &TOPICS, &["mirror.sync.quotas.interval.ms=0"]);
    let dry = site.cli(&["mirrors", "sync", "dr", "--what", "quotas", "--dry-run", "--json"]).done();
    assert!(dry.contains("client-id=<default>") && dry.contains("producer_byte_rate"), "{dry}");
    site.cli(&["mirrors", "sync", "dr", "--what", "configs", "--what", "quotas"]).done();
    until("the mirror has everything", LIMIT, || {
        let described = site.ask(&["mirrors", "describe", "dr"]);
        let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
        let whole = |topic: &Value| topic["partitions"][0]["flushedOffset"] == RECORDS;
        if topics.iter().filter(|topic| whole(topic)).count() == TOPICS.len() {
            Ok(())
        } else {
            Err(described.to_string())
        }
    });
    let (wanted, limits) = (settings(&source), quotas(&source));
    source.stop();

    let node = Broker::prepare(with("node", &AT_NODE).unformatted());
    let (to, state, start) = (text(&node.dir().join("server.properties")), text(&site.state()), node.start_command());
    let promote = ["promote", "dr", "--to", &to, "--state", &state, "--timeout", "5s", "--json"];
    let judged = site.cli(&[&promote[..], &["--dry-run"]].concat()).json();
    let told = judged["carriedSettings"].as_array().cloned().unwrap_or_default();
    let retention = told.iter().find(|setting| setting["name"] == "retention.ms").expect("retention.ms is carried");
    let expected = json!({"name": "retention.ms", "value": "172800000", "insteadOf": "1000", "topics": 2,
        "from": "the source broker's default"});
    assert_eq!(*retention, expected, "{judged}");
    let warned = judged["warnings"].as_array().into_iter().flatten();
    assert!(warned.clone().any(|found| found["what"].as_str().is_some_and(|what| what.contains("bob"))), "{judged}");
    let report = site.cli(&[&promote[..], &["--start", "--start-command", &start]].concat()).json();
    let broker = Started::by(&report);
    assert_eq!(report["checked"]["ok"], true, "{report}");
    assert_eq!(report["topics"][0]["carried"]["retention.ms"]["value"], "172800000", "{report}");

    assert_eq!((settings(&node), quotas(&node)), (wanted, limits));
    sleep(RETENTION_TIME);
    for topic in TOPICS {
        assert_eq!(oracle.offsets(&node.address(), topic), [(0, RECORDS, RECORDS)], "{topic}");
        let sent = oracle.produce(&node.address(), topic, json!({"count": 1}));
        assert_eq!(sent[0]["first"], RECORDS, "{topic}");
    }
    broker.stop();
    house.down();
}

/// The source holds clients to [`QUOTAS`], and a user has a password.
fn has_limits(source: &Broker) {
    for (entity, quota) in QUOTAS {
        let _made = source.tool("configs", &[&["--alter", "--add-config", quota][..], entity].concat());
    }
    let password = [
        "--alter",
        "--add-config",
        "SCRAM-SHA-512=[password=secret]",
        "--entity-type",
        "users",
        "--entity-name",
        "bob",
    ];
    let _made = source.tool("configs", &password);
}

/// The quotas of [`QUOTAS`] as stock Kafka's own tool tells them.
fn quotas(broker: &Broker) -> Vec<String> {
    let of = |(entity, quota): (&[&str], &str)| {
        let told = broker.tool("configs", &[&["--describe"][..], entity].concat());
        let key = quota.split('=').next().unwrap_or_default();
        assert!(told.contains(key), "{told}");
        told
    };
    QUOTAS.into_iter().map(of).collect()
}

/// What the settings of the topics come to, as stock Kafka's own tool tells.
fn settings(broker: &Broker) -> BTreeMap<&'static str, BTreeMap<String, String>> {
    let of = |topic: &'static str| {
        let told = broker.tool("configs", &["--describe", "--all", "--entity-type", "topics", "--entity-name", topic]);
        let pair = |line: &str| {
            let (name, rest) = line.trim().split_once('=')?;
            let (value, _) = rest.split_once(" sensitive=")?;
            SETTINGS.contains(&name).then(|| (name.to_owned(), value.to_owned()))
        };
        let all: BTreeMap<String, String> = told.lines().filter_map(pair).collect();
        assert_eq!(all.len(), SETTINGS.len(), "{told}");
        (topic, all)
    };
    TOPICS.into_iter().map(of).collect()
}
