//! A pass proves: librdkafka sees a twinlog node as a cluster of one node with the mirrored topics, reads their settings and offsets
//! without a warning, and its producers are refused once and at once, in words where the protocol has room for them. It needs a package from PyPI, so it is left out of `make test`.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::librdkafka;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

const LIMIT: Duration = Duration::from_secs(30);
/// Half of what a producer is given.
const REFUSED_WITHIN_MS: i64 = 7_500;

fn ok<'a>(seen: &'a Value, step: &str) -> &'a Value {
    seen[step].get("ok").unwrap_or_else(|| panic!("{step}: {}", seen[step]))
}

#[test]
#[ignore = "needs confluent-kafka from PyPI; run it by `make librdkafka`"]
fn librdkafka_looks_around_without_a_warning_and_its_producers_are_refused() {
    let _turn = place::turn();
    let scratch = place::scratch("librdkafka");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    oracle.create(&boot, "orders", 2, &json!({"retention.ms": "777777"}));
    oracle.produce(&boot, "orders", json!({"count": 100, "perBatch": 10}));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror_with("dr", &boot, &["orders"], &[]);
    site.caught_up("dr", &[("orders".to_owned(), 0, 100)], LIMIT);

    let seen = librdkafka::ask("look.py", &[&site.listen, "orders"]).unwrap_or_else(|why| panic!("{why}"));
    let metadata = ok(&seen, "metadata");
    assert_eq!(metadata["topics"]["orders"], 2);
    assert_eq!(ok(&seen, "cluster")["id"], metadata["cluster"]);
    assert_eq!(ok(&seen, "topic configs")["retention.ms"], "777777");
    assert_eq!(ok(&seen, "node configs")["node.id"], "1");
    assert_eq!((ok(&seen, "earliest"), ok(&seen, "latest")), (&json!(0), &json!(100)));
    assert!(seen["by timestamp"]["error"].to_string().contains("UNSUPPORTED_VERSION"), "{seen}");
    assert!(seen["lines"].as_i64() > Some(0), "its log was seen: {seen}");
    assert_eq!(seen["warnings"], json!([]), "librdkafka is warned");
    eprintln!("librdkafka: {} {} {}", seen["plain"], seen["idempotent"], seen["transactional"]);
    for (kind, words) in [
        ("plain", "POLICY_VIOLATION"),
        ("idempotent", "CLUSTER_AUTHORIZATION_FAILED"),
        ("transactional", "mirrored topics are read-only"),
    ] {
        let outcome = &seen[kind];
        assert!(outcome["told"].to_string().contains(words), "{kind}: {outcome}");
        assert_eq!(outcome["left"], 0, "{kind} still tries: {outcome}");
        assert!(outcome["ms"].as_i64().expect("a time") < REFUSED_WITHIN_MS, "{kind} tried too long: {outcome}");
    }
    house.down();
}
