//! A pass proves: stock tools make, list and remove access control entries; with the authorizer on, each command is denied for want of
//! the right that its message names and done once that is given; what may not be seen is not seen, by stock clients too; and entries
//! outlive a restart.

use serde_json::json;
use twinlog_tests::command::twinlog;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{self, Broker, Spec};
use twinlog_tests::place;

/// A stock tool against the control plane; its output when it was done.
fn stock(site: &Site, tool: &str, arguments: &[&str]) -> String {
    let mut all = vec!["--bootstrap-server", &site.listen];
    all.extend(arguments);
    let out = kafka::run(place::KAFKA_VERSION, tool, &all);
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && !text.contains("Exception"), "{tool} {arguments:?}: {text}");
    text
}

/// `twinlog acls VERB` for the principal that all clients are.
fn acls(site: &Site, verb: &str, resource: &str, operation: &str, more: &[&str]) {
    let mut all = vec!["acls", verb, "--resource", resource, "--principal", "User:ANONYMOUS", "--operation", operation];
    all.extend(more);
    site.cli(&all).done();
}

/// The command is refused with exit code 1 and one line that names the missing right.
fn denied(site: &Site, arguments: &[&str], right: &str) {
    let line = site.cli(arguments).refused();
    assert!(line.contains(&format!("lacks {right};")) && line.contains("twinlog acls add"), "{arguments:?}: {line}");
}

fn configure(site: &Site, authorizer: &str) {
    std::fs::write(site.config(), format!("[controlplane]\nauthorizer = \"{authorizer}\"\n")).expect("the file");
}

#[test]
fn every_command_needs_its_right_and_says_which() {
    let _turn = place::turn();
    let scratch = place::scratch("authorization");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let create = ["--create", "--topic", "orders", "--partitions", "2"];
    drop(source.tool("topics", &create));
    let site = Site::new(scratch.path().join("site"));

    configure(&site, "none");
    let house = House::up(&site);
    entries_are_made_with_stock_tools_while_nobody_is_judged(&site);
    acls(&site, "add", "cluster", "alter", &["--host", "127.0.0.1"]);
    house.down();

    configure(&site, "acl");
    let house = House::up(&site);
    assert_eq!(site.ask(&["acls", "list"]).as_array().map(Vec::len), Some(1), "entries outlive a restart");
    mirrors(&site, &source.address());
    topics(&site);
    stock_clients_see_what_they_may(&site);
    ends(&site);
    house.down();

    let log = std::fs::read_dir(site.state().join("__mirror_state")).expect("the state log");
    let log = log.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "log")).expect("a segment");
    let dumped = twinlog(&["dump", "--records", log.to_str().expect("UTF-8")]).done();
    assert!(dumped.contains("CLUSTER_MIRROR") && dumped.contains("User:ANONYMOUS"), "{dumped}");
}

fn entries_are_made_with_stock_tools_while_nobody_is_judged(site: &Site) {
    // An entry for a mirror is none that a stock client knows; it must not be disturbed by it.
    acls(site, "add", "mirror:dr", "describe", &[]);
    let alice = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders-"];
    let mut add = vec!["--add", "--resource-pattern-type", "prefixed", "--allow-host", "10.0.0.1"];
    add.extend(alice);
    stock(site, "acls", &add);
    let listed = stock(site, "acls", &["--list"]);
    for part in ["orders-", "PREFIXED", "User:alice", "10.0.0.1", "READ", "ALLOW"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains("UNKNOWN") && !listed.contains("name=dr"), "{listed}");
    let entry = json!({
        "resourceType": "TOPIC", "resourceName": "orders-", "patternType": "PREFIXED", "principal": "User:alice",
        "host": "10.0.0.1", "operation": "READ", "permission": "ALLOW"
    });
    assert_eq!(site.ask(&["acls", "list", "--resource", "topic:orders-"]), json!([entry]));
    let shown = site.cli(&["acls", "list"]).done();
    assert!(shown.contains("CLUSTER_MIRROR") && shown.contains("judges nobody"), "{shown}");
    stock(site, "acls", &["--remove", "--force", "--resource-pattern-type", "prefixed", "--topic", "orders-"]);
    acls(site, "remove", "mirror:dr", "describe", &[]);
    assert_eq!(site.ask(&["acls", "list"]), json!([]));
    let line =
        site.cli(&["acls", "remove", "--resource", "mirror:dr", "--principal", "User:a", "--operation", "alter"]);
    assert!(line.refused().contains("there is no entry"));
    for (args, named) in [
        (["--resource", "mirror:dr", "--principal", "alice", "--operation", "alter"], "alice"),
        (["--resource", "mirror:dr", "--principal", "User:alice", "--operation", "read"], "READ"),
        (["--resource", "disk:dr", "--principal", "User:alice", "--operation", "alter"], "disk"),
    ] {
        let ran = site.cli(&[&["acls", "add"][..], &args].concat());
        assert!(ran.code == 2 && ran.stderr.contains(named), "{args:?}: {ran:?}");
    }
}

fn mirrors(site: &Site, source: &str) {
    let create = ["mirrors", "create", "dr", "--source", source];
    denied(site, &create, "CREATE on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:dr", "create", &["--host", "10.9.9.9"]);
    denied(site, &create, "CREATE on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:d", "create", &["--prefixed"]);
    site.cli(&create).done();

    assert_eq!(site.ask(&["mirrors", "list"]), json!([]), "what may not be described is left out");
    assert_eq!(site.ask(&["mirrors", "describe"]), json!([]));
    denied(site, &["mirrors", "describe", "dr"], "DESCRIBE on CLUSTER_MIRROR dr");
    let line = site.cli(&["mirrors", "describe", "nobody"]).refused();
    assert!(line.contains("lacks DESCRIBE on CLUSTER_MIRROR nobody;"), "whether it exists is not told: {line}");
    denied(site, &["topics", "start", "dr", "--topic", "orders"], "ALTER on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:dr", "describe", &[]);
    assert_eq!(site.ask(&["mirrors", "list"])[0]["mirror"], "dr");
    site.cli(&["mirrors", "describe", "dr"]).done();

    let alter = ["mirrors", "alter", "dr", "--set", "mirror.fetch.wait.max.ms=250"];
    denied(site, &alter, "ALTER_CONFIGS on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:dr", "alter-configs", &[]);
    site.cli(&alter).done();
}

fn topics(site: &Site) {
    let sync = ["mirrors", "sync", "dr", "--dry-run"];
    denied(site, &sync, "ALTER on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:dr", "alter", &[]);
    site.cli(&sync).done();
    let start = ["topics", "start", "dr", "--topic", "orders", "--wait"];
    denied(site, &start, "ALTER_CONFIGS on TOPIC orders");
    acls(site, "add", "topic:orders", "alter-configs", &[]);
    site.cli(&start).done();
    let all = site.cli(&["topics", "start", "dr", "--include", ".*"]).refused();
    assert!(all.contains("lacks ALTER_CONFIGS on TOPIC *;"), "a pattern is no way around: {all}");

    for verb in ["pause", "resume"] {
        acls(site, "remove", "topic:orders", "alter-configs", &[]);
        denied(site, &["topics", verb, "dr", "--topic", "orders"], "ALTER_CONFIGS on TOPIC orders");
        acls(site, "add", "topic:orders", "alter-configs", &[]);
        site.cli(&["topics", verb, "dr", "--topic", "orders", "--wait"]).done();
    }
}

/// ALTER_CONFIGS does not imply DESCRIBE.
fn stock_clients_see_what_they_may(site: &Site) {
    let listed = stock(site, "topics", &["--list"]);
    assert!(!listed.contains("orders"), "{listed}");
    acls(site, "add", "topic:orders", "describe", &[]);
    let listed = stock(site, "topics", &["--list"]);
    assert!(listed.contains("orders"), "{listed}");
}

fn ends(site: &Site) {
    // Forbidding outweighs what is allowed, and implies nothing: lmo needs DESCRIBE, stop does not.
    acls(site, "add", "mirror:*", "describe", &["--deny"]);
    denied(site, &["lmo", "dr", "--topic", "orders"], "DESCRIBE on CLUSTER_MIRROR dr");
    acls(site, "remove", "mirror:*", "describe", &["--deny"]);
    acls(site, "add", "topic:orders", "alter-configs", &["--deny"]);
    denied(site, &["topics", "stop", "dr", "--topic", "orders"], "ALTER_CONFIGS on TOPIC orders");
    denied(site, &["topics", "stop", "dr", "--include", "ord.*"], "ALTER_CONFIGS on TOPIC orders");
    acls(site, "remove", "topic:orders", "alter-configs", &["--deny"]);
    site.cli(&["topics", "stop", "dr", "--topic", "orders", "--wait"]).done();
    site.cli(&["lmo", "dr", "--topic", "orders"]).done();

    denied(site, &["mirrors", "delete", "dr"], "DELETE on CLUSTER_MIRROR dr");
    acls(site, "add", "mirror:dr", "delete", &[]);
    site.cli(&["mirrors", "delete", "dr"]).done();

    acls(site, "remove", "cluster", "alter", &["--host", "127.0.0.1"]);
    denied(site, &["acls", "list"], "DESCRIBE on CLUSTER kafka-cluster");
    let add = ["acls", "add", "--resource", "cluster", "--principal", "User:ANONYMOUS", "--operation", "all"];
    denied(site, &add, "ALTER on CLUSTER kafka-cluster");
}
