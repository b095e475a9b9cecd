//! A source whose leader epochs have risen, a mirror of it, and a broker that runs and serves topics of its own all along.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog, twinlog_until};
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::{Oracle, Seen};
use twinlog_tests::place;

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(90);
/// Isolation levels of readers.
pub(super) const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
/// Topics with their partitions.
pub(super) const TOPICS: [(&str, i32); 3] = [("plain", 3), ("packed", 2), ("paid", 2)];
/// Groups with the protocol of their members.
pub(super) const GROUPS: [(&str, &str); 2] = [("elders", "classic"), ("youngsters", "consumer")];
/// What the broker's own topic is called.
const BUSY: &str = "busy";

/// Everything that takes part.
pub(super) struct World {
    pub(super) oracle: Oracle,
    pub(super) source: Broker,
    pub(super) boot: String,
    pub(super) site: Site,
    pub(super) house: House,
    pub(super) broker: Broker,
    pub(super) scratch: tempfile::TempDir,
}

impl World {
    /// Batches of several codecs in epochs above 0, a transaction of each kind, groups of both protocols; the broker is of `release`.
    pub(super) fn new(name: &str, release: &str) -> Self {
        let scratch = place::scratch(name);
        let mut source = Broker::start(Spec::new(scratch.path().join("source")));
        let broker = Broker::start(receiver(scratch.path(), release));
        let (boot, mut oracle) = (source.address(), Oracle::start());
        for (topic, partitions) in TOPICS {
            oracle.create(&boot, topic, partitions, &json!({"retention.ms": "987654321", "retention.bytes": "-1"}));
        }
        oracle.produce(&boot, "plain", json!({"partitions": 3, "count": 300, "perBatch": 10}));
        for (codec, restart) in [("zstd", true), ("gzip", true), ("none", false)] {
            let more = json!({"partitions": 2, "count": 100, "perBatch": 20, "codec": codec, "mixed": true});
            oracle.produce(&boot, "packed", more);
            if restart {
                source.restart();
            }
        }
        for (txn, end) in [("one", "commit"), ("two", "abort"), ("three", "open")] {
            oracle.produce(&boot, "paid", json!({"partitions": 2, "count": 40, "perBatch": 5, "txn": txn, "end": end}));
        }
        for (group, protocol) in GROUPS {
            read(&mut oracle, &boot, group, protocol, 40);
        }
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        let names = TOPICS.map(|(name, _)| name);
        site.mirror_with("dr", &boot, &names, &["mirror.internal.topics=standby"]);
        let mut world = Self { oracle, source, boot, site, house, broker, scratch };
        world.has_everything();
        world.keeps_busy();
        world
    }

    /// The broker's own topic is written and read from now on.
    fn keeps_busy(&mut self) {
        let boot = self.broker.address();
        self.oracle.create(&boot, BUSY, 2, &json!({}));
        let stream =
            json!({"do": "stream-start", "name": BUSY, "boot": boot, "topic": BUSY, "partitions": 2, "perBatch": 5});
        self.oracle.ask(&stream);
        let member = json!({"do": "join", "boot": boot, "group": "own", "topic": BUSY, "count": 20});
        self.oracle.ask(&member);
    }

    /// It was written and read without an error, by the same process.
    pub(super) fn was_not_disturbed(&mut self, pid: u32) {
        assert_eq!(self.broker.pid(), Some(pid), "the broker ran all along");
        let written = self.oracle.ask(&json!({"do": "stream-stop", "name": BUSY}));
        assert!(written["records"].as_u64() > Some(100), "{written}");
        let boot = self.broker.address();
        self.oracle.ask(&json!({"do": "leave", "boot": boot, "group": "own"}));
        let own = self.oracle.read(&boot, &[BUSY], "read_committed");
        let all: i64 = own.iter().map(|seen| seen.count).sum();
        assert_eq!(Some(all), written["records"].as_i64(), "every record of the broker's own topic is there once");
    }

    pub(super) fn has_everything(&mut self) {
        self.has_all_of(&TOPICS.map(|(name, _)| name));
    }

    /// The mirror has all that the source has of these topics.
    pub(super) fn has_all_of(&mut self, topics: &[&str]) {
        let extents = copy::extents(&mut self.oracle, &self.boot, topics);
        let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        self.site.caught_up("dr", &ends, LIMIT);
    }

    /// Runs `twinlog promote --adopt` into the broker.
    pub(super) fn adopt(&self, more: &[&str]) -> Ran {
        self.adopt_into(&self.broker.address(), &self.log_dir(), more, twinlog)
    }

    /// [`World::adopt`], which kills itself when it passes `step`.
    pub(super) fn adopt_until(&self, step: &str, more: &[&str]) -> Ran {
        self.adopt_into(&self.broker.address(), &self.log_dir(), more, |arguments| twinlog_until(step, arguments))
    }

    pub(super) fn adopt_into(&self, address: &str, log_dir: &str, more: &[&str], run: impl Fn(&[&str]) -> Ran) -> Ran {
        adopt(&self.site, address, log_dir, more, run)
    }

    pub(super) fn log_dir(&self) -> String {
        text(&self.broker.dir().join("data"))
    }

    /// What readers of both isolation levels see.
    pub(super) fn seen(&mut self, boot: &str) -> Vec<Vec<Seen>> {
        let names = TOPICS.map(|(name, _)| name);
        LEVELS.map(|level| self.oracle.read(boot, &names, level)).into()
    }

    /// Readers see at the broker what was `wanted`, and nothing is open there.
    pub(super) fn serves(&mut self, wanted: &[Vec<Seen>]) {
        let boot = self.broker.address();
        let got = self.seen(&boot);
        for (wanted, got) in wanted.iter().flatten().zip(got.iter().flatten()) {
            let name = format!("{}-{}", wanted.topic, wanted.partition);
            assert_eq!((&got.digest, got.count, got.offsets), (&wanted.digest, wanted.count, wanted.offsets), "{name}");
        }
        for (topic, _) in TOPICS {
            for (at, (_, end, stable)) in self.oracle.offsets(&boot, topic).into_iter().enumerate() {
                assert_eq!(end, stable, "{topic}-{at} is open");
            }
        }
    }

    /// New idempotent producers, several one after the other for each partition: what they are told was written is there, once, behind the
    /// rest.
    pub(super) fn new_producers_write(&mut self, times: i64) {
        let boot = self.broker.address();
        let names = TOPICS.map(|(name, _)| name);
        let before = self.oracle.read(&boot, &names, LEVELS[0]);
        for seen in &before {
            for time in 0..times {
                let more = json!({"partition": seen.partition, "count": 3, "perBatch": 1});
                let sent = self.oracle.produce(&boot, &seen.topic, more);
                let wanted = seen.end + 3 * time;
                assert_eq!(sent[0]["first"], wanted, "{seen:?} acknowledged an offset that was there before: {sent}");
            }
        }
        for (before, after) in before.iter().zip(self.oracle.read(&boot, &names, LEVELS[0])) {
            assert_eq!((after.count - before.count, after.end - before.end), (3 * times, 3 * times), "{after:?}");
        }
    }

    /// Groups go on where they were, commit, come again and go on from there.
    pub(super) fn groups_go_on(&mut self) {
        let boot = self.broker.address();
        for (group, protocol) in GROUPS {
            let before = self.committed(&boot, group);
            assert_eq!(before, self.committed(&self.boot.clone(), group), "{group} is where it was at the source");
            for _ in 0..2 {
                let from = self.committed(&boot, group);
                let read = read(&mut self.oracle, &boot, group, protocol, 20);
                assert_eq!(self.committed(&boot, group) - from, read, "{group} read each record once");
            }
        }
    }

    /// The sum of what a group has committed.
    fn committed(&mut self, boot: &str, group: &str) -> i64 {
        let told = self.oracle.ask(&json!({"do": "offsets", "boot": boot, "group": group}));
        told.as_object().expect("offsets").values().filter_map(|offset| offset[0].as_i64()).sum()
    }

    /// The producers that the leader of a partition knows, as stock's tool lists them.
    pub(super) fn known_producers(&self, topic: &str, partition: i32) -> Vec<String> {
        let partition = partition.to_string();
        let arguments = ["describe-producers", "--topic", topic, "--partition", &partition];
        let told = self.broker.tool("org.apache.kafka.tools.TransactionsCommand", &arguments);
        told.lines().skip(1).filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    }
}

/// `twinlog promote --adopt` of the mirror into a broker's log directory, run as `run` does.
pub(super) fn adopt(site: &Site, address: &str, log_dir: &str, more: &[&str], run: impl Fn(&[&str]) -> Ran) -> Ran {
    let state = text(&site.state());
    let own = ["promote", "dr", "--adopt", address, "--log-dir", log_dir, "--state", &state];
    run(&[&own, &["--bootstrap-server", &site.listen][..], more].concat())
}

/// A broker that writes its checkpoints every second.
pub(super) fn receiver(scratch: &Path, release: &str) -> Spec {
    let spec = Spec::new(scratch.join("receiver")).version(release).cluster_id("cmVjZWl2aW5nLWNsdXN0ZQ");
    spec.property("log.flush.offset.checkpoint.interval.ms", "1000")
}

/// Reads as a member of the group, which leaves then; gives how many records.
fn read(oracle: &mut Oracle, boot: &str, group: &str, protocol: &str, count: i64) -> i64 {
    let member =
        json!({"do": "join", "boot": boot, "group": group, "topic": "plain", "protocol": protocol, "count": count});
    let read = oracle.ask(&member);
    oracle.ask(&json!({"do": "leave", "boot": boot, "group": group}));
    read["read"].as_i64().expect("a number")
}

/// A path for a command line.
pub(super) fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

/// The report of a run that ended well.
pub(super) fn report(ran: Ran) -> Value {
    let report = ran.json();
    assert_eq!((&report["mode"], &report["checked"]["ok"]), (&json!("adopt"), &json!(true)), "{report}");
    report
}
