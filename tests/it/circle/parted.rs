//! A pass proves: of a former source with two log directories, which lost the ends of two logs in a crash and served on by itself afterwards,
//! each topic is taken back as far as both sides have the same: a shorter log at its end, one that parted where the epoch ended, one that
//! retention shortened from where it begins now; a topic that a cleaner worked on beyond the cut is refused by name, and mirrored anew.

use super::world::{LIMIT, OLD, World};
use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::copy;
use twinlog_tests::kafka::Spec;
use twinlog_tests::kafka_log::Log;
use twinlog_tests::place;
use twinlog_tests::process::until;

/// Topics with a fate of their own at A.
const FATES: [&str; 5] = ["aged", "gone", "short", "parted", "tidy"];

fn produce(world: &mut World, boot: &str, topic: &str, time: i64, count: i64) {
    let more = json!({"count": count, "perBatch": 10, "keys": 5, "time": time, "timeStep": 100});
    world.oracle.produce(boot, topic, more);
}

fn alter(world: &mut World, boot: &str, topic: &str, config: &Value) {
    world.oracle.ask(&json!({"do": "alter", "boot": boot, "topic": topic, "config": config}));
}

/// The last batch of a log was not on disk when the machine went.
fn lose_the_end(dir: &Path) {
    let log = Log::read(dir).expect("a log");
    let segment = log.segments.last().expect("a segment");
    let last = segment.batches.last().expect("a batch");
    let file = std::fs::File::options().write(true).open(&segment.path).expect("the segment");
    file.set_len(last.position).expect("cut short");
}

fn first_base(dir: &Path) -> i64 {
    Log::read(dir).expect("a log").segments[0].base
}

/// A comes back without the end of two logs, and serves by itself: retention and the cleaner run, and one log gets other records.
fn serves_on_by_itself(world: &mut World) {
    world.a.broker.resume();
    let boot = world.a.boot();
    produce(world, &boot, "parted", OLD + 500_000, 20);
    produce(world, &boot, "tidy", OLD + 500_000, 60);
    let aged: u64 = Log::read(&world.a.broker.partition_dir("aged", 0))
        .expect("a log")
        .segments
        .iter()
        .map(|segment| std::fs::metadata(&segment.path).expect("a file").len())
        .sum();
    alter(world, &boot, "aged", &json!({"retention.bytes": (aged / 2).to_string()}));
    alter(world, &boot, "gone", &json!({"retention.ms": "1000"}));
    alter(world, &boot, "tidy", &json!({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}));
    until("retention and the cleaner have run", LIMIT, || {
        let dir = |topic| world.a.broker.partition_dir(topic, 0);
        let seen = (first_base(&dir("aged")), first_base(&dir("gone")), world.a.broker.cleaned("tidy", 0));
        if seen.0 > 0 && seen.1 == 100 && seen.2 > 100 { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    world.a.broker.kill();
}

fn taken<'a>(looked: &'a Value, topic: &str) -> &'a Value {
    let rows = looked["partitions"].as_array().expect("partitions");
    rows.iter().find(|row| row["topic"] == topic).unwrap_or_else(|| panic!("{topic} in {looked}"))
}

#[test]
fn a_former_source_that_lost_ends_and_served_on_gives_what_both_sides_have() {
    let _turn = place::turn();
    let mut world = World::new("circle-parted", &[], Spec::two_log_dirs);
    let boot_a = world.a.boot();
    for topic in FATES {
        world.oracle.create(&boot_a, topic, 1, &json!({"segment.ms": "2000", "retention.ms": "-1"}));
        produce(&mut world, &boot_a, topic, OLD, 100);
        world.b.start(topic);
    }
    let ends = FATES.map(|topic| (topic.to_owned(), 0, 100));
    world.b.site.caught_up("dr", &ends, LIMIT);
    world.b.sync();
    world.a.broker.kill();
    for topic in ["short", "parted"] {
        lose_the_end(&world.a.broker.partition_dir(topic, 0));
    }
    world.b.promote();
    serves_on_by_itself(&mut world);

    let boot_b = world.b.boot();
    for topic in FATES {
        produce(&mut world, &boot_b, topic, OLD + 900_000, 20);
    }
    world.a.create(&boot_b);
    let from_b = world.b.site.listen.clone();
    let some = ["plain", "paid", "aged", "gone", "short", "parted"];
    let mut more = vec!["--lmo-from", from_b.as_str()];
    some.iter().for_each(|topic| more.extend(["--topic", topic]));
    let ran = world.a.reclaim(&["--lmo-from", &from_b, "--dry-run", "--json"]);
    let looked: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|why| panic!("{why}: {ran:?}"));
    let blockers = looked["blockers"].as_array().expect("blockers");
    assert!(ran.code == 1 && blockers.len() == 1, "{ran:?}");
    assert!(blockers[0]["what"].as_str().is_some_and(|what| what.contains("tidy-0") && what.contains("cleaner")));
    let looked = world.a.reclaim(&[&more[..], &["--dry-run", "--json"]].concat()).done();
    let looked: Value = serde_json::from_str(&looked).expect("JSON");
    let cut = |topic| {
        let row = taken(&looked, topic);
        ["logStartOffset", "lastMirroredOffset", "records"].map(|name| row[name].as_i64().expect("a number"))
    };
    assert_eq!((cut("short"), cut("parted"), cut("gone")), ([0, 90, 0], [0, 90, 20], [100, 100, 0]), "{looked}");
    let aged = cut("aged")[0];
    assert!(0 < aged && aged < 100, "{looked}");
    let warnings = looked["warnings"].to_string();
    for sign in ["short-0 up to offset 100", "parted-0 up to offset 100", &format!("offsets 0 to {aged} of aged-0")] {
        assert!(warnings.contains(sign), "{sign}: {warnings}");
    }

    world.a.reclaim(&more).done();
    some.iter().chain(&["tidy"]).for_each(|topic| world.a.start(topic));
    let all = [&some[..], &["tidy"]].concat();
    let mut extents = copy::extents(&mut world.oracle, &boot_b, &all);
    let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    world.a.site.caught_up("dr", &ends, LIMIT);
    for extent in &mut extents {
        extent.start = extent.start.max(first_base(&world.a.site.data().join(extent.folder())));
    }
    let begins = |topic: &str| extents.iter().find(|e| e.topic == topic).expect("a partition").start;
    assert_eq!((begins("aged"), begins("gone"), begins("short"), begins("tidy")), (aged, 100, 0, 0));
    copy::same_bytes(&world.b.broker, &world.a.site.data(), &extents).expect("the same bytes");
    world.b.broker.stop();
    world.a.house.down();
    world.b.house.down();
}
