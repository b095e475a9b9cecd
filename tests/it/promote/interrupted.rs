//! A pass proves: a command that is killed at any of its named steps, or whose work on the files is, is run again and ends the same, with
//! mirroring's ends where they were; it is taken back from any of them as long as no broker was started, and mirroring goes on.

use super::world::{LEVELS, LIMIT, Started, TOPICS, World, text};
use controlplane::handover::journal::Step;
use serde_json::json;
use twinlog_tests::command::{twinlog, twinlog_with};
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;
use twinlog_tests::process::until;

const CLUSTER: &str = "c3RhbmRieS1jbHVzdGVyMA";
/// Points at which the program that works on the files is killed, in their order.
const FILES_KILLED_AT: [&str; 6] =
    ["plan-checked", "renamed:3", "opened:2", "appended", "finished:2", "checkpoints-written"];

#[test]
fn a_command_that_is_killed_at_every_step_ends_right_on_a_formatted_node() {
    let _turn = place::turn();
    let mut world = World::new("promote-killed");
    let wanted = world.seen_at_source();
    let node = Broker::prepare(world.spec("standby").cluster_id(CLUSTER));
    let start = node.start_command();
    let mut ends = None;
    for step in Step::KILL_POINTS {
        let killed = world.promote_until(&node, step, &["--start", "--start-command", &start]);
        assert_eq!(killed.code, -1, "{step}: {killed:?}");
        match *step {
            "stopped" => ends = Some(world.ends()),
            "laid-out" => killed_in_the_files(&world, &node),
            "promoted" => killed_while_the_broker_starts(&world, &node, &start),
            _ => {}
        }
    }
    let report = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
    let first = Started::by(&report);
    assert_eq!(starts(&world), 1, "one broker was started, and the others waited for it");
    drop(first);
    until("the broker is gone", LIMIT, || match std::net::TcpStream::connect(node.address()) {
        Ok(_) => Err("it listens".to_owned()),
        Err(_) => Ok(()),
    });
    let report = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!(starts(&world), 2, "one that is gone is started again");
    assert_eq!((&report["checked"]["ok"], &report["clusterId"]), (&json!(true), &json!(CLUSTER)), "{report}");
    assert_eq!(report["checked"]["equalOffsets"], 2, "{report}");
    assert_eq!(Some(world.ends()), ends, "where mirroring ended has moved");
    world.serves(&node.address(), &wanted);
    world.goes_on(&node.address());
    broker.stop();
    world.house.down();
}

/// A broker that is starting has no lock yet and stands in no journal.
fn killed_while_the_broker_starts(world: &World, node: &Broker, start: &str) {
    let killed = world.promote_until(node, "spawned", &["--start", "--start-command", start]);
    assert_eq!(killed.code, -1, "{killed:?}");
    let said = world.promote(node, &["--undo"]).refused();
    assert!(said.contains("the broker that was started for it is there"), "{said}");
}

/// How many brokers wrote to the output that the command gives them.
fn starts(world: &World) -> usize {
    let log = world.site.state().join("handover/dr-server.log");
    let text = std::fs::read_to_string(&log).unwrap_or_else(|cause| panic!("{}: {cause}", log.display()));
    text.matches("Registered kafka:type=kafka.Log4jController")
        .count()
        .max(text.matches("Kafka Server started").count())
}

/// The command lives on when its helper is killed, and says so.
fn killed_in_the_files(world: &World, node: &Broker) {
    for step in FILES_KILLED_AT {
        let variables = [("TWINLOG_HAND_OVER_KILL_AT", step)];
        let failed = world.promote_with(node, &[], |arguments| twinlog_with(&variables, arguments));
        let said = failed.refused();
        assert!(said.contains("hand-over failed") && said.contains("signal: 9"), "{step}: {said}");
    }
}

#[test]
fn what_was_taken_back_is_mirrored_on_and_handed_over_later() {
    let _turn = place::turn();
    let mut world = World::new("promote-undone");
    let (boot, mut node) = (world.boot.clone(), world.node("standby"));
    for (step, undo_step) in [
        ("stopped", "begun"),
        ("recorded-done", "planned"),
        ("moved-done", "laid-out-done"),
        ("identified", "moved"),
        ("promoted", "identified-done"),
    ] {
        let killed = world.promote_until(&node, step, &[]);
        assert_eq!(killed.code, -1, "{step}: {killed:?}");
        let half = world.promote_until(&node, undo_step, &["--undo"]);
        assert_eq!(half.code, -1, "{step}, {undo_step}: {half:?}");
        assert!(world.promote(&node, &[]).refused().contains("--undo"), "{step}");
        world.promote(&node, &["--undo"]).done();
        world.oracle.produce(&boot, "plain", json!({"partitions": 3, "count": 30, "perBatch": 10}));
        world.has_everything();
    }
    let left: Vec<_> = std::fs::read_dir(node.dir().join("data")).expect("the log directory").flatten().collect();
    let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|entry| !entry.path().is_dir()), "{names:?}");
    assert!(!names.iter().any(|name| name == "bootstrap.checkpoint" || name == "meta.properties"), "{names:?}");
    let wanted = world.seen_at_source();
    twinlog(&["verify", "--mirror", "dr", "--state", &text(&world.site.state()), "--against-source"]).done();
    world.promote(&node, &[]).done();
    node.resume();
    world.serves(&node.address(), &wanted);
    assert_eq!(world.oracle.read(&node.address(), &TOPICS.map(|(name, _)| name), LEVELS[0]).len(), 7);
    node.stop();
    world.house.down();
}
