//! The wild source: topics that hold everything a mirror may meet, made by stock clients on a stock broker, once; scenarios start a
//! broker on a copy of its folders.

use crate::kafka::{Broker, Spec};
use crate::kafka_log::Log;
use crate::oracle::Oracle;
use crate::place;
use crate::process::until;
use crate::standby::Expected;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A made source is used again for this long: its open transactions time out after a day.
const FRESH: Duration = Duration::from_secs(6 * 3600);
const CLEANER_LIMIT: Duration = Duration::from_secs(60);
/// Batch of the `huge` topic: twenty records of one million bytes.
const HUGE_RECORDS: i64 = 20;

/// The topics and their partition counts.
pub const TOPICS: [(&str, i32); 15] = [
    ("codecs", 5),
    ("plain", 1),
    ("idempotent", 2),
    ("transactions", 2),
    ("compacted", 1),
    ("trimmed", 1),
    ("trimmed-segments", 1),
    ("emptied", 1),
    ("epochs", 2),
    ("empty", 2),
    ("singles", 1),
    ("huge", 1),
    ("many", 64),
    ("rolled", 2),
    ("append-time", 1),
];

/// Names of [`TOPICS`].
#[must_use]
pub fn names() -> Vec<&'static str> {
    TOPICS.iter().map(|(name, _)| *name).collect()
}

/// Starts a stock broker in `dir` on a copy of the wild source.
#[must_use]
pub fn broker(dir: &Path) -> Broker {
    place::copy_folder(&fixture().join("data"), &dir.join("data"));
    Broker::start(Spec::new(dir))
}

/// Folder of the made source, a stopped broker's.
#[must_use]
pub fn fixture() -> PathBuf {
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = place::target().join("fixtures").join(format!("wild-{}", place::KAFKA_VERSION));
    let complete = dir.join("complete");
    let made = complete.metadata().and_then(|m| m.modified()).ok();
    let recipe = ["tests/src/wild.rs", "tests/java/Produce.java"].map(|f| place::repository().join(f));
    let changed = recipe.iter().filter_map(|f| f.metadata().ok()?.modified().ok()).max();
    let fresh = made.is_some_and(|m| m.elapsed().is_ok_and(|age| age < FRESH) && Some(m) > changed);
    if !fresh {
        std::fs::remove_dir_all(&dir).ok();
        make(&dir);
        std::fs::write(&complete, "").expect("the fixture is marked complete");
    }
    dir
}

struct Maker {
    broker: Broker,
    oracle: Oracle,
    boot: String,
}

fn make(dir: &Path) {
    let broker = Broker::start(Spec::new(dir));
    let boot = broker.address();
    let mut maker = Maker { broker, oracle: Oracle::start(), boot };
    maker.create_all();
    maker.codecs();
    maker.small_ones();
    maker.transactions();
    maker.compacted();
    maker.trimmed();
    maker.rolled_and_huge();
    maker.epochs();
    maker.left_open();
    let Maker { mut broker, oracle, .. } = maker;
    drop(oracle); // killed, not closed: the transaction stays open
    broker.stop();
}

impl Maker {
    fn produce(&mut self, topic: &str, request: Value) {
        self.oracle.produce(&self.boot, topic, request);
    }

    fn create_all(&mut self) {
        for (topic, partitions) in TOPICS {
            let config = first_config(topic);
            self.oracle.create(&self.boot, topic, partitions, &config);
        }
    }

    /// One codec a partition; headers, tombstones, null keys.
    fn codecs(&mut self) {
        for (partition, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].iter().enumerate() {
            let request = json!({"partition": partition, "count": 400, "perBatch": 23, "codec": codec, "mixed": true, "valueBytes": 300});
            self.produce("codecs", request);
        }
    }

    fn small_ones(&mut self) {
        self.produce("plain", json!({"count": 200, "perBatch": 20, "idempotent": false}));
        for seed in 1..4 {
            self.produce(
                "idempotent",
                json!({"partitions": 2, "count": 120, "perBatch": 10, "seed": seed, "codec": "lz4"}),
            );
        }
        self.produce("singles", json!({"count": 300, "perBatch": 1}));
        self.produce("many", json!({"partitions": 64, "count": 3840, "perBatch": 10, "valueBytes": 200}));
        self.produce("append-time", json!({"count": 100, "perBatch": 10, "time": 1_500_000_000_000_i64}));
    }

    /// Committed, aborted, two at once that end in the other order, aborted over several batches.
    fn transactions(&mut self) {
        let each = |txn: &str, end: &str| json!({"partitions": 2, "count": 40, "perBatch": 5, "txn": txn, "end": end});
        self.produce("transactions", each("one", "commit"));
        self.produce("transactions", each("two", "abort"));
        self.produce("transactions", each("three", "open"));
        self.produce("transactions", each("four", "open"));
        self.produce("transactions", json!({"partitions": 2, "count": 20, "perBatch": 5}));
        self.oracle.ask(&json!({"do": "end", "txn": "four", "end": "abort"}));
        self.oracle.ask(&json!({"do": "end", "txn": "three", "end": "abort"}));
        self.produce("transactions", each("one", "commit"));
    }

    /// Lets the stock cleaner make gaps, then keeps it from going on, so that the source holds still while it is copied.
    fn compacted(&mut self) {
        let time = now_ms() - 3_600_000;
        let mut request = json!({"count": 600, "perBatch": 10, "keys": 25, "mixed": true, "nullKeys": false, "time": time, "timeStep": 100});
        let once = json!({"count": 40, "perBatch": 10, "keys": 40, "mixed": true, "nullKeys": false, "time": time - 60_000, "timeStep": 100});
        self.produce("compacted", once); // keys 25 to 39 are never written again: they stay, with a wide gap behind them
        self.produce("compacted", request.clone());
        let dir = self.broker.partition_dir("compacted", 0);
        until("the cleaner makes gaps", CLEANER_LIMIT, || match Log::read(&dir) {
            Ok(log) if log.gaps() > 300 => Ok(()),
            Ok(log) => Err(format!("{} offsets missing", log.gaps())),
            Err(why) => Err(why),
        });
        self.oracle
            .ask(&json!({"do": "alter", "boot": self.boot, "topic": "compacted", "config": config("compacted")}));
        std::thread::sleep(Duration::from_secs(2)); // a pass that has begun ends
        request["time"] = now_ms().into();
        request["count"] = 50.into();
        self.produce("compacted", request);
    }

    fn trimmed(&mut self) {
        let old = now_ms() - 3_600_000;
        self.produce("trimmed", json!({"count": 100, "perBatch": 10}));
        self.produce("trimmed-segments", json!({"count": 200, "perBatch": 10, "time": old, "timeStep": 100}));
        self.produce("emptied", json!({"count": 30, "perBatch": 10}));
        for (topic, before) in [("trimmed", 45), ("trimmed-segments", 105), ("emptied", 30)] {
            self.oracle.ask(&json!({"do": "delete-records", "boot": self.boot, "topic": topic, "before": before}));
        }
        let dir = self.broker.partition_dir("trimmed-segments", 0);
        until("the broker deletes old segments", CLEANER_LIMIT, || match Log::read(&dir) {
            Ok(log) if log.segments.first().is_some_and(|s| s.base == 100) => Ok(()),
            Ok(log) => Err(format!("first segment {:?}", log.segments.first().map(|s| s.base))),
            Err(why) => Err(why),
        });
    }

    fn rolled_and_huge(&mut self) {
        let request =
            json!({"partitions": 2, "count": 6000, "perBatch": 40, "valueBytes": 1000, "incompressible": true});
        self.produce("rolled", request);
        let small = json!({"count": 20, "perBatch": 10});
        let huge = json!({"count": HUGE_RECORDS, "perBatch": HUGE_RECORDS, "valueBytes": 1_000_000, "incompressible": true, "batchBytes": 24_000_000});
        self.produce("huge", small.clone());
        self.produce("huge", huge);
        self.produce("huge", small);
    }

    /// Every restart raises the leader epoch.
    fn epochs(&mut self) {
        for round in 0..3 {
            self.produce("epochs", json!({"partitions": 2, "count": 60, "perBatch": 5, "seed": round}));
            if round < 2 {
                self.broker.restart();
            }
        }
    }

    /// An open transaction, with records of others behind it.
    fn left_open(&mut self) {
        self.produce(
            "transactions",
            json!({"partition": 0, "count": 20, "perBatch": 5, "txn": "left-open", "end": "open"}),
        );
        self.produce("transactions", json!({"partitions": 2, "count": 20, "perBatch": 5}));
    }
}

/// Configs of a topic of the made source, as a standby must have them.
#[must_use]
pub fn config(topic: &str) -> Value {
    match topic {
        "compacted" => {
            json!({"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "1.0", "min.compaction.lag.ms": "864000000"})
        }
        other => first_config(other),
    }
}

fn first_config(topic: &str) -> Value {
    match topic {
        "compacted" => {
            json!({"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"})
        }
        "trimmed-segments" => json!({"segment.ms": "200"}),
        "huge" => json!({"max.message.bytes": "31457280"}),
        "rolled" => json!({"segment.bytes": "1048576"}),
        "append-time" => json!({"message.timestamp.type": "LogAppendTime"}),
        _ => json!({}),
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// [`TOPICS`] with their ids, as a standby is to know them.
///
/// # Panics
/// When the broker at `boot` lacks one.
#[must_use]
pub fn expected(oracle: &mut Oracle, boot: &str) -> Vec<Expected> {
    let described = oracle.ask(&json!({"do": "describe", "boot": boot, "topics": names()}));
    let id = |at: usize| described[at]["id"].as_str().expect("an id").to_owned();
    let pairs = |v: Value| {
        v.as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned()))
            .collect()
    };
    let all = TOPICS.iter().enumerate();
    all.map(|(at, (name, partitions))| Expected {
        name: (*name).to_owned(),
        id: id(at),
        partitions: *partitions,
        configs: pairs(config(name)),
    })
    .collect()
}
