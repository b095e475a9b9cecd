//! A pass proves: a mirror that was handed over to a stock broker, which was written to meanwhile (plainly, in transactions, one of them left
//! open), is taken back with one command after that broker was stopped or killed: what it wrote is listed, saved and thrown away, what was
//! mirrored stays as it is and is not fetched again, mirroring goes on until the copy is the source's bytes, and it can be handed over
//! again, with leader epochs above all that clients have seen. From a broker that runs copies are taken: it goes on serving and being written
//! to, its closed files stay as they are, and the mirror goes on in the copies. What its retention removed is left out; what its cleaner wrote
//! anew is refused by name, also when that happened in the middle.

mod beside;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog, twinlog_until};
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::{Oracle, Seen};
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(90);
const TOPICS: [(&str, i32); 2] = [("plain", 2), ("paid", 1)];
const OLD: i64 = 1_790_000_000_000;

/// Inode, length and time of change of a file.
type Stamp = (u64, u64, i64, i64);

struct World {
    oracle: Oracle,
    source: Broker,
    boot: String,
    site: Site,
    house: House,
    scratch: tempfile::TempDir,
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

impl World {
    fn new(name: &str) -> Self {
        let scratch = place::scratch(name);
        let source = Broker::start(Spec::new(scratch.path().join("source")));
        let (boot, mut oracle) = (source.address(), Oracle::start());
        for (topic, partitions) in TOPICS {
            oracle.create(&boot, topic, partitions, &json!({"segment.ms": "2000", "retention.ms": "-1"}));
        }
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        let mut world = Self { oracle, source, boot, site, house, scratch };
        world.source_gets(OLD, 200);
        world.pay("one", "commit");
        world.pay("two", "open");
        let names = TOPICS.map(|(name, _)| name);
        world.site.mirror_with("dr", &world.boot, &names, &["mirror.internal.topics=standby"]);
        world.has_everything();
        // With the source's retention: the node's own would remove records as old as these.
        world.site.cli(&["mirrors", "sync", "dr", "--what", "configs"]).done();
        world
    }

    /// Records whose times make the log roll.
    fn source_gets(&mut self, time: i64, count: i64) {
        let more = json!({"partitions": 2, "count": count, "perBatch": 10, "time": time, "timeStep": 100});
        self.oracle.produce(&self.boot, "plain", more);
    }

    fn pay(&mut self, txn: &str, end: &str) {
        let more = json!({"partitions": 1, "count": 20, "perBatch": 5, "txn": txn, "end": end});
        self.oracle.produce(&self.boot, "paid", more);
    }

    fn has_everything(&mut self) {
        let extents = copy::extents(&mut self.oracle, &self.boot, &TOPICS.map(|(name, _)| name));
        let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        self.site.caught_up("dr", &ends, LIMIT);
    }

    fn node(&self, name: &str) -> Broker {
        Broker::prepare(Spec::new(self.scratch.path().join(name)).unformatted())
    }

    fn command(&self, verb: &str, flag: &str, node: &Broker, more: &[&str]) -> Vec<String> {
        let (properties, state) = (text(&node.dir().join("server.properties")), text(&self.site.state()));
        let fixed = [verb, "dr", flag, &properties, "--state", &state, "--bootstrap-server", &self.site.listen];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn run(&self, verb: &str, flag: &str, node: &Broker, more: &[&str]) -> Ran {
        let words = self.command(verb, flag, node, more);
        twinlog(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn reclaim(&self, node: &Broker, more: &[&str]) -> Ran {
        self.run("reclaim", "--from", node, more)
    }

    /// Hands over and starts the broker, which answers then.
    fn promote(&self, name: &str) -> Broker {
        let mut node = self.node(name);
        self.run("promote", "--to", &node, &[]).done();
        node.resume();
        node
    }

    /// The broker is written to: plainly, in a transaction, in one that stays open.
    fn write_to(&mut self, boot: &str) {
        let more = json!({"partitions": 2, "count": 40, "perBatch": 5, "time": OLD + 900_000, "timeStep": 200});
        self.oracle.produce(boot, "plain", more);
        for (txn, end) in [("two", "commit"), ("three", "open")] {
            let more = json!({"partitions": 1, "count": 10, "perBatch": 5, "txn": txn, "end": end});
            self.oracle.produce(boot, "paid", more);
        }
    }

    fn epochs(&mut self, boot: &str) -> BTreeMap<String, i64> {
        let told = self.oracle.ask(&json!({"do": "describe", "boot": boot, "topics": TOPICS.map(|(name, _)| name)}));
        let topics = told.as_array().cloned().unwrap_or_default();
        let of = |topic: &Value| {
            let name = topic["topic"].as_str().unwrap_or_default().to_owned();
            let rows = topic["partitions"].as_array().cloned().unwrap_or_default();
            rows.into_iter()
                .map(move |row| (format!("{name}-{}", row["partition"]), row["epoch"].as_i64().expect("an epoch")))
                .collect::<Vec<_>>()
        };
        topics.iter().flat_map(of).collect()
    }

    /// The files of closed segments at the broker, by path.
    fn closed_at(&self, node: &Broker) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        for (topic, partitions) in TOPICS {
            for partition in 0..partitions {
                let log = Log::read(&node.partition_dir(topic, partition)).expect("a log");
                for segment in log.segments.iter().rev().skip(1) {
                    for path in ["log", "index", "timeindex"].map(|kind| segment.path.with_extension(kind)) {
                        all.insert(path.clone(), std::fs::read(path).expect("a file"));
                    }
                }
            }
        }
        all
    }

    /// Every segment of the topics in `dir` but the last of each partition.
    fn closed(&self, dir: impl Fn(&str, i32) -> PathBuf) -> BTreeMap<String, Stamp> {
        let mut all = BTreeMap::new();
        for (topic, partitions) in TOPICS {
            for partition in 0..partitions {
                let log = Log::read(&dir(topic, partition)).expect("a log");
                for segment in log.segments.iter().rev().skip(1) {
                    let meta = std::fs::metadata(&segment.path).expect("a segment");
                    let stamp = (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
                    all.insert(format!("{topic}-{partition}/{}", segment.base), stamp);
                }
            }
        }
        all
    }

    fn ours(&self) -> BTreeMap<String, Stamp> {
        let data = self.site.data();
        self.closed(|topic, partition| data.join(format!("{topic}-{partition}")))
    }

    fn seen(&mut self, boot: &str) -> Vec<Seen> {
        let names = TOPICS.map(|(name, _)| name);
        let mut all = self.oracle.read(boot, &names, "read_uncommitted");
        all.extend(self.oracle.read(boot, &names, "read_committed"));
        all
    }

    fn start_again(&self) {
        let mut start = vec!["topics", "start", "dr", "--wait", "--timeout", "60s"];
        let internal = ["__transaction_state"];
        TOPICS.iter().map(|(name, _)| *name).chain(internal).for_each(|name| start.extend(["--topic", name]));
        self.site.cli(&start).done();
    }

    /// The copy is the source's, and what was closed before is as it was.
    fn is_the_sources(&mut self, before: &BTreeMap<String, Stamp>) {
        self.has_everything();
        let extents = copy::extents(&mut self.oracle, &self.boot, &TOPICS.map(|(name, _)| name));
        copy::same_bytes(&self.source, &self.site.data(), &extents).expect("the source's bytes");
        let after = self.ours();
        for (segment, stamp) in before {
            assert_eq!(after.get(segment), Some(stamp), "{segment} was written again");
        }
    }
}

fn records(list: &Value, topic: &str) -> i64 {
    let rows = list["partitions"].as_array().cloned().unwrap_or_default();
    rows.iter().filter(|row| row["topic"] == topic).filter_map(|row| row["records"].as_i64()).sum()
}

#[test]
fn what_a_stopped_broker_wrote_is_thrown_away_and_mirroring_goes_on_where_it_ended() {
    let _turn = place::turn();
    let mut world = World::new("reclaim");
    let before = world.ours();
    assert!(before.len() > 5, "several closed segments: {before:?}");
    let mut node = world.promote("first");
    let boot = node.address();
    world.write_to(&boot);
    let epochs = world.epochs(&boot);
    world.source_gets(OLD + 500_000, 40);
    world.pay("four", "commit");

    let refused = world.reclaim(&node, &[]).refused();
    assert!(refused.contains(".lock") && refused.contains("stop the broker"), "{refused}");
    node.stop();
    let looked: Value = serde_json::from_str(&world.reclaim(&node, &["--dry-run", "--json"]).done()).expect("JSON");
    assert_eq!(looked["blockers"], json!([]), "{looked}");
    assert_eq!((records(&looked, "plain"), records(&looked, "paid")), (40, 20), "{looked}");
    let fetched = world.site.metric("twinlog_core_mirrored_bytes_total");
    let aside = world.scratch.path().join("aside");
    world.reclaim(&node, &["--save-aside", &text(&aside)]).done();
    let saved = Log::read(&aside.join("plain-0")).expect("the saved records");
    let (first, count) = (saved.batches().next().map(|batch| batch.base), saved.batches().count());
    assert_eq!((first, count), (Some(100), 4));
    let again = world.reclaim(&node, &[]).done();
    assert!(again.contains("are taken back"), "{again}");

    world.start_again();
    world.is_the_sources(&before);
    let fetched = world.site.metric("twinlog_core_mirrored_bytes_total") - fetched;
    let whole: u64 = before.values().map(|(_, bytes, ..)| bytes).sum();
    assert!(fetched < whole as f64, "{fetched} bytes were fetched, the copy had {whole}");

    // Open again as at the source, which decides now.
    world.oracle.ask(&json!({"do": "end", "txn": "two", "end": "commit"}));
    let mut second = world.promote("second");
    let boot = second.address();
    let now = world.seen(&boot);
    let at_source = world.boot.clone();
    let source = world.seen(&at_source);
    for (now, source) in now.iter().zip(&source) {
        assert_eq!((&now.digest, now.count), (&source.digest, source.count), "{}-{}", now.topic, now.partition);
    }
    for (partition, epoch) in world.epochs(&boot) {
        assert!(epoch > epochs[&partition], "{partition}: {epoch} is not above {}", epochs[&partition]);
    }
    world.oracle.produce(&boot, "plain", json!({"partitions": 2, "count": 20, "perBatch": 5}));
    second.stop();
    world.house.down();
}

#[test]
fn a_killed_broker_and_a_reclaim_that_is_killed_at_every_step_end_in_the_sources_bytes() {
    let _turn = place::turn();
    let mut world = World::new("reclaim-killed");
    let before = world.ours();
    let mut node = world.promote("first");
    let boot = node.address();
    world.write_to(&boot);
    world.source_gets(OLD + 500_000, 40);
    node.kill();
    for step in ["begun", "unmarked", "moved", "returned"] {
        for at in [format!("reclaim-{step}-done"), format!("reclaim-{step}")] {
            let words = world.command("reclaim", "--from", &node, &[]);
            let ran = twinlog_until(&at, &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, -1, "{at}: {ran:?}");
        }
    }
    world.reclaim(&node, &[]).done();
    until("nobody has the topics", LIMIT, || {
        let described = world.site.ask(&["mirrors", "describe", "dr"]);
        let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
        if topics.iter().all(|topic| topic["handedOverTo"].is_null()) { Ok(()) } else { Err(described.to_string()) }
    });
    world.start_again();
    world.is_the_sources(&before);
    world.house.down();
}

#[test]
fn what_retention_removed_is_left_out_and_what_a_cleaner_wrote_anew_is_refused_also_in_the_middle() {
    let _turn = place::turn();
    let mut world = World::new("reclaim-aged");
    for topic in ["aged", "tidy"] {
        world.oracle.create(&world.boot, topic, 1, &json!({"segment.ms": "2000", "retention.ms": "-1"}));
        let more = json!({"count": 100, "perBatch": 10, "keys": 5, "time": OLD, "timeStep": 100});
        world.oracle.produce(&world.boot, topic, more);
        world.site.cli(&["topics", "start", "dr", "--wait", "--timeout", "60s", "--topic", topic]).done();
    }
    world.site.caught_up("dr", &["aged", "tidy"].map(|topic| (topic.to_owned(), 0, 100)), LIMIT);
    world.site.cli(&["mirrors", "sync", "dr", "--what", "configs"]).done();
    let mut node = world.promote("first");
    let boot = node.address();
    let words = world.command("reclaim", "--from", &node, &["--clone"]);
    let ran = twinlog_until("reclaim-begun", &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ran.code, -1, "{ran:?}");

    let more = json!({"count": 20, "keys": 5, "time": OLD + 500_000, "timeStep": 100});
    world.oracle.produce(&boot, "tidy", more);
    let alter = |world: &mut World, topic: &str, config: Value| {
        world.oracle.ask(&json!({"do": "alter", "boot": boot, "topic": topic, "config": config}));
    };
    alter(&mut world, "tidy", json!({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}));
    let aged: u64 = Log::read(&node.partition_dir("aged", 0))
        .expect("a log")
        .segments
        .iter()
        .map(|segment| std::fs::metadata(&segment.path).expect("a file").len())
        .sum();
    alter(&mut world, "aged", json!({"retention.bytes": (aged / 2).to_string()}));
    let first = |dir: &Path| Log::read(dir).expect("a log").segments[0].base;
    until("retention and the cleaner have run", LIMIT, || {
        let seen = (first(&node.partition_dir("aged", 0)), node.cleaned("tidy", 0));
        if seen.0 > 0 && seen.1 >= 100 { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    let begins = first(&node.partition_dir("aged", 0));

    let refused = world.reclaim(&node, &["--clone"]).refused();
    assert!(
        refused.contains("tidy-0") && refused.contains("meanwhile") && refused.contains("as a cleaner does"),
        "{refused}"
    );
    assert!(!world.site.data().join(".twinlog-reclaim-dr").exists());
    let looked = world.reclaim(&node, &["--clone", "--dry-run"]);
    assert!(looked.code == 1 && looked.stdout.contains("BLOCKED") && looked.stdout.contains("tidy-0"), "{looked:?}");
    world.reclaim(&node, &["--clone", "--topic", "aged"]).done();
    node.stop();
    let others = ["plain", "paid", "__transaction_state"];
    world.reclaim(&node, &others.map(|topic| ["--topic", topic]).concat()).done();
    let refused = world.reclaim(&node, &[]).refused();
    assert!(refused.contains("tidy-0") && refused.contains("--from-scratch"), "{refused}");
    world.reclaim(&node, &["--topic", "tidy", "--from-scratch"]).done();
    world
        .site
        .cli(&["topics", "start", "dr", "--from-scratch", "--wait", "--timeout", "60s", "--topic", "tidy"])
        .done();
    world.site.cli(&["topics", "start", "dr", "--wait", "--timeout", "60s", "--topic", "aged"]).done();
    world.start_again();
    world.is_the_sources(&BTreeMap::new());
    let mut extents = copy::extents(&mut world.oracle, &world.boot, &["aged", "tidy"]);
    extents[0].start = begins;
    copy::same_bytes(&world.source, &world.site.data(), &extents).expect("the source's bytes");
    assert_eq!(first(&world.site.data().join("aged-0")), begins, "{begins} > 0");
    world.house.down();
}
