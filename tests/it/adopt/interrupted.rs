//! A pass proves: what cannot be right is refused before anything has changed; a command that is killed at any of its named steps is run
//! again and ends right; it is taken back as long as the broker has none of the topics, and later when they were deleted there. All on the
//! oldest release, while the broker's own topic is written and read.

use super::world::{LEVELS, World, report, text};
use controlplane::handover::adopt::progress::{Step, TOPIC_POINTS};
use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::command::{twinlog, twinlog_with};
use twinlog_tests::place;
use twinlog_tests::process::until;

const OLDEST: &str = "4.0.2";
/// The topic that is handed over with many interruptions.
const PACKED: [&str; 2] = ["--topic", "packed"];
const PLAIN: [&str; 2] = ["--topic", "plain"];
/// Points at which the program that works on the files is killed, and the step of the command before that.
const FILES_KILLED_AT: [(&str, &str); 5] = [
    ("adopt-planned", "copied:2"),
    ("adopt-planned", "opened:2"),
    ("adopt-planned", "sealed"),
    ("adopt-recorded", "renamed"),
    ("adopt-recorded", "renames-durable"),
];

#[test]
fn what_is_killed_ends_right_and_what_cannot_be_right_is_refused() {
    let _turn = place::turn();
    let mut world = World::new("adopt-killed", OLDEST);
    let (wanted, pid) = (world.seen(&world.boot.clone()), world.broker.pid().expect("it runs"));
    refused(&mut world);

    for step in points() {
        let killed = world.adopt_until(step, &PACKED);
        assert_eq!(killed.code, -1, "{step}: {killed:?}");
        for (_, point) in FILES_KILLED_AT.iter().filter(|(after, _)| *after == step) {
            let variables = [("TWINLOG_HAND_OVER_KILL_AT", *point)];
            let (address, log_dir) = (world.broker.address(), world.log_dir());
            let failed = world.adopt_into(&address, &log_dir, &PACKED, |arguments| twinlog_with(&variables, arguments));
            let said = failed.refused();
            assert!(said.contains("hand-over failed") && said.contains("signal: 9"), "{point}: {said}");
        }
    }
    let done = report(world.adopt(&[&PACKED[..], &["--json"]].concat()));
    assert_eq!(done["adopted"][0]["restamped"], true, "{done}");
    let boot = world.broker.address();
    let got = LEVELS.map(|level| world.oracle.read(&boot, &["packed"], level));
    for (got, wanted) in got.iter().flatten().zip(wanted.iter().flatten().filter(|seen| seen.topic == "packed")) {
        assert_eq!((&got.digest, got.count, got.offsets), (&wanted.digest, wanted.count, wanted.offsets), "{got:?}");
    }
    assert!(world.site.cli(&["topics", "start", "dr", "--topic", "packed"]).refused().contains("adopted in"));

    mirrored_meanwhile(&mut world);
    taken_back(&mut world);
    members_and_others(&mut world);
    world.was_not_disturbed(pid);
    world.house.down();
}

/// Steps at whose points the command is killed: the work of each is done, and for some the journal says so.
fn points() -> Vec<&'static str> {
    let works = Step::KILL_POINTS.iter().step_by(2).copied();
    let mut all: Vec<&str> = works.filter(|point| *point != "adopt-begun-done").collect();
    let at = |all: &[&str], name| all.iter().position(|point| *point == name).expect("a step");
    for (behind, point) in [("adopt-planned-done", "adopt-planned"), ("adopt-recorded-done", "adopt-recorded")] {
        let at = at(&all, behind);
        all.insert(at + 1, point);
    }
    let created = at(&all, "adopt-created-done");
    all.splice(created..created, TOPIC_POINTS);
    all
}

/// Nothing has changed after any of these.
fn refused(world: &mut World) {
    let (address, log_dir) = (world.broker.address(), world.log_dir());
    let source = text(&world.source.dir().join("data"));
    let empty = text(world.scratch.path());
    let data = text(&world.site.data());
    for (address, log_dir, signs) in [
        (&address, &empty, ["is no log directory", "lock on its file .lock is free"]),
        (&address, &source, ["belongs to cluster", "none of the log directories"]),
        (&world.boot, &log_dir, ["belongs to cluster", "none of the log directories"]),
        (&address, &data, ["is no log directory", "data directory of the mirror"]),
    ] {
        let judged = world.adopt_into(address, log_dir, &["--dry-run", "--json"], twinlog);
        let found: Value = serde_json::from_str(&judged.stdout).expect("JSON");
        let blockers = found["blockers"].to_string();
        assert_eq!(judged.code, 1, "{log_dir}: {blockers}");
        assert!(signs.iter().all(|sign| blockers.contains(sign)), "{signs:?}: {blockers}");
    }
    let other = world.adopt_into("127.0.0.1:1", &log_dir, &[], twinlog).refused();
    assert!(other.contains("cannot be asked"), "{other}");
    let elsewhere = tempfile::Builder::new().tempdir_in("/dev/shm").expect("another file system");
    let away = world.adopt(&["--stage", &text(elsewhere.path())]).refused();
    assert!(away.contains("no place for copies"), "{away}");

    let leftover = Path::new(&log_dir).join("plain-1.0123456789abcdef0123456789abcdef-stray");
    std::fs::create_dir(&leftover).expect("a leftover");
    let found = world.adopt(&[]).refused();
    assert!(found.contains("plain-1.0123456789abcdef0123456789abcdef-stray"), "{found}");
    std::fs::remove_dir(&leftover).expect("removed");
    world.oracle.create(&address, "plain", 1, &json!({}));
    let exists = world.adopt(&[]).refused();
    assert!(exists.contains("topic plain exists at the destination already"), "{exists}");
    delete(world, "plain");
    let described = world.site.ask(&["mirrors", "describe", "dr"]);
    assert!(!described.to_string().contains("STOPPED"), "nothing changed: {described}");
}

/// Deletes a topic at the broker, and waits until its directories are gone.
fn delete(world: &mut World, topic: &str) {
    let boot = world.broker.address();
    world.oracle.ask(&json!({"do": "delete-topic", "boot": boot, "topic": topic}));
    let log_dir = world.log_dir();
    until("the topic's directories are gone", super::world::LIMIT, || {
        let mut entries = std::fs::read_dir(&log_dir).expect("the log directory").flatten();
        let of_topic = |name: &str| name.starts_with(&format!("{topic}-"));
        match entries.find(|entry| of_topic(&entry.file_name().to_string_lossy())) {
            Some(left) => Err(format!("{} is there", left.path().display())),
            None => Ok(()),
        }
    });
}

/// Before the broker has the topic, and after it was deleted there: mirroring goes on in the mirror's own files.
/// Copies of a topic that was started again while the command was away are never handed over: they lack what came since.
fn mirrored_meanwhile(world: &mut World) {
    let killed = world.adopt_until("adopt-copied", &PLAIN);
    assert_eq!(killed.code, -1, "{killed:?}");
    world.site.cli(&["topics", "start", "dr", "--wait", "--timeout", "60s", "--topic", "plain"]).done();
    let boot = world.boot.clone();
    world.oracle.produce(&boot, "plain", json!({"partitions": 3, "count": 30, "perBatch": 10}));
    world.has_all_of(&["plain"]);
    world.site.cli(&["topics", "stop", "dr", "--wait", "--topic", "plain"]).done();
    let said = world.adopt(&PLAIN).refused();
    assert!(said.contains("ended elsewhere") && said.contains("--undo"), "{said}");
    world.adopt(&["--undo"]).done();
}

fn taken_back(world: &mut World) {
    let killed = world.adopt_until("topic-placed", &PLAIN);
    assert_eq!(killed.code, -1, "{killed:?}");
    world.adopt(&["--undo"]).done();
    let left: Vec<_> = std::fs::read_dir(world.log_dir()).expect("the log directory").flatten().collect();
    assert!(!left.iter().any(|entry| entry.file_name().to_string_lossy().starts_with("plain-")), "{left:?}");
    let stages = std::fs::read_dir(world.broker.dir()).expect("the folder above").flatten();
    let stages: Vec<_> = stages.filter(|entry| entry.file_name().to_string_lossy().starts_with(".twinlog")).collect();
    assert!(stages.is_empty(), "{stages:?}");

    let has = world.adopt(&["--undo"]).refused();
    assert!(has.contains("has topic packed"), "{has}");
    delete(world, "packed");
    world.adopt(&["--undo"]).done();
    let boot = world.boot.clone();
    for topic in ["plain", "packed"] {
        world.oracle.produce(&boot, topic, json!({"partitions": 2, "count": 30, "perBatch": 10}));
    }
    world.has_everything();
    twinlog(&["verify", "--mirror", "dr", "--state", &text(&world.site.state()), "--against-source"]).done();
}

/// A group that has members at the broker, and one that has another offset there, are left as they are, and listed.
fn members_and_others(world: &mut World) {
    let boot = world.broker.address();
    let member = json!({"do": "join", "boot": boot, "group": "elders", "topic": "busy", "count": 1});
    world.oracle.ask(&member);
    let done = report(world.adopt(&[&PLAIN[..], &["--json"]].concat()));
    let offsets = done["groupOffsets"].as_array().expect("offsets");
    let outcomes = |group: &str| -> Vec<String> {
        offsets.iter().filter(|of| of["group"] == group).map(|of| of["refused"].to_string()).collect()
    };
    assert!(outcomes("elders").iter().all(|outcome| outcome.contains("members are in the group")), "{done}");
    assert!(!outcomes("youngsters").is_empty(), "{done}");
    assert!(outcomes("youngsters").iter().all(|outcome| outcome == "null"), "{done}");
    world.oracle.ask(&json!({"do": "leave", "boot": boot, "group": "elders"}));
}
