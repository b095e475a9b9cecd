//! A pass proves: the commands, field names and exit codes that scripts rely on are what the manual says.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use twinlog_tests::command::twinlog;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

const FIELDS: [&str; 20] = [
    "partition",
    "state",
    "previousState",
    "leaderEpoch",
    "sourceOffset",
    "destinationOffset",
    "flushedOffset",
    "logStartOffset",
    "lagRecords",
    "lagBytes",
    "lagMs",
    "lsoLagRecords",
    "bytesPerSecond",
    "catchUpPercent",
    "etaMs",
    "catchingUp",
    "lastMirroredOffset",
    "lastMirrorEpoch",
    "retryAttempt",
    "errorMessage",
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_mirror_lives_through_its_commands() {
    let _turn = place::turn();
    let scratch = place::scratch("commands");
    let mut source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    let id = oracle.create(&boot, "orders", 2, &json!({}));
    oracle.produce(&boot, "orders", json!({"partitions": 2, "count": 100, "perBatch": 10}));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &boot, &["orders"]);
    let ends = [("orders".to_owned(), 0, 50), ("orders".to_owned(), 1, 50)];
    site.caught_up("dr", &ends, Duration::from_secs(30));

    described(&site, &source, &id);
    for verb in [&["mirrors", "describe"][..], &["mirrors", "list"], &["status"], &["lmo", "dr", "--topic", "orders:1"]]
    {
        assert!(!site.cli(verb).done().is_empty(), "{verb:?} prints something for people");
    }
    let state = site.state();
    let state = state.to_str().expect("UTF-8");
    twinlog(&["verify", "--mirror", "dr", "--state", state, "--against-source"]).done();
    for (path, sign) in [("/health", "200"), ("/metrics", "# TYPE")] {
        let got = site.http(path);
        assert!(got.contains(sign), "{path}: {got}");
    }

    site.cli(&["topics", "stop", "dr", "--topic", "orders", "--wait"]).done();
    let row = site.partition("dr", "orders", 1).expect("described");
    assert_eq!((&row["state"], &row["lastMirroredOffset"]), (&json!("STOPPED"), &json!(50)), "{row}");
    let lmo = site.ask(&["lmo", "dr"]);
    let offsets: Vec<_> = lmo
        .as_array()
        .expect("a list")
        .iter()
        .map(|l| (&l["topic"], &l["partition"], &l["lastMirroredOffset"]))
        .collect();
    assert_eq!(
        offsets,
        [(&json!("orders"), &json!(0), &json!(50)), (&json!("orders"), &json!(1), &json!(50))],
        "{lmo}"
    );

    for (args, named) in [
        (&["lmo", "dr", "--topic", "orders:7"][..], "orders-7"),
        (&["lmo", "dr", "--topic", "nope"], "nope"),
        (&["lmo", "--topic", "nope"], "nope"),
    ] {
        let ran = site.cli(args);
        assert!(ran.code == 1 && ran.stderr.contains(named), "{args:?}: {ran:?}");
    }

    oracle.create(&boot, "late", 1, &json!({}));
    source.stop();
    let ran = site.cli(&["topics", "start", "dr", "--topic", "late", "--wait", "--timeout", "2s"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stderr.contains("late"), "the partitions that did not get there are named: {ran:?}");
    house.down();
    files(&site);
}

fn described(site: &Site, source: &Broker, id: &str) {
    let all = site.ask(&["mirrors", "describe"]);
    assert_eq!(
        keys(&all[0]),
        BTreeSet::from(["mirror", "quotas", "scramUsers", "sourceClusterId", "summary", "syncs", "topics"])
    );
    assert_eq!(all[0]["sourceClusterId"], source.cluster_id());
    let topic = &all[0]["topics"][0];
    assert_eq!(keys(topic), BTreeSet::from(["topic", "topicId", "handedOverTo", "partitions", "summary"]));
    assert_eq!(topic["handedOverTo"], Value::Null);
    assert_eq!((&topic["topic"], &topic["topicId"]), (&json!("orders"), &json!(id)));
    let row = &topic["partitions"][1];
    assert_eq!(keys(row), BTreeSet::from(FIELDS));
    let wanted = json!({
        "partition": 1, "state": "MIRRORING", "leaderEpoch": 0, "sourceOffset": 50, "destinationOffset": 50, "flushedOffset": 50,
        "logStartOffset": 0, "lagRecords": 0, "lagBytes": 0, "lagMs": 0, "lsoLagRecords": 0, "catchUpPercent": null, "errorMessage": null
    });
    for (key, value) in wanted.as_object().expect("an object") {
        assert_eq!(row[key], *value, "{key} in {row}");
    }
}

/// Offline checks of what a stopped installation left.
fn files(site: &Site) {
    let data = site.data();
    twinlog(&["verify", data.to_str().expect("UTF-8")]).done();
    let log = data.join("orders-0/00000000000000000000.log");
    let dumped = twinlog(&["dump", log.to_str().expect("UTF-8")]).done();
    assert!(dumped.lines().count() >= 5, "a line for each batch: {dumped}");
    for name in [
        "orders-0/00000000000000000000.index",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        "recovery-point-offset-checkpoint",
    ] {
        let path = data.join(name);
        twinlog(&["dump", path.to_str().expect("UTF-8")]).done();
    }
    let mut bytes = std::fs::read(&log).expect("the segment");
    bytes[100] ^= 1;
    std::fs::write(&log, bytes).expect("the segment written");
    assert_eq!(twinlog(&["verify", data.to_str().expect("UTF-8")]).code, 1, "a flipped bit is found");
}
