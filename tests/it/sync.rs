//! A pass proves: what is mirrored besides records follows a stock source. Settings of topics that are added, changed and removed there
//! are what our node says of the mirrored topic, what an administrator set here wins, and a dry run changes nothing. Offsets of groups
//! reach a destination that runs: within what is mirrored, never those of a group that is active there or that somebody moved there. So do settings, but for those that somebody
//! changed there, and access rules, of which only those are ever taken away that we gave.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(30);

/// After the first one syncs run only when they are asked for, so that each step sees its own.
const BY_HAND: [&str; 3] =
    ["mirror.sync.configs.interval.ms=3600000", "mirror.sync.groups.interval.ms=0", "mirror.sync.acls.interval.ms=0"];

struct Scene {
    oracle: Oracle,
    site: Site,
}

impl Scene {
    fn set(&mut self, boot: &str, set: &Value, remove: &[&str]) {
        self.oracle.ask(&json!({"do": "settings", "boot": boot, "topic": "orders", "set": set, "remove": remove}));
    }

    fn settings(&mut self, boot: &str) -> Value {
        self.oracle.ask(&json!({"do": "own-settings", "boot": boot, "topic": "orders"}))
    }

    /// `mirrors sync` of one kind: (applied, changes as "action key from to").
    fn sync(&self, what: &str, extra: &[&str]) -> (i64, Vec<String>) {
        let mut arguments = vec!["mirrors", "sync", "dr", "--what", what];
        arguments.extend(extra);
        let told = self.site.ask(&arguments);
        assert_eq!((told[0]["kind"].as_str(), told[0]["error"].as_str()), (Some(what), None), "{told}");
        let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
        let changes = told[0]["changes"].as_array().expect("changes").iter();
        let changes = changes
            .map(|c| {
                let words = [&c["action"], &c["resource"], &c["key"], &c["from"], &c["to"]];
                words.map(text).join(" ")
            })
            .collect();
        (told[0]["applied"].as_i64().expect("a number"), changes)
    }
}

#[test]
fn settings_of_topics_follow_the_source_and_what_was_set_here_wins() {
    let _turn = place::turn();
    let scratch = place::scratch("sync-settings");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let mut oracle = Oracle::start();
    let config = json!({"retention.ms": "86400000", "min.insync.replicas": "1"});
    oracle.create(&source.address(), "orders", 1, &config);
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    site.mirror_with("dr", &source.address(), &["orders"], &BY_HAND);
    let (here, boot) = (site.listen.clone(), source.address());
    let mut scene = Scene { oracle, site };

    until("a topic that was started is synced at once", LIMIT, || match scene.settings(&here) {
        told if told == json!({"retention.ms": "86400000"}) => Ok(()),
        told => Err(told.to_string()),
    });
    scene.set(&boot, &json!({"retention.ms": "1000000", "max.message.bytes": "2000000"}), &[]);
    let dry = ["set orders max.message.bytes - 2000000", "set orders retention.ms 86400000 1000000"];
    assert_eq!(scene.sync("configs", &["--dry-run"]), (2, dry.map(str::to_owned).into()));
    assert_eq!(scene.settings(&here), json!({"retention.ms": "86400000"}), "a dry run changes nothing");
    assert_eq!(scene.sync("configs", &[]).0, 2);
    let both = json!({"max.message.bytes": "2000000", "retention.ms": "1000000"});
    assert_eq!(scene.settings(&here), both);

    scene.set(&here, &json!({"retention.ms": "777"}), &[]);
    scene.set(&boot, &json!({"retention.ms": "2000000"}), &["max.message.bytes"]);
    let (applied, changes) = scene.sync("configs", &[]);
    assert_eq!(applied, 2, "{changes:?}");
    assert!(changes.contains(&"remove orders max.message.bytes 2000000 -".to_owned()), "{changes:?}");
    assert!(changes.contains(&"keep orders retention.ms 777 2000000".to_owned()), "{changes:?}");
    assert_eq!(scene.settings(&here), json!({"retention.ms": "777"}));
    let refused = scene
        .oracle
        .try_ask(&json!({"do": "settings", "boot": here, "topic": "orders", "set": {"retention.msec": "1"}}));
    assert!(refused.unwrap_err().contains("retention.msec"), "an unknown setting is named");

    house.kill();
    let house = House::up(&scene.site);
    assert_eq!(scene.settings(&here), json!({"retention.ms": "777"}), "both survive a crash");
    scene.set(&here, &json!({}), &["retention.ms"]);
    assert_eq!(
        scene.settings(&here),
        json!({"retention.ms": "2000000"}),
        "without the override the source is followed"
    );
    let described = scene.site.ask(&["mirrors", "describe", "dr"]);
    assert_eq!(described[0]["syncs"][1]["kind"], "configs", "{described}");
    until("the metrics tell of syncs", LIMIT, || match scene.site.metric("twinlog_sync_attempts_total") {
        attempts if attempts >= 1.0 => Ok(()),
        attempts => Err(attempts.to_string()),
    });
    let dump = twinlog_tests::command::twinlog(&["dump", "--records", log_file(&scene.site).as_str()]).done();
    assert!(dump.contains("TopicConfigs") && dump.contains("2000000"), "{dump}");
    house.down();
}

/// A running destination with topics of the same names.
struct Pair {
    scene: Scene,
    source: Broker,
    destination: Broker,
    house: House,
    _scratch: tempfile::TempDir,
}

fn pair(name: &str, properties: &[(&str, &str)]) -> Pair {
    let scratch = place::scratch(name);
    let spec = |dir: &str| {
        let spec = Spec::new(scratch.path().join(dir));
        properties.iter().fold(spec, |spec, (key, value)| spec.property(key, value))
    };
    let source = Broker::start(spec("source"));
    let destination = Broker::start(spec("destination").cluster_id("dHdpbmxvZy1kZXN0aW5hdDE"));
    let mut oracle = Oracle::start();
    for boot in [source.address(), destination.address()] {
        oracle.create(&boot, "orders", 2, &json!({}));
    }
    oracle.produce(&source.address(), "orders", json!({"count": 100, "perBatch": 10, "partitions": 2}));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    let there = format!("destination.bootstrap.servers={}", destination.address());
    let mut settings = BY_HAND.to_vec();
    settings.push(&there);
    site.mirror_with("dr", &source.address(), &["orders"], &settings);
    let scene = Scene { oracle, site };
    Pair { scene, source, destination, house, _scratch: scratch }
}

impl Scene {
    fn commit(&mut self, boot: &str, group: &str, offsets: &Value) {
        self.oracle.ask(&json!({"do": "commit", "boot": boot, "group": group, "topic": "orders", "offsets": offsets}));
    }

    fn offsets(&mut self, boot: &str, group: &str) -> Value {
        self.oracle.ask(&json!({"do": "offsets", "boot": boot, "group": group}))
    }

    fn share(&mut self, verb: &str, boot: &str, offset: i64) -> Value {
        self.oracle.ask(&json!({"do": verb, "boot": boot, "group": "shared", "topic": "orders", "offset": offset}))
    }

    fn member(&mut self, verb: &str, boot: &str, group: &str, protocol: &str) {
        let count = if verb == "join" { 10 } else { 0 };
        let ask =
            json!({"do": verb, "boot": boot, "group": group, "topic": "orders", "protocol": protocol, "count": count});
        self.oracle.ask(&ask);
    }
}

#[test]
fn offsets_of_groups_reach_a_running_destination_and_never_one_that_is_at_work_there() {
    let _turn = place::turn();
    let Pair { mut scene, source, destination, house, _scratch: scratch } = pair("sync-groups", &[]);
    let (from, to) = (source.address(), destination.address());
    let ends: Vec<i64> = scene.oracle.offsets(&from, "orders").iter().map(|(_, end, _)| *end).collect();
    scene.site.caught_up("dr", &[("orders".into(), 0, ends[0]), ("orders".into(), 1, ends[1])], LIMIT);

    scene.commit(&from, "plain", &json!({"0": [0, -1, ""], "1": [ends[1], 0, "my note"]}));
    scene.commit(&from, "busy", &json!({"0": [5, 0, ""]}));
    scene.share("share-start", &from, 33);
    scene.member("join", &from, "newer", "consumer");
    let own = json!({"count": 100, "perBatch": 10, "partitions": 2});
    scene.oracle.produce(&to, "orders", own);
    scene.member("join", &to, "busy", "classic");
    let busy = scene.offsets(&to, "busy");
    let (dry, changes) = scene.sync("groups", &["--dry-run"]);
    assert!(dry >= 3 && changes.contains(&"set plain orders-0 - 0".to_owned()), "{changes:?}");
    assert_eq!(scene.offsets(&to, "plain"), json!({}), "a dry run changes nothing");

    let (applied, changes) = scene.sync("groups", &[]);
    assert_eq!(applied, dry, "{changes:?}");
    let plain = json!({"orders-0": [0, -1, ""], "orders-1": [ends[1], 0, "my note"]});
    assert_eq!(scene.offsets(&to, "plain"), plain, "0 is a value, the note and the epoch are kept");
    assert_eq!(scene.offsets(&to, "newer"), scene.offsets(&from, "newer"), "a group of the newer protocol");
    assert!(changes.iter().any(|c| c.starts_with("keep busy")), "{changes:?}");
    assert_eq!(scene.offsets(&to, "busy"), busy, "a group at work at the destination is left alone");
    assert_eq!(scene.share("share-starts", &to, 0), json!({"orders-0": 33}), "a share group");
    assert_eq!(scene.sync("groups", &[]).0, 0, "nothing is written twice");

    scene.commit(&from, "plain", &json!({"0": [7, 0, ""], "1": [3, 0, ""]}));
    scene.commit(&to, "plain", &json!({"0": [9, -1, "theirs"]}));
    let (applied, changes) = scene.sync("groups", &[]);
    assert_eq!(applied, 1, "{changes:?}");
    let moved = json!({"orders-0": [9, -1, "theirs"], "orders-1": [3, 0, ""]});
    assert_eq!(
        scene.offsets(&to, "plain"),
        moved,
        "what somebody moved there stays; what we wrote follows the source back"
    );

    house.kill();
    let house = House::up(&scene.site);
    scene.site.caught_up("dr", &[("orders".into(), 0, ends[0]), ("orders".into(), 1, ends[1])], LIMIT);
    scene.commit(&from, "plain", &json!({"0": [8, 0, ""], "1": [8, 0, ""]}));
    scene.commit(&from, "stays", &json!({"0": [8, 0, ""]}));
    scene.commit(&to, "stays", &json!({"0": [2, -1, "theirs"]}));
    let (applied, changes) = scene.sync("groups", &[]);
    assert_eq!(applied, 1, "{changes:?}");
    let moved = json!({"orders-0": [9, -1, "theirs"], "orders-1": [8, 0, ""]});
    assert_eq!(scene.offsets(&to, "plain"), moved, "a crash forgets neither what is ours nor what is not");
    let behind = json!({"orders-0": [2, -1, "theirs"]});
    assert_eq!(scene.offsets(&to, "stays"), behind, "what was there is moved neither back nor forward");

    clamped_at_both_ends(&mut scene, &from, &to, &ends);
    settings_at_the_destination(&mut scene, &from, &to);
    many(&mut scene, &from, &to);
    another_destination(&mut scene, &from, &to, &scratch.path().join("another"));
    house.down();
}

const ALICE: [&str; 6] = ["TOPIC", "orders", "LITERAL", "User:alice", "READ", "ALLOW"];
const BOB: [&str; 6] = ["GROUP", "app-", "PREFIXED", "User:bob", "ALL", "DENY"];
const THEIRS: [&str; 6] = ["TOPIC", "orders", "LITERAL", "User:theirs", "WRITE", "ALLOW"];
const BOTH: [&str; 6] = ["TOPIC", "orders", "LITERAL", "User:both", "READ", "ALLOW"];

impl Scene {
    fn acls(&mut self, boot: &str, add: &[[&str; 6]], remove: &[[&str; 6]]) {
        self.oracle.ask(&json!({"do": "acls", "boot": boot, "add": add, "remove": remove}));
    }

    /// The access rules of a cluster, in the form of [`joined`].
    fn list_acls(&mut self, boot: &str) -> Vec<String> {
        let told = self.oracle.ask(&json!({"do": "list-acls", "boot": boot}));
        told.as_array().expect("a list").iter().map(|line| line.as_str().expect("a text").to_owned()).collect()
    }
}

fn joined(rules: &[[&str; 6]]) -> Vec<String> {
    let mut lines: Vec<String> = rules.iter().map(|rule| rule.join(":")).collect();
    lines.sort();
    lines
}

#[test]
fn access_rules_follow_the_source_and_only_ours_are_taken_away() {
    let _turn = place::turn();
    let authorizer = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:ANONYMOUS"),
    ];
    let Pair { mut scene, source, destination, house, _scratch } = pair("sync-acls", &authorizer);
    let (from, to) = (source.address(), destination.address());
    scene.site.cli(&["mirrors", "alter", "dr", "--set", "mirror.acls.include=TOPIC;orders,GROUP"]).done();
    let elsewhere = ["TOPIC", "elsewhere", "LITERAL", "User:alice", "READ", "ALLOW"];
    scene.acls(&from, &[ALICE, BOB, BOTH, elsewhere], &[]);
    scene.acls(&to, &[THEIRS, BOTH], &[]);

    let (applied, changes) = scene.sync("acls", &["--dry-run"]);
    assert_eq!(applied, 5, "three to keep, two to give: {changes:?}");
    assert_eq!(scene.list_acls(&to), joined(&[THEIRS, BOTH]), "a dry run changes nothing");
    assert_eq!(scene.sync("acls", &[]).0, 5);
    assert_eq!(scene.list_acls(&to), joined(&[ALICE, BOB, THEIRS, BOTH]), "what the rules leave out is left out");
    assert_eq!(scene.sync("acls", &[]), (0, Vec::new()), "once is enough");

    house.kill();
    let house = House::up(&scene.site);
    scene.acls(&from, &[], &[ALICE, BOTH]);
    let (applied, changes) = scene.sync("acls", &[]);
    assert!(
        changes.contains(&"remove destination:TOPIC:orders:LITERAL User:alice:READ:ALLOW:* - -".to_owned()),
        "{changes:?}"
    );
    assert_eq!(applied, 3, "two here, and there only what we gave: {changes:?}");
    assert_eq!(scene.list_acls(&to), joined(&[BOB, THEIRS, BOTH]), "what was there before us stays");
    left_behind(&mut scene, &to);
    house.down();
}

/// What a destination was given stays there when it is the destination no more, and when the mirror is gone; each time that is said.
fn left_behind(scene: &mut Scene, to: &str) {
    let site = scene.site.clone();
    let alter = |setting: &str| drop(site.cli(&["mirrors", "alter", "dr", "--set", setting]).done());
    alter("destination.bootstrap.servers=");
    let (_, changes) = scene.sync("acls", &[]);
    assert_eq!(changes, ["keep destination:GROUP:app-:PREFIXED User:bob:ALL:DENY:* - -"], "{changes:?}");
    alter(&format!("destination.bootstrap.servers={to}"));
    alter("mirror.acls.include=TOPIC;nothing");
    let (_, changes) = scene.sync("acls", &["--dry-run"]);
    assert!(changes.iter().any(|c| c.starts_with("remove destination:GROUP:app-")), "it is known again: {changes:?}");
    site.cli(&["topics", "stop", "dr", "--topic", "orders", "--wait"]).done();
    until("its internal topics are stopped too", LIMIT, || match site.ask(&["mirrors", "describe", "dr"]) {
        told if told.to_string().contains("STOPPING") => Err(told.to_string()),
        _ => Ok(()),
    });
    let told = site.cli(&["mirrors", "delete", "dr"]).done();
    assert!(told.contains("stay at the destination") && told.contains("User:bob"), "{told}");
    assert_eq!(scene.list_acls(to), joined(&[BOB, THEIRS, BOTH]), "whoever moved to the destination lives by them");
}

/// A committed offset that the mirror does not have is moved to the nearest one that it has.
fn clamped_at_both_ends(scene: &mut Scene, from: &str, to: &str, ends: &[i64]) {
    scene.oracle.ask(&json!({"do": "delete-records", "boot": from, "topic": "orders", "before": 20}));
    let site = scene.site.clone();
    until("the log start follows", LIMIT, || match site.partition("dr", "orders", 0)? {
        row if row["logStartOffset"] == 20 => Ok(()),
        row => Err(row.to_string()),
    });
    site.cli(&["topics", "pause", "dr", "--topic", "orders", "--wait"]).done();
    scene.commit(from, "late", &json!({"0": [4, 0, "x"]}));
    assert_eq!(scene.sync("groups", &[]), (0, Vec::new()), "nothing while the topic is paused");
    site.cli(&["topics", "resume", "dr", "--topic", "orders", "--wait"]).done();
    scene.commit(from, "early", &json!({"1": [ends[1] + 1000, 0, "x"]}));
    scene.sync("groups", &[]);
    assert_eq!(scene.offsets(to, "late"), json!({"orders-0": [20, -1, ""]}));
    assert_eq!(scene.offsets(to, "early"), json!({"orders-1": [ends[1], 0, ""]}));
}

/// A running destination is given what differs; what somebody changed there since stays, as does what never came from us.
fn settings_at_the_destination(scene: &mut Scene, from: &str, to: &str) {
    scene.set(to, &json!({"flush.ms": "5000"}), &[]);
    scene.set(from, &json!({"retention.ms": "1000000", "segment.ms": "2000000", "max.message.bytes": "3000000"}), &[]);
    assert!(
        scene.sync("configs", &["--dry-run"]).1.contains(&"set destination:orders retention.ms - 1000000".to_owned())
    );
    assert_eq!(scene.settings(to), json!({"flush.ms": "5000"}), "a dry run changes nothing");
    scene.sync("configs", &[]);
    let all =
        json!({"flush.ms": "5000", "max.message.bytes": "3000000", "retention.ms": "1000000", "segment.ms": "2000000"});
    assert_eq!(scene.settings(to), all);
    scene.set(to, &json!({"retention.ms": "42000"}), &[]);
    scene.set(from, &json!({"retention.ms": "4000000"}), &["segment.ms"]);
    let here = scene.site.listen.clone();
    scene.set(&here, &json!({"max.message.bytes": "999999"}), &[]);
    let (_, changes) = scene.sync("configs", &[]);
    assert!(changes.contains(&"keep destination:orders retention.ms 42000 4000000".to_owned()), "{changes:?}");
    let kept = json!({"flush.ms": "5000", "max.message.bytes": "999999", "retention.ms": "42000"});
    assert_eq!(scene.settings(to), kept);
}

/// Thousands of groups take seconds.
fn many(scene: &mut Scene, from: &str, to: &str) {
    const GROUPS: i64 = 2_000;
    scene.oracle.ask(&json!({"do": "many-groups", "boot": from, "topic": "orders", "count": GROUPS}));
    let begun = std::time::Instant::now();
    assert_eq!(scene.sync("groups", &[]).0, GROUPS);
    eprintln!("{GROUPS} groups were synced in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    assert_eq!(scene.sync("groups", &[]).0, 0);
    eprintln!("and compared in {:?}", begun.elapsed());
    assert_eq!(scene.offsets(to, "many-01999"), json!({"orders-0": [49, -1, ""]}));
}

/// Another cluster at the destination was given nothing yet: it lacks what the former one has, and what it has by chance is its own.
fn another_destination(scene: &mut Scene, from: &str, to: &str, dir: &Path) {
    let another = Broker::start(Spec::new(dir).cluster_id("dHdpbmxvZy1kZXN0aW5hdDI"));
    let there = another.address();
    scene.set(from, &json!({"segment.ms": "2000000"}), &[]);
    scene.sync("configs", &[]);
    assert_eq!(scene.settings(to)["segment.ms"], "2000000");
    scene.oracle.create(&there, "orders", 2, &json!({"segment.ms": "2000000"}));
    let by_chance = scene.offsets(to, "plain")["orders-1"].clone();
    scene.commit(&there, "plain", &json!({"1": by_chance}));
    let (settings, offsets) = (scene.settings(to), scene.offsets(to, "plain"));

    scene.site.cli(&["mirrors", "alter", "dr", "--set", &format!("destination.bootstrap.servers={there}")]).done();
    scene.set(from, &json!({}), &["segment.ms"]);
    scene.commit(from, "plain", &json!({"0": [31, 0, ""], "1": [11, 0, ""]}));
    let dry = scene.sync("configs", &["--dry-run"]).1;
    assert!(dry.contains(&"set destination:orders retention.ms - 4000000".to_owned()), "{dry:?}");
    scene.sync("configs", &[]);
    let all = json!({"max.message.bytes": "999999", "retention.ms": "4000000", "segment.ms": "2000000"});
    assert_eq!(scene.settings(&there), all, "what it lacks is given, what we did not give stays");
    let (dry, changes) = scene.sync("groups", &["--dry-run"]);
    assert!(changes.iter().any(|change| change.starts_with("keep plain orders-1")), "{changes:?}");
    assert_eq!(scene.sync("groups", &[]).0, dry);
    assert_eq!(scene.offsets(&there, "plain"), json!({"orders-0": [31, 0, ""], "orders-1": by_chance}));
    assert_eq!((scene.settings(to), scene.offsets(to, "plain")), (settings, offsets), "the former one is left alone");
}

fn log_file(site: &Site) -> String {
    let file = site.state().join("__mirror_state/00000000000000000000.log");
    file.to_str().expect("paths of tests are UTF-8").to_owned()
}
