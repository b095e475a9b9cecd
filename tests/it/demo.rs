//! A pass proves: the demo does what the README promises, on the embedded source and on a stock broker, and says so in its last line.

use serde_json::json;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

/// Batches and bytes of the last line.
fn verdict(ran: &Ran) -> (u64, u64) {
    assert_eq!(ran.code, 0, "{ran:?}");
    let last = ran.stdout.lines().last().unwrap_or_default();
    let numbers = last.strip_prefix("verdict: identical (").and_then(|r| r.strip_suffix(" bytes)"));
    let (batches, bytes) =
        numbers.and_then(|n| n.split_once(" batches, ")).unwrap_or_else(|| panic!("the last line is {last:?}"));
    (batches.parse().expect("a number"), bytes.parse().expect("a number"))
}

#[test]
fn the_demo_on_the_embedded_source_ends_identical() {
    let _turn = place::turn();
    let ran = twinlog(&["demo", "--bytes", "64MiB", "--partitions", "4"]);
    let (batches, bytes) = verdict(&ran);
    assert!(batches > 0 && bytes >= 64 << 20, "{batches} {bytes}");
    for sign in ["GB/s", "p50", "p99.9", "visible", "flushed"] {
        assert!(ran.stdout.contains(sign), "{sign:?} is not in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "no colours and no progress bar into a pipe: {}", ran.stdout);
}

#[test]
fn the_demo_on_a_stock_broker_ends_identical() {
    let _turn = place::turn();
    let scratch = place::scratch("demo");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let mut oracle = Oracle::start();
    oracle.create(&source.address(), "orders", 2, &json!({}));
    let request = json!({"partitions": 2, "count": 20_000, "perBatch": 50, "valueBytes": 500});
    oracle.produce(&source.address(), "orders", request);
    let ran = twinlog(&["demo", "--source", &source.address()]);
    let (batches, bytes) = verdict(&ran);
    assert!(batches == 400 && bytes > 10_000_000, "{batches} {bytes}");
}
