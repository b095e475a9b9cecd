//! A pass proves: a mirror is handed over with one command to a stock broker that nobody formatted; clients see there what they saw at the
//! source, groups and transactions included, and go on; there is no way back by `--undo` then.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use twinlog_tests::command::Ran;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::{Oracle, Seen};
use twinlog_tests::place;
use twinlog_tests::process::{runs, signal, until};

const LIMIT: Duration = Duration::from_secs(60);
const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
const TOPICS: [(&str, i32); 3] = [("plain", 3), ("packed", 2), ("paid", 2)];
const GROUP: &str = "readers";

struct World {
    oracle: Oracle,
    _source: Broker,
    boot: String,
    site: Site,
    house: House,
    scratch: tempfile::TempDir,
}

/// A process that the command started and that outlives it.
struct Started(u32);

impl Started {
    fn stop(&self) {
        signal(self.0, Signal::TERM);
        until("the broker ends", LIMIT, || if runs(self.0) { Err("it runs".to_owned()) } else { Ok(()) });
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

impl World {
    /// A source with plain, compressed and transactional topics, a group, a setting; and a mirror of it that has everything.
    fn new(name: &str) -> Self {
        let scratch = place::scratch(name);
        let source = Broker::start(Spec::new(scratch.path().join("source")));
        let (boot, mut oracle) = (source.address(), Oracle::start());
        for (topic, partitions) in TOPICS {
            oracle.create(
                &boot,
                topic,
                partitions,
                &json!({"retention.ms": "987654321", "max.message.bytes": "2000000"}),
            );
        }
        oracle.produce(&boot, "plain", json!({"partitions": 3, "count": 300, "perBatch": 10}));
        oracle.produce(
            &boot,
            "packed",
            json!({"partitions": 2, "count": 200, "perBatch": 20, "codec": "zstd", "mixed": true}),
        );
        for (txn, end) in [("one", "commit"), ("two", "abort"), ("three", "open")] {
            oracle.produce(&boot, "paid", json!({"partitions": 2, "count": 40, "perBatch": 5, "txn": txn, "end": end}));
        }
        let offsets = json!({"0": [30, -1, "noted"], "1": [100, -1, ""]});
        oracle.ask(&json!({"do": "commit", "boot": boot, "group": GROUP, "topic": "plain", "offsets": offsets}));
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        let names = TOPICS.map(|(name, _)| name);
        site.mirror_with("dr", &boot, &names, &["mirror.internal.topics=standby"]);
        let world = Self { oracle, _source: source, boot, site, house, scratch };
        world.has_everything();
        world
    }

    fn has_everything(&self) {
        until("the mirror has everything", LIMIT, || {
            let described = self.site.ask(&["mirrors", "describe", "dr"]);
            let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
            let rows: Vec<Value> =
                topics.iter().flat_map(|topic| topic["partitions"].as_array().cloned().unwrap_or_default()).collect();
            let whole =
                rows.iter().all(|row| row["lagRecords"] == 0 && row["flushedOffset"] == row["destinationOffset"]);
            if whole && topics.len() == 5 { Ok(()) } else { Err(described.to_string()) }
        });
    }

    fn node(&self, name: &str) -> Broker {
        Broker::prepare(self.spec(name).unformatted())
    }

    fn spec(&self, name: &str) -> Spec {
        Spec::new(self.scratch.path().join(name))
    }

    fn arguments<'a>(&'a self, properties: &'a str, state: &'a str) -> Vec<&'a str> {
        vec!["promote", "dr", "--to", properties, "--state", state, "--bootstrap-server", &self.site.listen]
    }

    fn promote(&self, node: &Broker, more: &[&str]) -> Ran {
        let (properties, state) = (text(&node.dir().join("server.properties")), text(&self.site.state()));
        let mut all = self.arguments(&properties, &state);
        all.extend(more);
        twinlog_tests::command::twinlog(&all)
    }

    /// What clients of both isolation levels see.
    fn seen(&mut self, boot: &str) -> Vec<Vec<Seen>> {
        let names = TOPICS.map(|(name, _)| name);
        LEVELS.map(|level| self.oracle.read(boot, &names, level)).into()
    }

    fn seen_at_source(&mut self) -> Vec<Vec<Seen>> {
        let boot = self.boot.clone();
        self.seen(&boot)
    }

    /// Records of the open transaction are never seen by readers of committed ones, and do not hold them up.
    fn serves(&mut self, boot: &str, wanted: &[Vec<Seen>]) {
        let got = self.seen(boot);
        for (wanted, got) in wanted.iter().flatten().zip(got.iter().flatten()) {
            let name = format!("{}-{}", wanted.topic, wanted.partition);
            assert_eq!((&got.digest, got.count, got.offsets), (&wanted.digest, wanted.count, wanted.offsets), "{name}");
        }
        for (topic, _) in TOPICS {
            for (at, (_, end, stable)) in self.oracle.offsets(boot, topic).into_iter().enumerate() {
                assert_eq!(end, stable, "{topic}-{at} is open");
            }
        }
        let offsets = self.oracle.ask(&json!({"do": "offsets", "boot": boot, "group": GROUP}));
        assert_eq!(offsets, json!({"plain-0": [30, -1, "noted"], "plain-1": [100, -1, ""]}));
    }

    /// Clients write on: plainly, and with the transactional id whose transaction was open.
    fn goes_on(&mut self, boot: &str) {
        let sent = self.oracle.produce(boot, "plain", json!({"partitions": 3, "count": 30, "perBatch": 10}));
        assert_eq!(sent[0]["first"], 100, "the first record behind the mirrored ones: {sent}");
        let more = json!({"partitions": 2, "count": 20, "perBatch": 5, "txn": "three", "end": "commit"});
        self.oracle.produce(boot, "paid", more);
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

#[test]
fn a_node_that_nobody_formatted_takes_a_mirror_and_clients_go_on() {
    let _turn = place::turn();
    let mut world = World::new("promote-new");
    let wanted = world.seen_at_source();
    let node = world.node("standby");
    let judged: Value = serde_json::from_str(&world.promote(&node, &["--dry-run", "--json"]).done()).expect("JSON");
    assert_eq!(
        (&judged["mode"], judged["blockers"].as_array().map(Vec::len)),
        (&json!("planned"), Some(0)),
        "{judged}"
    );
    assert_eq!(judged["openTransactions"].as_array().map(Vec::len), Some(2), "{judged}");
    assert_eq!(judged["loss"]["records"], 0, "{judged}");

    let start = node.start_command();
    let done = world.promote(&node, &["--start", "--start-command", &start, "--json"]);
    let report: Value = serde_json::from_str(&done.done()).expect("JSON");
    let broker = Started(report["server"]["pid"].as_u64().and_then(|pid| pid.try_into().ok()).expect("a process"));
    assert_eq!(report["checked"]["ok"], true, "{report}");
    assert_eq!(report["checked"]["bootstrapRecords"], report["bootstrapRecords"], "{report}");
    assert!(report["checked"]["comparedBatches"].as_u64() > Some(5), "{report}");
    world.serves(&node.address(), &wanted);
    let described = world.site.ask(&["mirrors", "describe", "dr"]);
    let handed = described[0]["topics"][0]["handedOverTo"].as_str().map(str::to_owned);
    assert!(handed.is_some_and(|to| to.starts_with("node 1 of cluster ")), "{described}");
    assert!(world.site.cli(&["topics", "start", "dr", "--topic", "plain"]).refused().contains("reclaim"));
    world.goes_on(&node.address());
    let again = world.promote(&node, &["--undo"]).refused();
    assert!(again.contains("reclaim"), "{again}");
    broker.stop();
    world.house.down();
}
