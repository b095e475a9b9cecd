//! A pass proves: what is mirrored besides records follows a stock source. Settings of topics that are added, changed and removed there
//! are what our node says of the mirrored topic, what an administrator set here wins, and a dry run changes nothing.

use serde_json::{Value, json};
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
    assert_eq!(described[0]["syncs"][0]["kind"], "configs", "{described}");
    until("the metrics tell of syncs", LIMIT, || match scene.site.metric("twinlog_sync_attempts_total") {
        attempts if attempts >= 1.0 => Ok(()),
        attempts => Err(attempts.to_string()),
    });
    let dump = twinlog_tests::command::twinlog(&["dump", "--records", log_file(&scene.site).as_str()]).done();
    assert!(dump.contains("TopicConfigs") && dump.contains("2000000"), "{dump}");
    house.down();
}

fn log_file(site: &Site) -> String {
    let file = site.state().join("__mirror_state/00000000000000000000.log");
    file.to_str().expect("paths of tests are UTF-8").to_owned()
}
