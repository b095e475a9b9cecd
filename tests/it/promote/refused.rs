//! A pass proves: a source that is gone is no obstacle, and what would go wrong is refused before anything has changed.

use super::world::{Started, World};
use serde_json::{Value, json};
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;

#[test]
fn a_source_that_is_gone_is_no_obstacle_and_what_would_go_wrong_is_refused_first() {
    let _turn = place::turn();
    let mut world = World::new("promote-forced");
    let wanted = world.seen_at_source();
    let node = world.node("standby");

    // A broker that runs, a wrong cluster, a directory that is not the node's, a data directory of ours.
    let judged = world.promote(&world.source, &["--dry-run", "--json"]);
    let blockers: Value = serde_json::from_str(&judged.stdout).expect("JSON");
    let blockers = blockers["blockers"].to_string();
    assert_eq!(judged.code, 1, "{blockers}");
    for sign in ["used by another process", "the node was started before", "has partitions of its own"] {
        assert!(blockers.contains(sign), "{sign}: {blockers}");
    }
    let formatted = Broker::prepare(world.spec("formatted"));
    let refused = world.promote(&formatted, &["--cluster-id", "YW5vdGhlci1jbHVzdGVyMA"]).refused();
    assert!(refused.contains("--cluster-id"), "{refused}");
    let own = formatted.dir().join("data").join("plain-0");
    std::fs::create_dir(&own).expect("a partition of its own");
    let refused = world.promote(&formatted, &[]).refused();
    assert!(refused.contains("plain-0"), "{refused}");
    std::fs::rename(&own, formatted.dir().join("data/no partition")).expect("renamed");
    let refused = world.promote(&formatted, &[]).refused();
    assert!(refused.contains("no partition"), "{refused}");
    let ours = Broker::prepare(world.spec("ours").unformatted().log_dirs(vec![world.site.data()]));
    let refused = world.promote(&ours, &[]).refused();
    assert!(refused.contains("data directory of the mirror") || refused.contains("partitions of its own"), "{refused}");
    let elsewhere = tempfile::Builder::new().tempdir_in("/dev/shm").expect("another file system");
    let away = Broker::prepare(world.spec("away").unformatted().log_dirs(vec![elsewhere.path().join("data")]));
    assert!(world.promote(&away, &[]).refused().contains("file system"));
    let described = world.site.ask(&["mirrors", "describe", "dr"]);
    assert!(!described.to_string().contains("STOPPED"), "nothing changed: {described}");

    world.source.kill();
    let used = world.promote(&world.source, &[]).refused();
    assert!(used.contains("has topics of its own") && used.contains("packed, paid, plain"), "{used}");
    let refused = world.promote(&node, &["--no-forced"]).refused();
    assert!(refused.contains("does not answer"), "{refused}");
    let start = node.start_command();
    let report = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!((&report["mode"], &report["loss"]["records"]), (&json!("forced"), &json!(0)), "{report}");
    world.serves(&node.address(), &wanted);
    world.goes_on(&node.address());
    broker.stop();
    world.house.down();
}
