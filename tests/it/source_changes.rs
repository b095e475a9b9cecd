//! A pass proves: when the source forgets records, the mirror follows; when it forgot what the mirror still needed, or made the topic
//! anew, the partition fails with a message that says so, and nothing of the old copy is lost.

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

/// Batches of ten, every one in a segment of its own, from an hour ago.
fn spread(oracle: &mut Oracle, boot: &str, count: i64) {
    let old = 1_790_000_000_000_i64;
    oracle.produce(boot, "orders", json!({"count": count, "perBatch": 10, "time": old, "timeStep": 100}));
}

fn failed(site: &Site) -> Value {
    until("the partition fails", LIMIT, || {
        let row = site.partition("dr", "orders", 0)?;
        if row["state"] == "FAILED" { Ok(row) } else { Err(row.to_string()) }
    })
}

struct Scene {
    source: Broker,
    oracle: Oracle,
    boot: String,
    site: Site,
    _scratch: tempfile::TempDir,
}

/// A source whose topic `orders` has 100 records in ten segments, mirrored by a running house.
fn scene(name: &str) -> (Scene, House) {
    let scratch = place::scratch(name);
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    oracle.create(&boot, "orders", 1, &json!({"segment.ms": "200", "retention.ms": "-1"}));
    spread(&mut oracle, &boot, 100);
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &boot, &["orders"]);
    site.caught_up("dr", &[("orders".to_owned(), 0, 100)], LIMIT);
    (Scene { source, oracle, boot, site, _scratch: scratch }, house)
}

impl Scene {
    fn forget(&mut self, before: i64) {
        self.oracle.ask(&json!({"do": "delete-records", "boot": self.boot, "topic": "orders", "before": before}));
    }

    fn log(&self) -> Log {
        Log::read(&self.site.data().join("orders-0")).expect("a sound log")
    }
}

#[test]
fn the_mirror_follows_the_sources_log_start() {
    let _turn = place::turn();
    let (mut scene, house) = scene("forgets");
    assert!(scene.log().segments.len() >= 9, "rolled by time as the source did");
    scene.forget(45);
    let site = scene.site.clone();
    until("the log start follows", LIMIT, || {
        let row = site.partition("dr", "orders", 0)?;
        if row["logStartOffset"] == 45 { Ok(()) } else { Err(row.to_string()) }
    });
    until("the old segments go", LIMIT, || {
        let bases: Vec<_> = scene.log().segments.iter().map(|s| s.base).collect();
        if bases.first() == Some(&40) { Ok(()) } else { Err(format!("{bases:?}")) }
    });
    scene.forget(100);
    until("an emptied partition stays at its end", LIMIT, || {
        let row = site.partition("dr", "orders", 0)?;
        if row["logStartOffset"] == 100 && row["destinationOffset"] == 100 { Ok(()) } else { Err(row.to_string()) }
    });
    spread(&mut scene.oracle, &scene.boot, 30);
    site.caught_up("dr", &[("orders".to_owned(), 0, 130)], LIMIT);
    house.down();
    let extents = copy::extents(&mut scene.oracle, &scene.boot, &["orders"]);
    copy::same_bytes(&scene.source, &site.data(), &extents).expect("the same bytes");
}

#[test]
fn records_that_the_source_forgot_before_they_were_mirrored_are_not_skipped_silently() {
    let _turn = place::turn();
    let (mut scene, house) = scene("gap");
    house.down();
    spread(&mut scene.oracle, &scene.boot, 100);
    scene.forget(150);
    let house = House::up(&scene.site);
    let row = failed(&scene.site);
    let message = row["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("100") && message.contains("150"), "the range is named: {row}");
    house.down();
    assert_eq!(scene.log().end(), 100, "the old copy stays");
}

#[test]
fn a_topic_that_was_made_anew_is_not_mixed_with_the_old_one() {
    let _turn = place::turn();
    let (mut scene, house) = scene("anew");
    let before = std::fs::read(scene.site.data().join("orders-0/partition.metadata")).expect("partition.metadata");
    scene.oracle.ask(&json!({"do": "delete-topic", "boot": scene.boot, "topic": "orders"}));
    std::thread::sleep(Duration::from_secs(2));
    scene.oracle.create(&scene.boot, "orders", 1, &json!({}));
    spread(&mut scene.oracle, &scene.boot, 300);
    let row = failed(&scene.site);
    assert!(row["errorMessage"].is_string(), "{row}");
    house.down();
    assert_eq!(scene.log().end(), 100, "the old copy stays");
    let after = std::fs::read(scene.site.data().join("orders-0/partition.metadata")).expect("partition.metadata");
    assert_eq!(before, after, "and its topic id");
}
