//! The yardstick itself: the folders of a stock follower must pass the checks that a finished mirror is held to.

use serde_json::json;
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;
use twinlog_tests::standby::Expected;

#[test]
fn a_stock_followers_folders_pass_the_checks_of_a_finished_copy() {
    let _turn = place::turn();
    let scratch = place::scratch("follower");
    let first = Broker::start(Spec::new(scratch.path().join("one")));
    let mut second = Broker::start(Spec::new(scratch.path().join("two")).joining(&first, 2));
    let boot = first.address();
    let mut oracle = Oracle::start();
    let mut topics = Vec::new();
    for (topic, config) in
        [("plain", json!({})), ("rolled", json!({"segment.bytes": "1048576"})), ("trimmed", json!({}))]
    {
        let request =
            json!({"do": "create", "boot": boot, "topic": topic, "replicas": {"0": [1, 2]}, "config": config});
        let id = oracle.ask(&request)["id"].as_str().expect("an id").to_owned();
        topics.push(Expected { name: topic.to_owned(), id, partitions: 1, configs: Vec::new() });
    }
    oracle.produce(&boot, "rolled", json!({"count": 3000, "perBatch": 40, "valueBytes": 1000, "incompressible": true}));
    oracle.produce(&boot, "trimmed", json!({"count": 100, "perBatch": 10}));
    for (txn, end) in [("kept", "commit"), ("dropped", "abort"), ("open", "open")] {
        oracle.produce(&boot, "plain", json!({"count": 40, "perBatch": 5, "txn": txn, "end": end, "mixed": true}));
    }
    oracle.ask(&json!({"do": "delete-records", "boot": boot, "topic": "trimmed", "before": 45}));

    let names = ["plain", "rolled", "trimmed"];
    let extents = copy::extents(&mut oracle, &boot, &names);
    let data = second.dir().join("data");
    until("the follower catches up", Duration::from_secs(30), || {
        for extent in &extents {
            let end = Log::read(&data.join(extent.folder()))?.end();
            if end < extent.end {
                return Err(format!("{end} of {extent:?}"));
            }
        }
        Ok(())
    });
    std::thread::sleep(Duration::from_secs(1)); // the high watermark and the log start reach the follower with its next fetch
    second.stop();
    copy::same_bytes(&first, &data, &extents).expect("the same bytes");
    copy::sound_folders(&data, &extents, &topics).unwrap_or_else(|why| panic!("{why}"));
    copy::accepted_by_dump_log(&data, &extents).unwrap_or_else(|why| panic!("{why}"));
}
