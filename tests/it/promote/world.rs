//! A source with plain, compressed and transactional topics, a mirror of it, and what clients must see at the node that takes it over.

use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog, twinlog_until};
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::{Oracle, Seen};
use twinlog_tests::place;
use twinlog_tests::process::{runs, signal, until};

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Isolation levels of readers.
pub(super) const LEVELS: [&str; 2] = ["read_uncommitted", "read_committed"];
/// Topics with their partitions.
pub(super) const TOPICS: [(&str, i32); 3] = [("plain", 3), ("packed", 2), ("paid", 2)];
/// A group with committed offsets.
pub(super) const GROUP: &str = "readers";

/// The source, the mirror, and the helper that asks as a client.
pub(super) struct World {
    pub(super) oracle: Oracle,
    pub(super) source: Broker,
    pub(super) boot: String,
    pub(super) site: Site,
    pub(super) house: House,
    scratch: tempfile::TempDir,
}

/// A process that the command started and that outlives it.
pub(super) struct Started(pub u32);

impl Started {
    /// The broker of a report.
    pub(super) fn by(report: &Value) -> Self {
        let pid = report["server"]["pid"].as_u64().and_then(|pid| pid.try_into().ok());
        Self(pid.unwrap_or_else(|| panic!("no process in {report}")))
    }

    /// Clean stop.
    pub(super) fn stop(&self) {
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
    pub(super) fn new(name: &str) -> Self {
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
        let (site, house) = mirrored(&scratch.path().join("site"), &boot);
        let world = Self { oracle, source, boot, site, house, scratch };
        world.has_everything();
        world
    }

    /// Another mirror of the same source, at a site of its own, in place of the one before.
    pub(super) fn mirrored_anew(&mut self, name: &str) {
        let (site, house) = mirrored(&self.scratch.path().join(name), &self.boot);
        self.site = site;
        std::mem::replace(&mut self.house, house).down();
        self.has_everything();
    }

    /// Waits until the mirror has everything, for good.
    pub(super) fn has_everything(&self) {
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

    /// A node that nobody formatted.
    pub(super) fn node(&self, name: &str) -> Broker {
        Broker::prepare(self.spec(name).unformatted())
    }

    /// A node of the default release.
    pub(super) fn spec(&self, name: &str) -> Spec {
        Spec::new(self.scratch.path().join(name))
    }

    /// Runs `twinlog promote` into `node`.
    pub(super) fn promote(&self, node: &Broker, more: &[&str]) -> Ran {
        self.promote_with(node, more, twinlog)
    }

    /// [`World::promote`], which kills itself when it passes `step`.
    pub(super) fn promote_until(&self, node: &Broker, step: &str, more: &[&str]) -> Ran {
        self.promote_with(node, more, |arguments| twinlog_until(step, arguments))
    }

    /// [`World::promote`], run by `run`.
    pub(super) fn promote_with(&self, node: &Broker, more: &[&str], run: impl Fn(&[&str]) -> Ran) -> Ran {
        let (properties, state) = (text(&node.dir().join("server.properties")), text(&self.site.state()));
        let own = ["promote", "dr", "--to", &properties, "--state", &state, "--bootstrap-server", &self.site.listen];
        run(&[&own, more].concat())
    }

    /// Where mirroring ended, of every partition.
    pub(super) fn ends(&self) -> Value {
        self.site.ask(&["lmo", "dr"])
    }

    /// What clients of both isolation levels see.
    fn seen(&mut self, boot: &str) -> Vec<Vec<Seen>> {
        let names = TOPICS.map(|(name, _)| name);
        LEVELS.map(|level| self.oracle.read(boot, &names, level)).into()
    }

    /// [`World::seen`] of the source.
    pub(super) fn seen_at_source(&mut self) -> Vec<Vec<Seen>> {
        let boot = self.boot.clone();
        self.seen(&boot)
    }

    /// Clients see what was `wanted`. Records of the open transaction are never seen by readers of committed ones, and do not hold them up.
    pub(super) fn serves(&mut self, boot: &str, wanted: &[Vec<Seen>]) {
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
    pub(super) fn goes_on(&mut self, boot: &str) {
        let sent = self.oracle.produce(boot, "plain", json!({"partitions": 3, "count": 30, "perBatch": 10}));
        assert_eq!(sent[0]["first"], 100, "the first record behind the mirrored ones: {sent}");
        let more = json!({"partitions": 2, "count": 20, "perBatch": 5, "txn": "three", "end": "commit"});
        self.oracle.produce(boot, "paid", more);
    }
}

/// A path for a command line.
pub(super) fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

/// A mirror `dr` of everything at `boot`, internal topics included.
fn mirrored(dir: &Path, boot: &str) -> (Site, House) {
    let site = Site::new(dir);
    let house = House::up(&site);
    let names = TOPICS.map(|(name, _)| name);
    site.mirror_with("dr", boot, &names, &["mirror.internal.topics=standby"]);
    (site, house)
}
