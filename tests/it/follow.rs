//! A pass proves: a mirror follows its source by itself (new topics, partitions, settings, topics that are gone, the topics that a
//! standby needs), what a person stopped or excluded stays out, and a change of one thing leaves the streams of the others alone.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(60);
const SOON: &str = "mirror.metadata.refresh.interval.ms=300";

struct Scene {
    source: Broker,
    oracle: Oracle,
    boot: String,
    site: Site,
    _scratch: tempfile::TempDir,
}

/// A source with these topics of one partition and 20 records each, and a running house without a mirror.
fn scene(name: &str, topics: &[&str]) -> (Scene, House) {
    let scratch = place::scratch(name);
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    for topic in topics {
        oracle.create(&boot, topic, 1, &json!({}));
        oracle.produce(&boot, topic, json!({"count": 20, "perBatch": 5}));
    }
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    (Scene { source, oracle, boot, site, _scratch: scratch }, house)
}

impl Scene {
    fn create_mirror(&self, settings: &[&str]) {
        let mut words = vec!["mirrors", "create", "dr", "--source", &self.boot, "--set", SOON];
        settings.iter().for_each(|setting| words.extend(["--set", setting]));
        self.site.cli(&words).done();
    }

    fn alter(&self, setting: &str) {
        self.site.cli(&["mirrors", "alter", "dr", "--set", setting]).done();
    }

    fn state(&self, topic: &str, partition: i64, state: &str) -> Value {
        until(&format!("{topic}-{partition} is {state}"), LIMIT, || {
            let row = self.site.partition("dr", topic, partition)?;
            if row["state"] == state { Ok(row) } else { Err(row.to_string()) }
        })
    }

    fn absent(&self, topic: &str) {
        let found = self.site.partition("dr", topic, 0);
        assert!(found.is_err(), "{topic} must not be mirrored: {found:?}");
    }

    fn produce(&mut self, topic: &str, partition: i64, count: i64) {
        self.oracle.produce(&self.boot, topic, json!({"count": count, "perBatch": 5, "partition": partition}));
    }

    fn caught_up(&self, ends: &[(&str, i64, i64)]) {
        let ends: Vec<_> = ends.iter().map(|(topic, partition, end)| ((*topic).to_owned(), *partition, *end)).collect();
        self.site.caught_up("dr", &ends, LIMIT);
    }

    fn connects(&self) -> f64 {
        self.site.metric("twinlog_core_connects_total")
    }
}

#[test]
fn what_matches_is_followed_and_what_was_stopped_or_excluded_stays_out() {
    let _turn = place::turn();
    let (mut scene, house) = scene("follow", &["o-1", "o-2", "o-skip", "other"]);
    scene.create_mirror(&["mirror.topics.include=o-.*", "mirror.topics.exclude=.*skip", "mirror.internal.topics=none"]);
    scene.state("o-1", 0, "MIRRORING");
    scene.state("o-2", 0, "MIRRORING");
    scene.site.cli(&["topics", "stop", "dr", "--topic", "o-2", "--wait"]).done();

    let boot = scene.boot.clone();
    scene.oracle.ask(&json!({"do": "add-partitions", "boot": boot, "topic": "o-1", "partitions": 3}));
    scene.oracle.ask(&json!({"do": "alter", "boot": boot, "topic": "o-1", "config": {"segment.bytes": "1048576"}}));
    scene.oracle.create(&boot, "o-3", 1, &json!({}));
    scene.produce("o-3", 0, 20);
    scene.produce("o-1", 2, 30);
    scene.caught_up(&[("o-1", 0, 20), ("o-1", 1, 0), ("o-1", 2, 30), ("o-3", 0, 20)]);
    assert_eq!(scene.site.partition("dr", "o-2", 0).expect("known")["state"], "STOPPED", "it stays stopped");
    scene.absent("o-skip");
    scene.absent("other");

    // Other patterns, another interval, other fetch sizes: no stream gets another connection.
    let connects = scene.connects();
    scene.alter("mirror.topics.include=o-.*,none-[0-9]{1,3}");
    scene.alter("mirror.metadata.refresh.interval.ms=400");
    scene.alter("mirror.fetch.max.bytes=65536");
    scene.alter("mirror.fetch.wait.max.ms=200");
    scene.oracle.produce(&boot, "o-1", json!({"count": 3000, "valueBytes": 1000, "incompressible": true}));
    scene.caught_up(&[("o-1", 0, 3020)]);
    assert_eq!(scene.connects(), connects, "a connection was made anew");
    // Another way to the source moves them.
    scene.alter("mirror.socket.receive.buffer.bytes=131072");
    until("connections are made anew", LIMIT, || {
        let now = scene.connects();
        if now > connects { Ok(()) } else { Err(format!("{now} connects, {connects} before")) }
    });
    // Exclude wins over what flows and over a start by name.
    scene.alter("mirror.topics.exclude=.*skip,o-3");
    scene.state("o-3", 0, "STOPPED");
    let refusal = scene.site.cli(&["topics", "start", "dr", "--topic", "o-skip"]).refused();
    assert!(refusal.contains("mirror.topics.exclude"), "{refusal}");
    when_a_person_asks(&mut scene);

    house.down();
    let ours = Log::read(&scene.site.data().join("o-1-0")).expect("a sound log");
    assert!(ours.segments.len() >= 3, "rolled by the size that the source set meanwhile: {}", ours.segments.len());
    let extents = copy::extents(&mut scene.oracle, &boot, &["o-1", "o-3"]);
    copy::same_bytes(&scene.source, &scene.site.data(), &extents).expect("the same bytes");
}

/// `mirrors sync --what topics` shows what a look at the source would bring, and brings it, long before it is time to look.
fn when_a_person_asks(scene: &mut Scene) {
    let boot = scene.boot.clone();
    let sync = |site: &Site, extra: &[&str]| {
        let told = site.ask(&[&["mirrors", "sync", "dr", "--what", "topics"], extra].concat());
        let line = |c: &Value| {
            let text = |key: &str| c[key].as_str().unwrap_or("-").to_owned();
            ["action", "resource", "key", "from", "to"].map(text).join(" ")
        };
        told[0]["changes"].as_array().expect("changes").iter().map(line).collect::<Vec<String>>()
    };
    scene.alter("mirror.metadata.refresh.interval.ms=3600000");
    // Whatever look was under way has ended after this one.
    sync(&scene.site, &[]);
    scene.oracle.create(&boot, "o-4", 2, &json!({}));
    scene.oracle.ask(&json!({"do": "add-partitions", "boot": boot, "topic": "o-1", "partitions": 4}));
    scene.oracle.ask(&json!({"do": "alter", "boot": boot, "topic": "o-1", "config": {"segment.bytes": "2097152"}}));
    let due = ["grow o-1 partitions 3 4", "settings o-1 segment.bytes 1048576 2097152", "start o-4 partitions - 2"];
    assert_eq!(sync(&scene.site, &["--dry-run"]), due);
    scene.absent("o-4");
    assert_eq!(sync(&scene.site, &[]), due);
    assert_eq!(sync(&scene.site, &[]), Vec::<String>::new(), "once");
    scene.state("o-4", 1, "MIRRORING");
    scene.state("o-1", 3, "MIRRORING");
    let described = scene.site.ask(&["mirrors", "describe", "dr"]);
    let topics = &described[0]["syncs"][0];
    assert_eq!((topics["kind"].as_str(), topics["intervalMs"].as_i64()), (Some("topics"), Some(3_600_000)), "{topics}");
    assert!(topics["applied"].as_i64() >= Some(3) && topics["lastSuccessMs"].is_i64(), "{topics}");
}

#[test]
fn a_topic_that_was_deleted_fails_alone_and_can_be_stopped() {
    let _turn = place::turn();
    let (mut scene, house) = scene("gone", &["kept", "lost"]);
    scene.create_mirror(&["mirror.internal.topics=none"]);
    scene.site.cli(&["topics", "start", "dr", "--topic", "kept", "--topic", "lost", "--wait"]).done();
    scene.caught_up(&[("kept", 0, 20), ("lost", 0, 20)]);
    let boot = scene.boot.clone();
    scene.oracle.ask(&json!({"do": "delete-topic", "boot": boot, "topic": "lost"}));
    let row = scene.state("lost", 0, "FAILED");
    let message = row["errorMessage"].as_str().unwrap_or_default();
    assert!(message.starts_with("unknown_topic: ") && row["retryAttempt"] == -1, "{row}");
    scene.produce("kept", 0, 10);
    scene.caught_up(&[("kept", 0, 30)]);
    scene.site.cli(&["topics", "stop", "dr", "--topic", "lost", "--wait"]).done();
    assert_eq!(scene.site.partition("dr", "lost", 0).expect("known")["lastMirroredOffset"], 20);
    house.down();
    assert_eq!(Log::read(&scene.site.data().join("lost-0")).expect("a sound log").end(), 20, "the copy stays");
}

#[test]
fn the_groups_of_a_real_broker_come_along_for_a_standby_and_end_with_the_last_topic() {
    let _turn = place::turn();
    let (mut scene, house) = scene("groups", &["orders"]);
    scene.create_mirror(&[]);
    scene.site.cli(&["topics", "start", "dr", "--topic", "orders", "--wait"]).done();
    scene.absent("__consumer_offsets");
    let boot = scene.boot.clone();
    for group in ["billing", "mailing", "search"] {
        let commit =
            json!({"do": "commit", "boot": boot, "group": group, "topic": "orders", "offsets": {"0": [7, -1, ""]}});
        scene.oracle.ask(&commit);
    }
    scene.state("__consumer_offsets", 3, "MIRRORING");
    let extents = copy::extents(&mut scene.oracle, &boot, &["__consumer_offsets", "orders"]);
    assert!(extents.iter().any(|extent| extent.topic != "orders" && extent.end > 0), "{extents:?}");
    let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    scene.site.caught_up("dr", &ends, LIMIT);
    assert_eq!(scene.site.ask(&["mirrors", "list"])[0]["topicCount"], 1, "they are not counted");
    scene.site.cli(&["topics", "stop", "dr", "--topic", "orders", "--wait"]).done();
    scene.state("__consumer_offsets", 0, "STOPPED");
    until("a mirror without flowing topics can be deleted", LIMIT, || {
        let ran = scene.site.cli(&["mirrors", "delete", "dr"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    house.down();
    copy::same_bytes(&scene.source, &scene.site.data(), &extents).expect("the same bytes");
}
