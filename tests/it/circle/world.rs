//! Two hosts on one machine, each with a site of its own and a stock node: the clients' topics are at one of them at a time.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog, twinlog_until};
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(90);
/// Topics that are mirrored.
pub(super) const TOPICS: [(&str, i32); 2] = [("plain", 2), ("paid", 1)];
/// The time of the first records, so long ago that segments roll by the next ones.
pub(super) const OLD: i64 = 1_790_000_000_000;

/// A host.
pub(super) struct Host {
    pub(super) site: Site,
    pub(super) house: House,
    pub(super) broker: Broker,
}

/// Both of them.
pub(super) struct World {
    pub(super) oracle: Oracle,
    pub(super) a: Host,
    pub(super) b: Host,
    pub(super) scratch: tempfile::TempDir,
}

pub(super) fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

impl Host {
    fn new(dir: PathBuf, broker: Broker) -> Self {
        let site = Site::new(dir);
        let house = House::up(&site);
        Self { site, house, broker }
    }

    pub(super) fn boot(&self) -> String {
        self.broker.address()
    }

    /// Words of a hand-over or of the way back from it.
    fn words(&self, verb: &str, flag: &str, more: &[&str]) -> Vec<String> {
        let (properties, state) = (text(&self.broker.dir().join("server.properties")), text(&self.site.state()));
        let fixed = [verb, "dr", flag, &properties, "--state", &state, "--bootstrap-server", &self.site.listen];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    fn run(&self, verb: &str, flag: &str, more: &[&str]) -> Ran {
        let words = self.words(verb, flag, more);
        twinlog(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(super) fn reclaim(&self, more: &[&str]) -> Ran {
        self.run("reclaim", "--from", more)
    }

    /// A reclaim that is killed at each of these steps, before and after it is written down, and run again.
    pub(super) fn reclaim_killed(&self, steps: &[&str], more: &[&str]) {
        for step in steps {
            for at in [format!("reclaim-{step}-done"), format!("reclaim-{step}")] {
                let words = self.words("reclaim", "--from", more);
                let ran = twinlog_until(&at, &words.iter().map(String::as_str).collect::<Vec<_>>());
                assert_eq!(ran.code, -1, "{at}: {ran:?}");
            }
        }
    }

    /// Hands over and starts the broker, which answers then.
    pub(super) fn promote(&mut self) {
        self.run("promote", "--to", &[]).done();
        self.broker.resume();
    }

    /// Hands over, is killed at `step`, and takes it back.
    pub(super) fn promote_killed_and_undone(&self, step: &str) {
        let words = self.words("promote", "--to", &[]);
        let ran = twinlog_until(step, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, -1, "{step}: {ran:?}");
        self.run("promote", "--to", &["--undo"]).done();
    }

    /// The files of the node's metadata.
    pub(super) fn metadata(&self) -> BTreeMap<String, Vec<u8>> {
        let data = self.broker.dir().join("data");
        let folder = std::fs::read_dir(data.join("__cluster_metadata-0")).into_iter().flatten().flatten();
        let files = folder.map(|entry| entry.path()).chain([data.join("bootstrap.checkpoint")]);
        files.filter_map(|path| Some((text(&path), std::fs::read(path).ok()?))).collect()
    }

    /// Why nothing would be handed over to the broker.
    pub(super) fn promote_refused(&self) -> String {
        let ran = self.run("promote", "--to", &["--dry-run"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        ran.stdout + &ran.stderr
    }

    /// Starts the topics that were taken back.
    pub(super) fn start_again(&self) {
        let mut start = vec!["topics", "start", "dr", "--wait", "--timeout", "90s"];
        TOPICS.iter().for_each(|(name, _)| start.extend(["--topic", name]));
        self.site.cli(&start).done();
    }

    /// Starts one of them.
    pub(super) fn start(&self, topic: &str) {
        self.site.cli(&["topics", "start", "dr", "--wait", "--timeout", "90s", "--topic", topic]).done();
    }

    /// Settings of the topics come along: a node's own retention would remove records as old as these.
    pub(super) fn sync(&self) {
        self.site.cli(&["mirrors", "sync", "dr", "--what", "configs"]).done();
    }

    /// The mirror `dr` of `source`, with nothing started.
    pub(super) fn create(&self, source: &str) {
        self.site.cli(&["mirrors", "create", "dr", "--source", source]).done();
    }
}

impl World {
    /// A source at host A with records, transactions, a group and segments that are closed; host B mirrors it and has everything.
    /// `other` topics of A are not mirrored; its node is `like` that.
    pub(super) fn new(name: &str, other: &[(&str, i32)], like: fn(Spec) -> Spec) -> Self {
        let scratch = place::scratch(name);
        let at =
            |host: &str| (scratch.path().join(host).join("site"), Spec::new(scratch.path().join(host).join("node")));
        let ((a_site, a_node), (b_site, b_node)) = (at("a"), at("b"));
        let a = Host::new(a_site, Broker::start(like(a_node)));
        let b = Host::new(b_site, Broker::prepare(b_node.unformatted()));
        let mut world = Self { oracle: Oracle::start(), a, b, scratch };
        let boot = world.a.boot();
        for (topic, partitions) in TOPICS.iter().chain(other) {
            world.oracle.create(&boot, topic, *partitions, &json!({"segment.ms": "2000", "retention.ms": "-1"}));
        }
        world.plain(&boot, OLD, 200);
        for (topic, _) in other {
            world.oracle.produce(&boot, topic, json!({"count": 10}));
        }
        for (txn, end) in [("one", "commit"), ("two", "abort")] {
            world.pay(&boot, txn, end);
        }
        let offsets = json!({"0": [30, -1, "noted"], "1": [60, -1, ""]});
        world
            .oracle
            .ask(&json!({"do": "commit", "boot": boot, "group": "readers", "topic": "plain", "offsets": offsets}));
        let names = TOPICS.map(|(name, _)| name);
        world.b.site.mirror_with("dr", &boot, &names, &["mirror.internal.topics=standby"]);
        world.caught_up(&boot, |world| &world.b);
        world.b.sync();
        world
    }

    /// Records of which some begin a new segment.
    pub(super) fn plain(&mut self, boot: &str, time: i64, count: i64) {
        let more = json!({"partitions": 2, "count": count, "perBatch": 10, "time": time, "timeStep": 100});
        self.oracle.produce(boot, "plain", more);
    }

    pub(super) fn pay(&mut self, boot: &str, txn: &str, end: &str) {
        let more = json!({"partitions": 1, "count": 20, "perBatch": 5, "txn": txn, "end": end});
        self.oracle.produce(boot, "paid", more);
    }

    /// The host has everything that the broker at `boot` has of the topics.
    pub(super) fn caught_up(&mut self, boot: &str, host: fn(&Self) -> &Host) {
        let extents = copy::extents(&mut self.oracle, boot, &TOPICS.map(|(name, _)| name));
        let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        host(self).site.caught_up("dr", &ends, LIMIT);
    }

    /// The copy at one host is what the broker of the other one has, byte for byte, and the command says so too.
    pub(super) fn is_a_copy(&mut self, copy: fn(&Self) -> &Host, source: fn(&Self) -> &Host) {
        let boot = source(self).boot();
        self.caught_up(&boot, copy);
        let extents = copy::extents(&mut self.oracle, &boot, &TOPICS.map(|(name, _)| name));
        let (copy, source) = (copy(self), source(self));
        copy::same_bytes(&source.broker, &copy.site.data(), &extents).expect("the same bytes");
        let state = text(&copy.site.state());
        let said = twinlog(&["verify", "--mirror", "dr", "--state", &state, "--against-source"]).done();
        assert!(said.contains("verdict: identical"), "{said}");
    }

    /// A client writes on and on to `plain`.
    pub(super) fn stream(&mut self, boot: &str, name: &str) {
        let ask = json!({"do": "stream-start", "name": name, "boot": boot, "topic": "plain", "partitions": 2, "perBatch": 5, "pauseMs": 20});
        self.oracle.ask(&ask);
    }

    /// The client ends; gives how many records were acknowledged.
    pub(super) fn stream_ends(&mut self, name: &str) -> i64 {
        self.oracle.ask(&json!({"do": "stream-stop", "name": name}))["records"].as_i64().expect("a number")
    }

    /// Ids and leader epochs by partition.
    pub(super) fn identity(&mut self, boot: &str) -> (Vec<Value>, BTreeMap<String, i64>) {
        let told = self.oracle.ask(&json!({"do": "describe", "boot": boot, "topics": TOPICS.map(|(name, _)| name)}));
        let (mut ids, mut epochs) = (Vec::new(), BTreeMap::new());
        for topic in told.as_array().into_iter().flatten() {
            ids.push(topic["id"].clone());
            for row in topic["partitions"].as_array().into_iter().flatten() {
                let name = format!("{}-{}", topic["topic"].as_str().unwrap_or_default(), row["partition"]);
                epochs.insert(name, row["epoch"].as_i64().expect("an epoch"));
            }
        }
        (ids, epochs)
    }

    /// Offsets of the group.
    pub(super) fn group(&mut self, boot: &str) -> Value {
        self.oracle.ask(&json!({"do": "offsets", "boot": boot, "group": "readers"}))
    }
}
