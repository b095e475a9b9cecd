//! A pass proves: a topic of a hundred partitions is a running broker's in less than a second, counted from the first rename until every
//! partition answers. It measures, so it wants a machine of its own: `make promote-figures`.

use super::world::{adopt, receiver, report, text};
use serde_json::Value;
use std::time::Duration;
use twinlog_tests::command::twinlog;
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;

const LIMIT: Duration = Duration::from_secs(120);
const TOPICS: u32 = 4;
const PARTITIONS: u32 = 100;
const READABLE_MS_MAX: u64 = 1000;

#[test]
#[ignore = "it measures: make promote-figures"]
fn a_topic_of_a_hundred_partitions_is_the_brokers_within_a_second() {
    let _turn = place::turn();
    let scratch = place::scratch("adopt-scale");
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    let _source = Embedded::mirrored_by(&site, TOPICS, PARTITIONS, "400MiB", LIMIT);
    let broker = Broker::start(receiver(scratch.path(), place::KAFKA_VERSION));

    let log_dir = text(&broker.dir().join("data"));
    let report = report(adopt(&site, &broker.address(), &log_dir, &["--json"], twinlog));
    let took = |topic: &Value| topic["readableMs"].as_u64().unwrap_or_else(|| panic!("no time in {topic}"));
    let times: Vec<u64> = report["adopted"].as_array().expect("topics").iter().map(took).collect();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let steps = &report["reachedAtMs"];
    let figures = format!("{PARTITIONS} partitions each: readable after {times:?} ms; load {}; {steps}", load.trim());
    eprintln!("{figures}");
    assert_eq!(times.len(), TOPICS as usize, "{figures}");
    assert!(times.iter().all(|ms| *ms < READABLE_MS_MAX), "{figures}");
    house.down();
}
