//! A pass proves: a start from scratch throws away what rests, whatever became of it (behind a gap, damaged, written to after the stop,
//! of a topic that was deleted and made anew with fewer partitions), says what that was, and ends in the source's bytes under the
//! source's id; a copy that flows is refused. What is thrown away is gone before anything is mirrored, and never twice: planes that
//! are killed in between end right, also one without the other.

use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{House, Plane, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::{Log, topic_id};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(60);
const TOPICS: [&str; 5] = ["anew", "damaged", "flows", "gap", "written"];

/// Waits until the partition is in `state`; its row.
fn reaches(site: &Site, topic: &str, partition: i64, state: &str) -> Value {
    until(&format!("{topic}-{partition} becomes {state}"), LIMIT, || {
        let row = site.partition("dr", topic, partition)?;
        if row["state"] == state { Ok(row) } else { Err(row.to_string()) }
    })
}

fn produce(oracle: &mut Oracle, boot: &str, topic: &str, partitions: i32, count: i64) {
    let old = 1_790_000_000_000_i64;
    let records = json!({"count": count, "perBatch": 10, "partitions": partitions, "time": old, "timeStep": 100});
    oracle.produce(boot, topic, records);
}

/// Cuts a log offline, as somebody who works on a stopped topic may.
fn cut(dir: &Path, offset: &str) {
    let done = std::process::Command::new(place::binary("twinlog-dataplane"))
        .args(["cut", "--offset", offset])
        .arg(dir)
        .status();
    assert!(done.is_ok_and(|status| status.success()), "twinlog-dataplane cut {}", dir.display());
}

/// Overwrites a byte of the first segment and removes its index, so that the next start reads it.
fn damage(dir: &Path) {
    let first = dir.join("00000000000000000000.log");
    let mut bytes = std::fs::read(&first).expect("the first segment");
    let at = bytes.len() - 3;
    bytes[at] ^= 0x55;
    std::fs::write(&first, bytes).expect("written back");
    std::fs::remove_file(dir.join("00000000000000000000.index")).expect("its index");
}

/// Four copies that are not the source's any more, while the house is down: cut, damaged, behind a gap, of another topic.
fn spoil(oracle: &mut Oracle, boot: &str, data: &Path) {
    cut(&data.join("written-0"), "60");
    damage(&data.join("damaged-0"));
    for topic in ["gap", "flows"] {
        produce(oracle, boot, topic, 2, 100);
    }
    oracle.ask(&json!({"do": "delete-records", "boot": boot, "topic": "gap", "before": 130}));
    oracle.ask(&json!({"do": "delete-topic", "boot": boot, "topic": "anew"}));
    until("the topic is gone", LIMIT, || {
        match oracle.try_ask(&json!({"do": "offsets", "boot": boot, "topic": "anew"})) {
            Ok(told) => Err(told.to_string()),
            Err(_gone) => Ok(()),
        }
    });
    oracle.create(boot, "anew", 1, &json!({}));
    produce(oracle, boot, "anew", 1, 30);
}

/// Every one of them says what it is and what to do, and the old copy stays until the order.
fn refuses_less(site: &Site, data: &Path) {
    for (topic, fault) in [("gap", "gap"), ("damaged", "log_corrupt"), ("anew", "recreated")] {
        let row = reaches(site, topic, 0, "FAILED");
        assert!(row["errorMessage"].as_str().is_some_and(|why| why.starts_with(fault)), "{row}");
    }
    let old = Log::read(&data.join("anew-1")).expect("the old copy stays until the order").end();
    assert_eq!(old, 100);
    let refused = site.cli(&["topics", "start", "dr", "--topic", "written"]).refused();
    assert!(refused.contains("--from-scratch"), "the remedy is named: {refused}");
    let refused = site.cli(&["topics", "start", "dr", "--topic", "flows", "--from-scratch"]).refused();
    assert!(refused.contains("stop the topic"), "{refused}");
    for topic in ["gap", "damaged", "anew"] {
        // Where one partition failed the others flow.
        let ran = site.cli(&["topics", "stop", "dr", "--topic", topic, "--wait", "--timeout", "5s"]);
        assert!(ran.code == 0 || topic != "gap", "{ran:?}");
    }
}

#[test]
fn whatever_became_of_a_copy_a_start_from_scratch_makes_it_the_sources_again() {
    let _turn = place::turn();
    let scratch = place::scratch("scratch");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    for topic in TOPICS {
        oracle.create(&boot, topic, 2, &json!({"segment.ms": "200", "retention.ms": "-1"}));
        produce(&mut oracle, &boot, topic, 2, 200);
    }
    let site = Site::new(scratch.path().join("site"));
    let data = site.data();
    let house = House::up(&site);
    site.mirror("dr", &boot, &TOPICS);
    let hundred: Vec<_> = TOPICS.iter().flat_map(|t| [((*t).to_owned(), 0, 100), ((*t).to_owned(), 1, 100)]).collect();
    site.caught_up("dr", &hundred, LIMIT);
    site.cli(&["topics", "stop", "dr", "--topic", "written", "--wait"]).done();
    house.down();

    spoil(&mut oracle, &boot, &data);
    let house = House::up(&site);
    refuses_less(&site, &data);
    let mut start = vec!["topics", "start", "dr", "--from-scratch", "--wait"];
    ["anew", "damaged", "gap", "written"].iter().for_each(|topic| start.extend(["--topic", topic]));
    let ran = site.cli(&start);
    assert_eq!(ran.code, 0, "{ran:?}");
    for said in
        ["topic written", "partition 0 offsets 0 to 60 (exclusive)", "topic gap", "offsets 0 to 100 (exclusive)"]
    {
        assert!(ran.stderr.contains(said), "{said:?} in {}", ran.stderr);
    }
    let extents = copy::extents(&mut oracle, &boot, &TOPICS);
    let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    site.caught_up("dr", &ends, LIMIT);
    assert!(!data.join("anew-1").exists(), "a partition that the source has no longer");
    assert!(site.partition("dr", "anew", 1).is_err(), "and it is forgotten");
    let ends = site.ask(&["lmo", "dr", "--topic", "written"]);
    assert_eq!(ends[0]["lastMirroredOffset"], 0, "where mirroring once ended is no truth any more: {ends}");
    assert!(house.log().contains("thrown away by order"), "{}", house.log());
    house.down();
    copy::same_bytes(&source, &data, &extents).expect("the same bytes");
    for extent in &extents {
        let (ours, theirs) = (data.join(extent.folder()), source.partition_dir(&extent.topic, extent.partition));
        assert_eq!(topic_id(&ours), topic_id(&theirs), "{extent:?}");
    }
    let left: Vec<_> = std::fs::read_dir(&data)
        .expect("the data directory")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    assert!(left.iter().all(|name| !name.ends_with("-delete")), "{left:?}");
}

#[test]
fn planes_that_are_killed_while_files_are_thrown_away_end_right() {
    let _turn = place::turn();
    let scratch = place::scratch("scratch-killed");
    let source = Embedded::start(2, 2, "2MiB", "8KB");
    let site = Site::new(scratch.path().join("site"));
    let (topic, folder) = ("bench-00000", site.data().join("bench-00000-0"));
    let (data, control) = (Plane::data(&site), Plane::control(&site));
    serves(&site);
    site.mirror("dr", &source.address, &[topic]);
    holds_records(&site, topic);
    let age = |folder: &Path| {
        std::fs::metadata(folder.join("partition.metadata")).ok().map(|file| (file.ino(), file.ctime_nsec()))
    };
    let first = age(&folder).expect("a copy");
    site.cli(&["topics", "stop", "dr", "--topic", topic, "--wait"]).done();

    // The order is taken while there is no data plane; nobody has thrown anything away yet.
    data.kill();
    site.cli(&["topics", "start", "dr", "--topic", topic, "--from-scratch"]).done();
    control.kill();
    assert_eq!(age(&folder), Some(first));
    // A data plane alone carries it out, as often as it starts, and mirrors nothing: it cannot know whether it did so before.
    for _ in 0..2 {
        let data = Plane::data(&site);
        until("the folder goes", LIMIT, || {
            if folder.exists() { Err("it is there") } else { Ok(()) }.map_err(str::to_owned)
        });
        data.kill();
        assert!(!folder.exists());
        // As a kill in the middle leaves it.
        std::fs::create_dir_all(aside(&folder)).expect("a folder that was going away");
        std::fs::write(aside(&folder).join("00000000000000000000.log"), b"old").expect("a file of it");
    }
    let (data, control) = (Plane::data(&site), Plane::control(&site));
    serves(&site);
    holds_records(&site, topic);
    assert!(!aside(&folder).exists(), "what was left is gone too");
    let anew = age(&folder).expect("a new copy");
    assert_ne!(anew, first);
    // From now on it is a copy like any other.
    let leo = |row: &Value| row["destinationOffset"].as_i64().unwrap_or(-1);
    let before = leo(&site.partition("dr", topic, 0).expect("a partition"));
    data.kill();
    control.kill();
    let (data, control) = (Plane::data(&site), Plane::control(&site));
    serves(&site);
    until("the copy goes on", LIMIT, || match site.partition("dr", topic, 0)? {
        row if row["state"] == "MIRRORING" && leo(&row) > before => Ok(()),
        row => Err(row.to_string()),
    });
    assert_eq!(age(&folder), Some(anew), "nothing is thrown away twice");
    control.stop();
    data.stop();
}

fn aside(folder: &Path) -> std::path::PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
    folder.with_file_name(format!("{name}.{}-delete", "0".repeat(32)))
}

fn serves(site: &Site) {
    until("the control plane serves", LIMIT, || {
        let ran = site.cli(&["mirrors", "list"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
}

fn holds_records(site: &Site, topic: &str) {
    for partition in 0..2 {
        until("records are there", LIMIT, || match site.partition("dr", topic, partition)? {
            row if row["state"] == "MIRRORING" && row["flushedOffset"].as_i64() > Some(0) => Ok(()),
            row => Err(row.to_string()),
        });
    }
}
