//! The source of a column: a stock broker with everything that a hand-over may lose, and what its clients see there.

use super::column::Column;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use twinlog_tests::copy::{self, Extent};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::process::until;

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Isolation levels of readers.
pub(super) const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
/// Topics with their partitions. Plain batches of two leader epochs; every codec; stamped by the broker; cleaned; cut within a batch.
pub(super) const TOPICS: [(&str, i32); 5] =
    [("plain", 2), ("packed", 2), ("stamped", 1), ("compacted", 1), ("trimmed", 1)];
/// Records of the first batches of `trimmed`; its log starts inside the second one.
pub(super) const TRIMMED_AT: i64 = 15;

/// The source.
pub(super) struct Source {
    /// Its broker.
    pub(super) broker: Broker,
    /// Its address.
    pub(super) boot: String,
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
    /// What readers of both levels get.
    pub(super) seen: Value,
    /// Lookups by time.
    pub(super) times: Value,
}

/// The names of all topics.
pub(super) fn names() -> [&'static str; TOPICS.len()] {
    TOPICS.map(|(name, _)| name)
}

/// Settings that a topic has besides those of all.
fn settings(topic: &str) -> Value {
    let mut all = json!({"retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "2000000"});
    let more = match topic {
        "stamped" => json!({"message.timestamp.type": "LogAppendTime"}),
        "compacted" => json!({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"}),
        _ => json!({}),
    };
    all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    all
}

/// Now, ms since 1970.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_millis()).expect("a time of this age")
}

impl Source {
    /// A source that has it all, of the column's release.
    pub(super) fn new(column: Column, dir: &Path, oracle: &mut Oracle) -> Self {
        let broker = Broker::start(Spec::new(dir).version(column.release));
        let (boot, base_ms) = (broker.address(), now_ms());
        let mut source = Self { broker, boot, base_ms };
        for (topic, partitions) in TOPICS {
            oracle.create(&source.boot, topic, partitions, &settings(topic));
        }
        source.first_epoch(oracle);
        source.broker.restart();
        source.second_epoch(oracle);
        source.is_cleaned(oracle);
        source
    }

    /// Waits until the cleaner has left gaps, and holds it off what remains.
    fn is_cleaned(&self, oracle: &mut Oracle) {
        let dir = self.broker.partition_dir("compacted", 0);
        until("the source's cleaner leaves gaps", LIMIT, || match Log::read(&dir) {
            Ok(log) if log.gaps() > 0 => Ok(()),
            Ok(log) => Err(format!("{} offsets, no gap", log.end())),
            Err(why) => Err(why), // a segment is being replaced
        });
        let held = json!({"min.compaction.lag.ms": "86400000"});
        oracle.ask(&json!({"do": "settings", "boot": self.boot, "topic": "compacted", "set": held}));
    }

    fn first_epoch(&self, oracle: &mut Oracle) {
        let boot = &self.boot;
        oracle.produce(
            boot,
            "plain",
            json!({"partitions": 2, "count": 100, "perBatch": 10, "time": self.base_ms - 600_000}),
        );
        oracle.produce(boot, "compacted", json!({"count": 200, "perBatch": 10, "keys": 23, "valueBytes": 40}));
        oracle.produce(boot, "trimmed", json!({"count": 40, "perBatch": 10}));
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
        oracle.produce(boot, "compacted", json!({"count": 20, "perBatch": 10, "keys": 7, "valueBytes": 40}));
        oracle.ask(&json!({"do": "delete-records", "boot": boot, "topic": "trimmed", "before": TRIMMED_AT}));
    }

    /// What clients see now.
    pub(super) fn look(&self, oracle: &mut Oracle) -> Before {
        let told = oracle.ask(&json!({"do": "describe", "boot": self.boot, "topics": names()}));
        let text = |v: &Value| v.as_str().expect("a text").to_owned();
        let ids = told.as_array().expect("topics").iter().map(|t| (text(&t["topic"]), text(&t["id"]))).collect();
        let extents = copy::extents(oracle, &self.boot, &names());
        Before { ids, extents, seen: seen(oracle, &self.boot, None), times: self.times(oracle, &self.boot) }
    }

    /// Lookups at `boot` by times that fall into the records, and of the largest time of each partition.
    pub(super) fn times(&self, oracle: &mut Oracle, boot: &str) -> Value {
        let times = [-599_950, -300_000, -299_990, 0].map(|back| self.base_ms + back);
        oracle.ask(&json!({"do": "times", "boot": boot, "topics": names(), "times": times}))
    }
}

/// What readers of both levels get from `boot`, up to the ends of `extents`.
pub(super) fn seen(oracle: &mut Oracle, boot: &str, extents: Option<&[Extent]>) -> Value {
    let before: BTreeMap<String, i64> = extents.unwrap_or_default().iter().map(|e| (e.folder(), e.end)).collect();
    let ask = |level| json!({"do": "read", "boot": boot, "topics": names(), "isolation": level, "before": before});
    LEVELS.iter().map(|level| oracle.ask(&ask(level))).collect()
}
