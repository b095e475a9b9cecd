//! A pass proves: a broker that something starts on a hand-over that is half done costs nothing: promote and its undo refuse to go on, and
//! what they say to do leads back to the mirror as it was, and to a hand-over that ends right.

use super::world::{Started, World};
use serde_json::{Value, json};
use std::fs;
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;

const STRAY: &str = "-stray";

#[test]
fn a_broker_that_is_started_on_half_a_hand_over_costs_nothing() {
    let _turn = place::turn();
    let mut world = World::new("promote-early");
    let wanted = world.seen_at_source();
    let mut node = Broker::prepare(world.spec("early"));
    let killed = world.promote_until(&node, "moved", &[]);
    assert_eq!(killed.code, -1, "{killed:?}");
    node.resume();
    node.stop();
    let strays = |node: &Broker| -> Vec<String> {
        let entries = fs::read_dir(node.dir().join("data")).expect("the log directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        names.filter(|name| name.ends_with(STRAY)).collect()
    };
    assert!(strays(&node).len() > 5, "the broker does not know them: {:?}", strays(&node));

    for option in [&[][..], &["--undo"]] {
        let told = world.promote(&node, option).refused();
        assert!(told.contains("-stray") && told.contains("__cluster_metadata-0"), "{told}");
    }
    let data = node.dir().join("data");
    for name in strays(&node) {
        let (own, _) = name.split_once('.').expect("a name and an id");
        fs::rename(data.join(&name), data.join(own)).expect("renamed back");
    }
    let metadata = data.join("__cluster_metadata-0");
    for entry in fs::read_dir(&metadata).expect("its metadata") {
        let path = entry.expect("an entry").path();
        if !path.ends_with("00000000000000000000-0000000000.checkpoint") {
            fs::rename(&path, node.dir().join(path.file_name().expect("a name"))).expect("moved away");
        }
    }
    world.promote(&node, &["--undo"]).done();
    world.has_everything();
    let start = node.start_command();
    let report: Value = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!(report["checked"]["ok"], json!(true), "{report}");
    world.serves(&node.address(), &wanted);
    world.goes_on(&node.address());
    broker.stop();
    world.house.down();
}
