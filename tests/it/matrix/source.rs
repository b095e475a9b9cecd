//! The source of a column: a stock broker with everything that a hand-over may lose, and what its clients see there.

use super::clients::{self, Group};
use super::column::{Column, Mode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use twinlog_tests::copy::{self, Extent};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::{self, Oracle};
use twinlog_tests::process::until;
use twinlog_tests::relay::Relay;

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Isolation levels of readers.
pub(super) const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
/// Topics with their partitions. Records of many producers; plain batches of two leader epochs; every codec; stamped by the broker; cleaned; cut within a batch;
/// transactions; producers that go on; groups; segments of ten days.
pub(super) const TOPICS: [(&str, i32); 11] = [
    ("singles", 1),
    ("plain", 2),
    ("packed", 2),
    ("stamped", 1),
    ("compacted", 1),
    ("trimmed", 1),
    ("paid", 2),
    ("steady", 1),
    ("grouped", 1),
    ("shared", 1),
    ("aged", 1),
];
/// Records of the first batches of `trimmed`; its log starts inside the second one.
pub(super) const TRIMMED_AT: i64 = 15;
/// Records of `shared`.
pub(super) const SHARED: i64 = 60;
/// How many new producers write a record each, at the source and later.
pub(super) const PRODUCERS: i64 = 16;
/// A transactional id whose producer lives on.
pub(super) const LIVING: &str = "living";
/// A topic of which the source has old segments in remote storage alone.
pub(super) const TIERED: &str = "tiered";
const HOUR_MS: i64 = 3_600_000;
/// Retention that removes a part of `aged`.
pub(super) const RETENTION_MS: i64 = 5 * 24 * HOUR_MS;

/// The source.
pub(super) struct Source {
    /// Its broker.
    pub(super) broker: Broker,
    /// Its address.
    pub(super) boot: String,
    /// An address that leads here until it moves: what a client is given that must live on.
    pub(super) name: Relay,
    /// How long a producer that lives on tries to write.
    pub(super) delivery_ms: u32,
    /// About now; times of records and of lookups are told from it, so that they are the same at both ends.
    pub(super) base_ms: i64,
}

/// What is there to be found again.
#[derive(Debug)]
pub(super) struct Before {
    /// Ids of the topics.
    pub(super) ids: BTreeMap<String, String>,
    /// Log starts and ends.
    pub(super) extents: Vec<Extent>,
    /// Ends of the partitions of `paid` for readers of committed records.
    pub(super) stable: Vec<i64>,
    /// What readers of both levels get.
    pub(super) seen: Value,
    /// Lookups by time.
    pub(super) times: Value,
    /// The last record of each key of `compacted`.
    pub(super) latest: Value,
    /// What a reader gets of the topic in remote storage.
    pub(super) tiered: Value,
    /// Settings of the topics.
    pub(super) settings: BTreeMap<String, Value>,
    /// Access rules.
    pub(super) acls: Value,
    /// Quotas.
    pub(super) quotas: Value,
    /// Groups.
    pub(super) groups: Vec<Group>,
    /// Records of `shared` that the share group has accepted; none when the release has no share groups.
    pub(super) accepted: Option<Vec<i64>>,
}

/// The names of all topics.
pub(super) fn names() -> [&'static str; TOPICS.len()] {
    TOPICS.map(|(name, _)| name)
}

/// Settings that a topic has.
fn settings(topic: &str) -> Value {
    // What holds for this one its brokers say.
    if topic == "singles" {
        return json!({});
    }
    let mut all = json!({"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "2000000"});
    let more = match topic {
        "stamped" => json!({"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"}),
        "compacted" => json!({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"}),
        "aged" => json!({"segment.ms": (24 * HOUR_MS).to_string()}),
        TIERED => json!({"remote.storage.enable": "true", "local.retention.ms": "1000", "segment.ms": "500"}),
        _ => json!({}),
    };
    all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    all
}

/// Now, ms since 1970.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_millis()).expect("a time of this age")
}

/// A node of the column's release, as both ends have it: with access rules, and few partitions of internal topics.
pub(super) fn spec(column: Column, dir: &Path) -> Spec {
    Spec::new(dir)
        .version(column.release)
        .property("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
        .property("super.users", "User:ANONYMOUS")
        // One that was killed may come back when its session is over.
        .property("broker.session.timeout.ms", "4000")
        .property("broker.heartbeat.interval.ms", "500")
        .property("share.coordinator.state.topic.num.partitions", "4")
}

/// The source's: with remote storage besides, and a retention that the other node does not have.
fn with_remote_storage(spec: Spec, dir: &Path) -> Spec {
    let plugin = format!("{}/", oracle::compiled().display());
    let remote = dir.join("remote").display().to_string();
    [
        ("log.retention.hours", "1000"),
        ("remote.log.storage.system.enable", "true"),
        ("remote.log.storage.manager.class.name", "Tiered"),
        ("remote.log.storage.manager.class.path", plugin.as_str()),
        ("rsm.config.dir", remote.as_str()),
        ("remote.log.metadata.manager.listener.name", "PLAINTEXT"),
        ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "1"),
        ("remote.log.manager.task.interval.ms", "500"),
    ]
    .into_iter()
    .fold(spec, |spec, (key, value)| spec.property(key, value))
}

impl Source {
    /// A source that has it all, of the column's release.
    pub(super) fn new(column: Column, dir: &Path, oracle: &mut Oracle) -> Self {
        let broker = Broker::start(with_remote_storage(spec(column, dir), dir));
        let (boot, base_ms) = (broker.address(), now_ms());
        let name = Relay::to(&boot);
        let delivery_ms = match column.mode {
            Mode::Standby => 120_000,
            // One in transactions tries in vain.
            Mode::Adopt => 12_000,
        };
        let mut source = Self { broker, boot, name, delivery_ms, base_ms };
        for (topic, partitions) in TOPICS.into_iter().chain([(TIERED, 1)]) {
            oracle.create(&source.boot, topic, partitions, &settings(topic));
        }
        source.first_epoch(oracle);
        source.broker.restart();
        source.second_epoch(oracle);
        source.is_cleaned(oracle);
        source
    }

    fn first_epoch(&self, oracle: &mut Oracle) {
        let boot = &self.boot;
        // The first ids of all, which a cluster that counts anew would give out again.
        let fresh =
            json!({"do": "fresh", "boot": boot, "topic": "singles", "producers": PRODUCERS, "prefix": "before"});
        oracle.ask(&fresh);
        oracle.produce(
            boot,
            "plain",
            json!({"partitions": 2, "count": 100, "perBatch": 10, "time": self.base_ms - 600_000}),
        );
        oracle.produce(boot, "compacted", json!({"count": 200, "perBatch": 10, "keys": 23, "valueBytes": 40}));
        oracle.produce(boot, "trimmed", json!({"count": 40, "perBatch": 10}));
        oracle.produce(boot, TIERED, json!({"count": 40, "perBatch": 10}));
        oracle.produce(boot, "grouped", json!({"count": 50, "perBatch": 10}));
        // Six hours between records, and half of that besides: no border of a segment lies where retention looks.
        let aged = json!({"count": 40, "perBatch": 2, "time": self.base_ms - 243 * HOUR_MS, "timeStep": 6 * HOUR_MS});
        oracle.produce(boot, "aged", aged);
    }

    fn second_epoch(&self, oracle: &mut Oracle) {
        let boot = &self.boot;
        oracle.produce(
            boot,
            "plain",
            json!({"partitions": 2, "count": 60, "perBatch": 5, "time": self.base_ms - 300_000}),
        );
        for codec in ["gzip", "snappy", "lz4", "zstd"] {
            let more = json!({"partitions": 2, "count": 40, "perBatch": 10, "codec": codec, "mixed": true});
            oracle.produce(boot, "packed", more);
        }
        oracle.produce(boot, "stamped", json!({"count": 30, "perBatch": 10, "time": 1_000_000}));
        // Rolls the segment, so that a cleaner may look at it.
        for topic in ["compacted", TIERED] {
            oracle.produce(boot, topic, json!({"count": 20, "perBatch": 10, "keys": 7, "valueBytes": 40}));
        }
        oracle.produce(boot, "grouped", json!({"count": 50, "perBatch": 10}));
        oracle.produce(boot, "shared", json!({"count": SHARED, "perBatch": 10}));
        for (txn, end) in [("one", "commit"), ("two", "abort"), ("three", "open")] {
            oracle.produce(boot, "paid", json!({"partitions": 2, "count": 40, "perBatch": 5, "txn": txn, "end": end}));
        }
        for txn in [None, Some(LIVING)] {
            clients::lives(oracle, self.name.address(), txn, self.delivery_ms).unwrap_or_else(|why| panic!("{why}"));
        }
        oracle.ask(&json!({"do": "delete-records", "boot": boot, "topic": "trimmed", "before": TRIMMED_AT}));
    }

    /// Waits until the cleaner has left gaps, and holds it off what remains; and until old segments lie in remote storage.
    fn is_cleaned(&self, oracle: &mut Oracle) {
        let dir = self.broker.partition_dir("compacted", 0);
        until("the source's cleaner leaves gaps", LIMIT, || match Log::read(&dir) {
            Ok(log) if log.gaps() > 0 => Ok(()),
            Ok(log) => Err(format!("{} offsets, no gap", log.end())),
            Err(why) => Err(why), // a segment is being replaced
        });
        let held = json!({"min.compaction.lag.ms": "86400000"});
        oracle.ask(&json!({"do": "settings", "boot": self.boot, "topic": "compacted", "set": held}));
        until("old segments are in remote storage alone", LIMIT, || {
            let local =
                Log::read(&self.broker.partition_dir(TIERED, 0))?.segments.first().map_or(0, |first| first.base);
            if local > 0 { Ok(()) } else { Err("the log still has them".to_owned()) }
        });
    }

    /// What clients see now.
    pub(super) fn look(&self, oracle: &mut Oracle) -> Before {
        let boot = &self.boot;
        let groups = clients::groups(oracle, boot);
        let accepted = clients::accepted(oracle, boot);
        clients::rules_and_quotas(oracle, boot);
        let told = oracle.ask(&json!({"do": "describe", "boot": boot, "topics": names()}));
        let text = |v: &Value| v.as_str().expect("a text").to_owned();
        let ids = told.as_array().expect("topics").iter().map(|t| (text(&t["topic"]), text(&t["id"]))).collect();
        let stable = oracle.offsets(boot, "paid").iter().map(|(_, _, stable)| *stable).collect();
        Before {
            ids,
            stable,
            extents: copy::extents(oracle, boot, &names()),
            seen: seen(oracle, boot, None),
            times: self.times(oracle, boot),
            latest: latest(oracle, boot, None),
            tiered: oracle.ask(&json!({"do": "read", "boot": boot, "topics": [TIERED]}))[0].take(),
            settings: settings_of(oracle, boot),
            acls: oracle.ask(&json!({"do": "list-acls", "boot": boot})),
            quotas: oracle.ask(&json!({"do": "quotas", "boot": boot})),
            groups,
            accepted,
        }
    }

    /// Lookups at `boot` by times that fall into the records, and of the largest time of each partition. The marker that ends an open
    /// transaction has a time of its own.
    pub(super) fn times(&self, oracle: &mut Oracle, boot: &str) -> Value {
        let times = [-599_950, -300_000, -299_990, 0].map(|back| self.base_ms + back);
        let topics: Vec<&str> = names().into_iter().filter(|name| *name != "paid").collect();
        oracle.ask(&json!({"do": "times", "boot": boot, "topics": topics, "times": times}))
    }
}

/// Folder names with ends, for requests that leave out what is behind.
fn ends(extents: Option<&[Extent]>) -> BTreeMap<String, i64> {
    extents.unwrap_or_default().iter().map(|e| (e.folder(), e.end)).collect()
}

/// What readers of both levels get from `boot`, up to the ends of `extents`.
pub(super) fn seen(oracle: &mut Oracle, boot: &str, extents: Option<&[Extent]>) -> Value {
    let before = ends(extents);
    let ask = |level| json!({"do": "read", "boot": boot, "topics": names(), "isolation": level, "before": before});
    LEVELS.iter().map(|level| oracle.ask(&ask(level))).collect()
}

/// The last record of each key of `compacted`, as a cleaner leaves them.
pub(super) fn latest(oracle: &mut Oracle, boot: &str, extents: Option<&[Extent]>) -> Value {
    oracle.ask(&json!({"do": "latest", "boot": boot, "topic": "compacted", "before": ends(extents)}))
}

/// The settings that hold for the topics, made on them or not.
pub(super) fn settings_of(oracle: &mut Oracle, boot: &str) -> BTreeMap<String, Value> {
    let of = |topic: &str| oracle.ask(&json!({"do": "own-settings", "boot": boot, "topic": topic, "all": true}));
    names().into_iter().map(str::to_owned).zip(names().map(of)).collect()
}
