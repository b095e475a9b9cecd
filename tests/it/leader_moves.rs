//! A pass proves: when the leader of a partition moves to another broker and back, the mirror follows it, and the bytes stay the same.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(60);

fn leader(oracle: &mut Oracle, boot: &str) -> Value {
    let described = oracle.ask(&json!({"do": "describe", "boot": boot, "topics": ["moving"]}));
    described[0]["partitions"][1]["leader"].clone()
}

#[test]
fn a_mirror_follows_the_leader_to_another_broker_and_back() {
    let _turn = place::turn();
    let scratch = place::scratch("leader");
    let first = Broker::start(Spec::new(scratch.path().join("one")));
    let mut second = Broker::start(Spec::new(scratch.path().join("two")).joining(&first, 2));
    let boot = first.address();
    let mut oracle = Oracle::start();
    let replicas = json!({"0": [1, 2], "1": [2, 1]});
    oracle.ask(&json!({"do": "create", "boot": boot, "topic": "moving", "replicas": replicas, "config": {"min.insync.replicas": "1"}}));
    let mut sent = 0;
    let mut more = |oracle: &mut Oracle| {
        oracle.produce(&boot, "moving", json!({"partitions": 2, "count": 400, "perBatch": 10}));
        sent += 200;
        [("moving".to_owned(), 0, sent), ("moving".to_owned(), 1, sent)]
    };
    let ends = more(&mut oracle);

    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror("dr", &boot, &["moving"]);
    site.caught_up("dr", &ends, LIMIT);
    assert_eq!(leader(&mut oracle, &boot), 2);

    second.stop();
    until("the leader moves", LIMIT, || {
        let now = leader(&mut oracle, &boot);
        if now == 1 { Ok(()) } else { Err(now.to_string()) }
    });
    let ends = more(&mut oracle);
    site.caught_up("dr", &ends, LIMIT);

    second.resume();
    until("the leader moves back", LIMIT, || {
        let elected = oracle.try_ask(&json!({"do": "elect", "boot": boot, "topic": "moving", "partition": 1}));
        let now = leader(&mut oracle, &boot);
        if now == 2 { Ok(()) } else { Err(format!("{now}: {elected:?}")) }
    });
    let ends = more(&mut oracle);
    site.caught_up("dr", &ends, LIMIT);
    let row = site.partition("dr", "moving", 1).expect("described");
    assert!(row["leaderEpoch"].as_i64() >= Some(2), "{row}");
    house.down();

    let extents = copy::extents(&mut oracle, &boot, &["moving"]);
    copy::same_bytes(&first, &site.data(), &extents).expect("the same bytes");
}
