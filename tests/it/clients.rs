//! A pass proves: stock clients (Java classes) see a twinlog node as a cluster of one node with the
//! mirrored topics and log no warning about it; their producers are refused once, at once and in words; and `twinlog` itself, aimed
//! at a stock broker, says in each command that this is no server for it.

use serde_json::{Value, json};
use std::time::Duration;
use twinlog_tests::command::twinlog;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;

const LIMIT: Duration = Duration::from_secs(30);
/// A client that tries again does so for its delivery timeout, two minutes, or for its blocking timeout, one.
const REFUSED_WITHIN_MS: i64 = 20_000;
const READ_ONLY: &str = "mirrored topics are read-only";
/// A topic name that a stock broker has as its own.
const OFFSETS: &str = "__consumer_offsets";

struct World {
    site: Site,
    source: Broker,
    id: String,
}

/// What a step gave.
fn ok<'a>(seen: &'a Value, step: &str) -> &'a Value {
    seen[step].get("ok").unwrap_or_else(|| panic!("{step}: {}", seen[step]))
}

/// Why a step was refused.
fn refused<'a>(seen: &'a Value, step: &str, words: &str) -> &'a str {
    let why = seen[step]["error"].as_str().unwrap_or_else(|| panic!("{step} was not refused: {}", seen[step]));
    assert!(why.contains(words), "{step}: {why:?} does not say {words:?}");
    why
}

fn node(site: &Site) -> Value {
    let (host, port) = site.listen.split_once(':').expect("host and port");
    json!({"id": 1, "host": host, "port": port.parse::<i64>().expect("a port")})
}

#[test]
fn stock_clients_look_around_and_are_refused_to_write() {
    let _turn = place::turn();
    let scratch = place::scratch("clients");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    let id = oracle.create(&boot, "orders", 2, &json!({"retention.ms": "777777"}));
    oracle.create(&boot, "payments", 1, &json!({}));
    oracle.produce(&boot, "orders", json!({"count": 100, "perBatch": 10}));
    // Makes the broker's own topic.
    oracle.ask(&json!({"do": "commit", "boot": boot, "group": "g", "topic": "orders", "offsets": {"0": [5, -1, ""]}}));
    aimed_at_a_stock_broker(&boot);

    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror_with("dr", &boot, &["orders", "payments"], &["mirror.internal.topics=standby"]);
    site.caught_up("dr", &[("orders".to_owned(), 0, 100), ("orders".to_owned(), 1, 0)], LIMIT);
    let world = World { site, source, id };

    let log = scratch.path().join("java.log");
    let mut java = Oracle::warning_to(&log);
    java_looks(&world, &mut java);
    let said = std::fs::read_to_string(&log).expect("the client's log");
    // The client logs every refusal of an offset, whatever its code; what was asked for by time is refused, twice.
    let (refusals, warnings): (Vec<_>, Vec<_>) =
        said.lines().partition(|l| l.contains("ListOffsets request for topic"));
    assert_eq!((refusals.len(), &warnings[..]), (2, &[][..]), "a stock administrator is warned: {said}");
    let wrote = java.ask(&json!({"do": "write", "boot": world.site.listen, "topic": "orders"}));
    refused(&wrote, "plain", READ_ONLY);
    refused(&wrote, "idempotent", "ClusterAuthorizationException");
    refused(&wrote, "transactional", READ_ONLY);
    for kind in ["plain", "idempotent", "transactional"] {
        let took = wrote[kind]["ms"].as_i64().expect("a time");
        assert!(took < REFUSED_WITHIN_MS, "{kind} tried for {took} ms: {wrote}");
    }
    eprintln!("java: {wrote}");
    assert_eq!(world.site.partition("dr", "orders", 0).expect("described")["destinationOffset"], 100);
    house.down();
}

fn java_looks(world: &World, java: &mut Oracle) {
    let World { site, source, id } = world;
    let seen = java.ask(&json!({"do": "look", "boot": site.listen, "topic": "orders", "id": id}));
    eprintln!("java: {seen:#}");
    let mut us = node(site);
    us["rack"] = Value::Null;
    let cluster = ok(&seen, "cluster");
    assert_eq!((&cluster["controller"], &cluster["nodes"]), (&us, &json!([us])));
    assert_ne!(cluster["id"], source.cluster_id(), "an id of its own");
    assert!(cluster["operations"].to_string().contains("DESCRIBE"), "{cluster}");
    assert_eq!(ok(&seen, "features"), &json!({"mirror.version": 1}));
    assert_eq!(ok(&seen, "topics"), &json!(["orders", "payments"]));
    let all = ok(&seen, "topics with internal").as_array().expect("names");
    assert!(all.contains(&json!(OFFSETS)), "{all:?}");
    let described = ok(&seen, "by name");
    assert_eq!(described["id"], *id);
    assert_eq!((&described["partitions"], &described["leader"], &described["isr"]), (&json!(2), &json!(1), &json!(1)));
    assert!(described["operations"].to_string().contains("READ"), "{described}");
    assert_eq!(ok(&seen, "by id")["name"], "orders");
    refused(&seen, "unknown name", "UnknownTopicOrPartitionException");
    assert_eq!(ok(&seen, "topic configs")["retention.ms"], "777777");
    let told = ok(&seen, "node configs");
    assert_eq!((&told["node.id"], &told["auto.create.topics.enable"]), (&json!("1"), &json!("false")));
    assert_eq!(ok(&seen, "all nodes' configs"), &json!({}));
    assert_eq!((ok(&seen, "earliest"), ok(&seen, "latest")), (&json!(0), &json!(100)));
    refused(&seen, "by timestamp", "UnsupportedVersionException");
    refused(&seen, "max timestamp", "UnsupportedVersionException");
    let consumer = json!({"partitions": 2, "first": 0, "end": 100});
    assert_eq!(ok(&seen, "a consumer's look"), &consumer);
    ok(&seen, "tried change");
    refused(&seen, "tried wrong change", "retention.ms");
    refused(&seen, "tried change of a node", "only the settings of mirrors");
    assert_eq!(ok(&seen, "topic configs after"), ok(&seen, "topic configs"), "tried, not done");
}

/// Every command that asks a control plane.
fn aimed_at_a_stock_broker(boot: &str) {
    for words in [
        "mirrors list",
        "mirrors describe",
        "mirrors create dr --source 127.0.0.1:1",
        "mirrors alter dr --set mirror.topics.include=a",
        "mirrors delete dr",
        "mirrors sync",
        "mirrors sync dr",
        "topics start dr --topic orders",
        "topics pause dr --topic orders",
        "topics resume dr --topic orders",
        "topics stop dr --topic orders",
        "lmo",
        "lmo dr --topic orders",
        "acls list",
        "acls add --resource topic:orders --principal User:a --operation Read",
        "acls remove --resource topic:orders --principal User:a --operation Read",
        "status",
    ] {
        let mut arguments: Vec<&str> = words.split(' ').collect();
        arguments.extend(["--bootstrap-server", boot]);
        let line = twinlog(&arguments).refused();
        assert!(line.contains("no mirror-capable server") && line.contains(boot), "{words}: {line}");
        assert!(line.contains("--bootstrap-server"), "{words} names the remedy: {line}");
    }
}
