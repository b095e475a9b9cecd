//! A pass proves: from the command to the first acknowledged record, handing over a thousand partitions takes at most one and a half times
//! what the same broker takes to start by itself with the same logs. It measures, so it wants a machine of its own: `make promote-figures`.

use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use twinlog_tests::command::twinlog;
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

use super::world::{Started, text};

const LIMIT: Duration = Duration::from_secs(300);
const TOPICS: u32 = 100;
const PARTITIONS: u32 = 10;
const RATIO_MAX: f64 = 1.5;

#[test]
#[ignore = "it measures: make promote-figures"]
fn handing_over_a_thousand_partitions_takes_little_longer_than_a_start_with_them() {
    let _turn = place::turn();
    let scratch = place::scratch("promote-scale");
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    let _source = Embedded::mirrored_by(&site, TOPICS, PARTITIONS, "40MiB", LIMIT);
    let node = Broker::prepare(Spec::new(scratch.path().join("node")).unformatted());
    let mut oracle = client_that_has_run(&scratch.path().join("other"));
    let start = node.start_command();

    let begun = Instant::now();
    let (report, promoted) = std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            let (to, state) = (text(&node.dir().join("server.properties")), text(&site.state()));
            let own = ["promote", "dr", "--to", &to, "--state", &state, "--bootstrap-server", &site.listen];
            twinlog(&[&own[..], &["--start", "--start-command", &start, "--json"]].concat())
        });
        let promoted = first_acknowledged(&node, &mut oracle, begun);
        (ran.join().expect("promote ran").json(), promoted)
    });
    let broker = Started::by(&report);
    assert_eq!(report["checked"]["ok"], true, "{}", report["checked"]["failures"]);
    broker.stop();

    let begun = Instant::now();
    let again = Started(spawn(&start, &node.dir().join("server.properties")));
    let own = first_acknowledged(&node, &mut oracle, begun);
    again.stop();
    house.down();
    let ratio = promoted.as_secs_f64() / own.as_secs_f64();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let steps = steps(&report);
    let figures = format!(
        "{} partitions: {promoted:.2?} from promote to the first acknowledged record, {own:.2?} from the broker's own start: x {ratio:.2}; \
         load {}{steps}",
        TOPICS * PARTITIONS,
        load.trim()
    );
    eprintln!("{figures}");
    assert!(ratio <= RATIO_MAX, "{figures}");
}

/// A client that has produced before, somewhere else: those that wait for a broker are no new processes, and the second figure has one
/// that ran before anyway.
fn client_that_has_run(dir: &Path) -> Oracle {
    let mut other = Broker::start(Spec::new(dir));
    let mut oracle = Oracle::start();
    oracle.create(&other.address(), "other", 1, &json!({}));
    oracle.produce(&other.address(), "other", json!({"count": 1}));
    other.stop();
    oracle
}

/// When a broker acknowledges the first record, since `begun`.
fn first_acknowledged(node: &Broker, oracle: &mut Oracle, begun: Instant) -> Duration {
    until("the broker listens", LIMIT, || {
        TcpStream::connect(node.address()).map(drop).map_err(|cause| cause.to_string())
    });
    let request = json!({"do": "produce", "boot": node.address(), "topic": "bench-00000", "partition": 0, "count": 1});
    until("a record is acknowledged", LIMIT, || oracle.try_ask(&request).map(drop));
    begun.elapsed()
}

/// Starts the broker as promote does; gives its process.
fn spawn(start: &str, properties: &Path) -> u32 {
    let line = format!("exec {start} '{}' > '{}.again' 2>&1", properties.display(), properties.display());
    let spawned = Command::new("setsid").args(["/bin/sh", "-c", &line]).stdin(Stdio::null()).spawn();
    spawned.expect("the broker starts").id()
}

/// What each step took, ms since it was decided.
fn steps(report: &Value) -> String {
    let begun = report["begunAtMs"].as_i64().unwrap_or(0);
    let mut steps: Vec<(i64, &String)> = report["reachedAtMs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(step, at)| (at.as_i64().unwrap_or(0) - begun, step))
        .collect();
    steps.sort();
    steps.iter().map(|(at, step)| format!("; {step} +{at} ms")).collect()
}
