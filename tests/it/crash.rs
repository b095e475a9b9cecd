//! A pass proves: a data plane that is killed at any moment of a copy comes back by itself, and the copy ends in the source's bytes, no
//! batch twice and none missing, in folders as sound as those of a copy that was never disturbed.

use serde_json::json;
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{Plane, Site};
use twinlog_tests::kafka::{Broker, Spec};
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

#[test]
fn a_data_plane_killed_at_twenty_moments_ends_in_the_same_bytes() {
    let _turn = place::turn();
    let mut seeded = Seeded::new();
    let scratch = place::scratch("crash");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    let id = oracle.create(&boot, "flow", PARTITIONS, &json!({"segment.bytes": "1048576"}));
    let topics = [Expected { name: "flow".to_owned(), id, partitions: PARTITIONS, configs: Vec::new() }];
    let flow =
        json!({"partitions": PARTITIONS, "count": 60_000, "perBatch": 20, "valueBytes": 1000, "incompressible": true});
    oracle.produce(&boot, "flow", flow);
    for (txn, end) in [("kept", "commit"), ("dropped", "abort"), ("open", "open")] {
        let request = json!({"partitions": PARTITIONS, "count": 600, "perBatch": 10, "txn": txn, "end": end});
        oracle.produce(&boot, "flow", request);
    }
    let stream = json!({"do": "stream-start", "boot": boot, "name": "s", "topic": "flow", "partitions": PARTITIONS, "perBatch": 20, "valueBytes": 1000, "pauseMs": 2});
    oracle.ask(&stream);

    let site = Site::new(scratch.path().join("site"));
    let control = Plane::control(&site);
    let mut data = Some(Plane::data(&site));
    until("the control plane serves", COPY_LIMIT, || {
        let ran = site.cli(&["status"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    site.mirror("dr", &boot, &["flow"]);
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(seeded.below(LIFE_MS_MAX)));
        if let Some(plane) = data.take() {
            plane.kill();
        }
        data = Some(Plane::data(&site));
    }
    oracle.ask(&json!({"do": "stream-stop", "name": "s"}));
    let extents = copy::extents(&mut oracle, &boot, &["flow"]);
    let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
    site.caught_up("dr", &ends, COPY_LIMIT);
    if let Some(plane) = data.take() {
        plane.stop();
    }
    control.stop();

    let equal = copy::same_bytes(&source, &site.data(), &extents).expect("the same bytes");
    assert!(equal.bytes > 60_000_000, "{equal:?}");
    copy::sound_folders(&site.data(), &extents, &topics).unwrap_or_else(|why| panic!("{why}"));
    copy::accepted_by_dump_log(&site.data(), &extents).unwrap_or_else(|why| panic!("kafka-dump-log complains:\n{why}"));
}
