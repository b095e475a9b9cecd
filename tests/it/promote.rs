//! A pass proves: a mirror is handed over with one command to a stock broker, of the oldest release and of the newest, whether the node was
//! formatted before or not; clients see there what they saw at the source, groups and transactions included, and go on; there is no way
//! back by `--undo` then. What is interrupted, taken back or refused is in the files beside.

mod at_scale;
mod interrupted;
mod odd_node;
mod refused;
mod settings;
mod some_topics;
mod started_half_way;
mod world;

use serde_json::{Value, json};
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;
use world::{Started, World};

const OLDEST: &str = "4.0.2";

#[test]
fn a_node_that_nobody_formatted_takes_a_mirror_and_clients_go_on() {
    let _turn = place::turn();
    let mut world = World::new("promote-new");
    let wanted = world.seen_at_source();
    let node = world.node("standby");
    let judged: Value = serde_json::from_str(&world.promote(&node, &["--dry-run", "--json"]).done()).expect("JSON");
    assert_eq!(
        (&judged["mode"], judged["blockers"].as_array().map(Vec::len)),
        (&json!("planned"), Some(0)),
        "{judged}"
    );
    assert_eq!(judged["openTransactions"].as_array().map(Vec::len), Some(2), "{judged}");
    assert_eq!(judged["loss"]["records"], 0, "{judged}");

    let start = node.start_command();
    let done = world.promote(&node, &["--start", "--start-command", &start, "--json"]);
    let report: Value = serde_json::from_str(&done.done()).expect("JSON");
    let broker = Started::by(&report);
    assert_eq!((&report["checked"]["ok"], &report["checked"]["equalOffsets"]), (&json!(true), &json!(2)), "{report}");
    assert_eq!(report["checked"]["bootstrapRecords"], report["bootstrapRecords"], "{report}");
    assert!(report["checked"]["comparedBatches"].as_u64() > Some(5), "{report}");
    world.serves(&node.address(), &wanted);
    let described = world.site.ask(&["mirrors", "describe", "dr"]);
    let handed = described[0]["topics"][0]["handedOverTo"].as_str().map(str::to_owned);
    assert!(handed.is_some_and(|to| to.starts_with("node 1 of cluster ")), "{described}");
    let status = world.site.cli(&["status"]).done();
    assert!(status.contains("topics are handed over to node 1 of cluster "), "{status}");
    assert!(world.site.cli(&["topics", "start", "dr", "--topic", "plain"]).refused().contains("reclaim"));
    world.goes_on(&node.address());
    let again = world.promote(&node, &["--undo"]).refused();
    assert!(again.contains("reclaim"), "{again}");
    broker.stop();
    world.house.down();
}

#[test]
fn nodes_of_the_oldest_release_and_of_a_dynamic_quorum_take_a_mirror() {
    let _turn = place::turn();
    let mut world = World::new("promote-releases");
    let wanted = world.seen_at_source();
    let oldest = |name: &str| world.spec(name).version(OLDEST);
    let nodes = [
        ("oldest", oldest("oldest-node").unformatted()),
        ("formatted", oldest("formatted-node")),
        ("standalone", world.spec("standalone-node").standalone()),
    ];
    for (at, (name, spec)) in nodes.into_iter().enumerate() {
        if at > 0 {
            world.mirrored_anew(name);
        }
        let node = Broker::prepare(spec);
        let start = node.start_command();
        let report = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
        let broker = Started::by(&report);
        assert_eq!(
            (&report["checked"]["ok"], &report["checked"]["equalOffsets"]),
            (&json!(true), &json!(2)),
            "{name}: {report}"
        );
        assert_eq!(report["checked"]["bootstrapRecords"], report["bootstrapRecords"], "{name}: {report}");
        world.serves(&node.address(), &wanted);
        world.goes_on(&node.address());
        broker.stop();
    }
    world.house.down();
}
