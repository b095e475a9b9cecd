//! A pass proves: a stock broker that runs takes the topics of a mirror without a restart, while its own topic is written and read; clients
//! see there what they saw at the source, groups go on, and a new producer is never told of a record that was not written, also after the
//! broker crashed. What is interrupted or refused is in the files beside.

mod at_scale;
mod interrupted;
mod world;

use serde_json::json;
use twinlog_tests::place;
use world::{World, report};

#[test]
fn a_broker_that_runs_takes_topics_and_clients_go_on() {
    let _turn = place::turn();
    let mut world = World::new("adopt", place::KAFKA_VERSION);
    let (wanted, pid) = (world.seen(&world.boot.clone()), world.broker.pid().expect("it runs"));
    let judged = world.adopt(&["--dry-run", "--json"]).json();
    assert_eq!((&judged["mode"], &judged["sourceMode"]), (&json!("adopt"), &json!("planned")), "{judged}");
    assert_eq!(judged["blockers"], json!([]), "{judged}");

    let report = report(world.adopt(&["--json"]));
    for topic in report["adopted"].as_array().expect("topics") {
        let restamped = topic["restampedBatches"].as_i64() > Some(0);
        assert_eq!(topic["restamped"], json!(restamped), "{topic}");
        assert_eq!(restamped, topic["topic"] != "plain", "{topic}");
        assert!(topic["topicId"].as_str().is_some_and(|id| id.len() == 22), "{topic}");
    }
    let ids = &report["producerIds"];
    assert_eq!(ids["noBlocks"], json!(null), "{ids}");
    assert!(ids["blocks"].as_u64() > Some(0), "the source's ids are taken from the controller by the thousand: {ids}");
    assert!(ids["lastGiven"]["1"].as_i64() > ids["highestMirrored"].as_i64(), "{ids}");
    let groups = report["groupOffsets"].as_array().expect("offsets");
    assert!(!groups.is_empty() && groups.iter().all(|of| of["committed"] == true), "{report}");
    world.serves(&wanted);
    assert_eq!(world.known_producers("paid", 0), Vec::<String>::new());
    world.new_producers_write(2);
    world.groups_go_on();
    world.was_not_disturbed(pid);

    world.broker.kill();
    world.broker.resume();
    world.new_producers_write(2);
    let known = world.known_producers("paid", 0);
    assert_eq!(known.len(), 4, "only producers of the broker's own: {known:?}");
    world.house.down();
}
