//! A pass proves: a data plane that is killed at any moment of a copy comes back by itself, and the copy ends in the source's bytes, no
//! batch twice and none missing, in folders as sound as those of a copy that was never disturbed.

use serde_json::json;
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{Plane, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;
use twinlog_tests::standby::Expected;

const KILLS: u32 = 20;
/// The longest life of a data plane in milliseconds; the shortest is none.
const LIFE_MS_MAX: u64 = 700;
const COPY_LIMIT: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 6;

/// A small generator, so that a failure can be played again: `TWINLOG_SEED`.
struct Seeded(u64);

impl Seeded {
    fn new() -> Self {
        let given = std::env::var("TWINLOG_SEED").ok().and_then(|s| s.parse().ok());
        let seed = given.unwrap_or(20_261_130);
        eprintln!("TWINLOG_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// One batch an answer: the copy takes long enough to be killed many times in its middle.
const SLOW: [&str; 2] = ["mirror.fetch.max.bytes=1000", "mirror.fetch.response.max.bytes=1000"];

/// A backlog of small batches in small segments, transactions, and two streams that go on: small batches, and batches of a megabyte.
fn fill(oracle: &mut Oracle, boot: &str) -> Vec<Expected> {
    let mut topics = Vec::new();
    for (name, partitions, config) in
        [("flow", PARTITIONS, json!({"segment.bytes": "1048576"})), ("bulk", 2, json!({"segment.bytes": "20971520"}))]
    {
        let id = oracle.create(boot, name, partitions, &config);
        topics.push(Expected { name: name.to_owned(), id, partitions, configs: Vec::new() });
    }
    let backlog =
        json!({"partitions": PARTITIONS, "count": 60_000, "perBatch": 20, "valueBytes": 1000, "incompressible": true});
    oracle.produce(boot, "flow", backlog);
    for (txn, end) in [("kept", "commit"), ("dropped", "abort"), ("open", "open")] {
        let request = json!({"partitions": PARTITIONS, "count": 600, "perBatch": 10, "txn": txn, "end": end});
        oracle.produce(boot, "flow", request);
    }
    let streams = [
        json!({"do": "stream-start", "name": "small", "topic": "flow", "partitions": PARTITIONS, "perBatch": 20, "valueBytes": 1000, "pauseMs": 5}),
        json!({"do": "stream-start", "name": "large", "topic": "bulk", "partitions": 2, "perBatch": 900, "valueBytes": 1000, "pauseMs": 50}),
    ];
    for mut stream in streams {
        stream["boot"] = boot.into();
        oracle.ask(&stream);
    }
    topics
}

#[test]
fn a_data_plane_killed_at_twenty_moments_ends_in_the_same_bytes() {
    let _turn = place::turn();
    let mut seeded = Seeded::new();
    let scratch = place::scratch("crash");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    let topics = fill(&mut oracle, &boot);
    let names = ["flow", "bulk"];

    let site = Site::new(scratch.path().join("site"));
    let control = Plane::control(&site);
    let mut data = Some(Plane::data(&site));
    until("the control plane serves", COPY_LIMIT, || {
        let ran = site.cli(&["status"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    site.mirror_with("dr", &boot, &names, &SLOW);
    let mut ends = Vec::new();
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(seeded.below(LIFE_MS_MAX)));
        if let Some(plane) = data.take() {
            plane.kill();
        }
        ends.push(Log::read(&site.data().join("flow-0")).map_or(0, |log| log.end()));
        data = Some(Plane::data(&site));
    }
    for name in ["small", "large"] {
        oracle.ask(&json!({"do": "stream-stop", "name": name}));
    }
    ends.dedup();
    assert!(ends.len() > 5, "the kills met a copy under way: {ends:?}");

    let extents = copy::extents(&mut oracle, &boot, &names);
    let wanted: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    site.caught_up("dr", &wanted, COPY_LIMIT);
    if let Some(plane) = data.take() {
        plane.stop();
    }
    control.stop();

    let equal = copy::same_bytes(&source, &site.data(), &extents).expect("the same bytes");
    assert!(equal.bytes > 60_000_000, "{equal:?}");
    copy::sound_folders(&site.data(), &extents, &topics).unwrap_or_else(|why| panic!("{why}"));
    copy::accepted_by_dump_log(&site.data(), &extents).unwrap_or_else(|why| panic!("kafka-dump-log complains:\n{why}"));
}
