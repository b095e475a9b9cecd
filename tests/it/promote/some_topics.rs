//! A pass proves: some topics of a mirror are handed over while the others are mirrored on, some of those are taken back, and all of them go
//! to another node in the end.

use super::world::{Started, World, text};
use serde_json::{Value, json};
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;
use twinlog_tests::process::until;

#[test]
fn some_topics_are_handed_over_and_taken_back_while_the_others_are_mirrored_on() {
    let _turn = place::turn();
    let mut world = World::new("promote-some");
    let node = world.node("some");
    let start = node.start_command();
    let report = world.promote(&node, &["--topic", "plain", "--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!(report["checked"]["ok"], json!(true), "{report}");
    assert_eq!(handed_over(&world), ["__consumer_offsets", "__transaction_state", "plain"]);
    let boot = world.boot.clone();
    world.oracle.produce(&boot, "packed", json!({"partitions": 2, "count": 40, "perBatch": 20}));
    until("the others are mirrored on", super::world::LIMIT, || {
        let described = world.site.ask(&["mirrors", "describe", "dr", "--topic", "packed"]);
        let ends = described[0]["topics"][0]["partitions"].as_array().cloned().unwrap_or_default();
        let is_there = ends.iter().all(|row| row["flushedOffset"] == 120 && row["lagRecords"] == 0);
        if is_there && ends.len() == 2 { Ok(()) } else { Err(described.to_string()) }
    });
    broker.stop();

    let refused = reclaim(&world, &node, &["--topic", "packed"]).refused();
    assert!(refused.contains("packed"), "{refused}");
    reclaim(&world, &node, &["--topic", "plain"]).done();
    assert_eq!(handed_over(&world), ["__consumer_offsets", "__transaction_state"]);
    reclaim(&world, &node, &[]).done();
    assert_eq!(handed_over(&world), Vec::<String>::new());
    // The topics of the coordinators do not follow by themselves: others never stopped.
    let next = world.node("all");
    let judged: Value = serde_json::from_str(&world.promote(&next, &["--dry-run", "--json"]).done()).expect("JSON");
    let warned = judged["warnings"].to_string();
    assert!(warned.contains("not mirrored now") && warned.contains("__consumer_offsets-0 (STOPPED)"), "{warned}");
    let topics = ["plain", "__consumer_offsets", "__transaction_state"].map(|name| ["--topic", name]).concat();
    world.site.cli(&[&["topics", "start", "dr"], &topics[..]].concat()).done();
    world.has_everything();

    let wanted = world.seen_at_source();
    let start = next.start_command();
    let report = world.promote(&next, &["--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!(report["checked"]["ok"], json!(true), "{report}");
    world.serves(&next.address(), &wanted);
    world.goes_on(&next.address());
    broker.stop();
    world.house.down();
}

fn reclaim(world: &World, node: &Broker, more: &[&str]) -> Ran {
    let (properties, state) = (text(&node.dir().join("server.properties")), text(&world.site.state()));
    let own = ["reclaim", "dr", "--from", &properties, "--state", &state, "--bootstrap-server", &world.site.listen];
    twinlog(&[&own, more].concat())
}

/// The topics that a broker has, as the control plane knows.
fn handed_over(world: &World) -> Vec<String> {
    let described: Value = world.site.ask(&["mirrors", "describe", "dr"]);
    let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
    let handed = topics.iter().filter(|topic| !topic["handedOverTo"].is_null());
    let mut names: Vec<String> = handed.filter_map(|topic| topic["topic"].as_str().map(str::to_owned)).collect();
    names.sort();
    names
}
