//! What a server.properties may say, and how each wrong key is answered.

use super::*;

const GOOD: &str = "\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/var/a,/var/b/
";

fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    Node::parse(Path::new("server.properties"), text.as_bytes())
}

/// The file with other values; an empty one is left out.
fn with(changes: &[(&str, &str)]) -> Result<Node, Vec<Problem>> {
    let kept = GOOD.lines().filter(|line| !changes.iter().any(|(key, _)| line.split('=').next() == Some(key)));
    let added = changes.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={value}"));
    parse(&kept.map(str::to_owned).chain(added).collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_node_that_is_broker_and_controller_is_read() {
    let node = parse(GOOD).unwrap();
    assert_eq!((node.id, node.quorum, node.controller.port), (1, Quorum::Static, 9093));
    assert_eq!(node.log_dirs, [Path::new("/var/a"), Path::new("/var/b")]);
    assert_eq!((node.metadata_log_dir.as_path(), node.directories().count()), (Path::new("/var/a"), 2));
    assert_eq!((node.plaintext().as_deref(), node.authorizer), (Some("127.0.0.1:9092"), None));
}

#[test]
fn older_names_and_defaults_are_those_of_kafka() {
    let node = with(&[
        ("node.id", ""),
        ("broker.id", " 1 "),
        ("log.dirs", ""),
        ("log.dir", "/var/a"),
        ("metadata.log.dir", "/meta"),
        ("listener.security.protocol.map", ""),
        ("controller.quorum.voters", ""),
        ("controller.quorum.bootstrap.servers", "127.0.0.1:9093"),
        ("listeners", "SSL://[::1]:9091, plaintext://[::1]:9092,CONTROLLER://:9093"),
    ])
    .unwrap();
    assert_eq!((node.id, node.quorum, node.controller.protocol.as_str()), (1, Quorum::Dynamic, "PLAINTEXT"));
    assert_eq!((node.plaintext().as_deref(), node.directories().count()), (Some("[::1]:9092"), 2));
    let node = with(&[("listeners", "PLAINTEXT://:0,CONTROLLER://:9093")]).unwrap();
    assert_eq!(node.plaintext(), None, "a port that is not known");
}

#[test]
fn each_wrong_key_is_named_with_its_reason_and_a_remedy() {
    let cases = [
        ("process.roles", "", "it is missing"),
        ("process.roles", "controller", "no broker"),
        ("process.roles", "broker", "another process"),
        ("process.roles", "broker,wizard", "wizard is no role"),
        ("node.id", "", "it is missing"),
        ("node.id", "one", "one is no id"),
        ("node.id", "-1", "-1 is no id"),
        ("controller.quorum.voters", "", "it is missing"),
        ("controller.quorum.voters", "1@127.0.0.1", "no voter"),
        ("controller.quorum.voters", "2@127.0.0.1:9093", "vote too"),
        ("controller.quorum.voters", "1@a:1,2@b:1,3@c:1", "2@b:1, 3@c:1 vote too"),
        ("controller.quorum.voters", "1@a:1,1@b:1", "twice"),
        ("controller.listener.names", "", "it is missing"),
        ("listeners", "", "it is missing"),
        ("listeners", "PLAINTEXT://:9092", "none of the controller's"),
        ("listeners", "CONTROLLER://:9093", "for clients"),
        ("listeners", "PLAINTEXT://:99999,CONTROLLER://:9093", "no listener"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT", "CONTROLLER is not in it"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAIN", "no entry"),
        ("log.dirs", "", "it is missing"),
        ("log.dirs", "data", "absolute"),
        ("log.dirs", "/a,/a/", "twice"),
        ("metadata.log.dir", "meta", "absolute"),
        ("node.id", "${env:NODE}", "config provider"),
    ];
    for (key, value, words) in cases {
        let problems = with(&[(key, value)]).expect_err(&format!("{key}={value}"));
        let said = problems.iter().any(|problem| {
            problem.what == format!("{key} in server.properties") && problem.to_string().contains(words)
        });
        assert!(said && !problems[0].remedy.is_empty(), "{key}={value}: {problems:?}");
    }
}

#[test]
fn all_problems_are_told_at_once_and_each_key_once() {
    let problems = with(&[("process.roles", "broker"), ("node.id", "${env:N}"), ("log.dirs", "x")]).unwrap_err();
    let keys: Vec<_> = problems.iter().map(|p| p.what.trim_end_matches(" in server.properties")).collect();
    assert_eq!(keys, ["process.roles", "node.id", "log.dirs"]);
}

#[test]
fn a_file_that_is_no_properties_is_refused() {
    assert!(parse("a=\\u12").unwrap_err()[0].to_string().contains("Java properties"));
}
