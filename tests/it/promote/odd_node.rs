//! A pass proves: a node with several log directories, one with a blank in its name, with its metadata log in another one, all of them
//! of another user, takes a mirror from root and serves it as that user; a group's offset beyond a log's end becomes the end; and root
//! takes everything back to whom it belonged.

use super::world::{Started, TOPICS, World, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use twinlog_tests::command::twinlog;
use twinlog_tests::kafka::Broker;
use twinlog_tests::place;

/// `nobody`.
const USER: u32 = 65534;
/// Runs a command as that user. It may read what it likes, for the jars lie in the home of whoever runs tests; to write it has no right.
const AS_USER: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search";
/// An offset that no log has.
const BEYOND: i64 = 500;

#[test]
fn a_node_of_another_user_with_several_log_directories_takes_a_mirror_and_gives_it_back() {
    let _turn = place::turn();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut world = World::new("promote-odd");
    let far = json!({"2": [BEYOND, 3, "far"]});
    world.oracle.ask(&json!({"do": "commit", "boot": world.boot, "group": "far", "topic": "plain", "offsets": far}));
    world.has_everything();
    let wanted = world.seen_at_source();
    let spec = world.spec("odd");
    let dir = world.spec("odd-logs");
    let dir = Broker::prepare(dir.unformatted()).dir().to_owned();
    let [first, second, metadata] = ["one", "the second", "metadata"].map(|name| dir.join(name));
    let listed = format!("{}, \\\n    {}", text(&first), text(&second));
    let spec = spec.unformatted().log_dirs(vec![first.clone(), second.clone()]);
    let node = Broker::prepare(spec.property("log.dirs", &listed).property("metadata.log.dir", &text(&metadata)));
    for dir in [&first, &second, &metadata] {
        std::fs::create_dir(dir).expect("a log directory");
        chown(dir, Some(USER), Some(USER)).expect("given away");
    }

    let judged = world.promote(&node, &["--dry-run", "--json"]);
    let judged: Value = serde_json::from_str(&judged.done()).expect("JSON");
    let clamped = json!([{"group": "far", "topic": "plain", "partition": 2, "from": BEYOND, "to": 100}]);
    assert_eq!(judged["clampedOffsets"], clamped, "{judged}");
    let start = format!("{AS_USER} {}", node.start_command());
    let report = world.promote(&node, &["--start", "--start-command", &start, "--json"]).json();
    let broker = Started::by(&report);
    assert_eq!((&report["checked"]["ok"], &report["checked"]["equalOffsets"]), (&json!(true), &json!(3)), "{report}");
    world.serves(&node.address(), &wanted);
    let offsets = world.oracle.ask(&json!({"do": "offsets", "boot": node.address(), "group": "far"}));
    assert_eq!(offsets, json!({"plain-2": [100, -1, "far"]}));
    world.goes_on(&node.address());
    let here = [&first, &second].map(|dir| partitions(dir));
    assert!(here[0].len().abs_diff(here[1].len()) <= 1, "they are spread evenly: {here:?}");
    assert_eq!(here[0].intersection(&here[1]).count(), 0);
    broker.stop();
    for dir in [&first, &second, &metadata] {
        owned_by(dir, USER);
    }

    let (properties, state) = (text(&node.dir().join("server.properties")), text(&world.site.state()));
    let own = ["reclaim", "dr", "--from", &properties, "--state", &state, "--bootstrap-server", &world.site.listen];
    twinlog(&own).done();
    let data = world.site.data();
    assert_eq!(partitions(&data), &here[0] | &here[1], "all of them are back");
    owned_by(&data, 0);
    let topics: Vec<&str> = TOPICS.iter().flat_map(|(name, _)| ["--topic", name]).collect();
    world.site.cli(&[&["topics", "start", "dr"], &topics[..]].concat()).done();
    world.has_everything();
    world.house.down();
}

/// The partition directories in a directory.
fn partitions(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = entries.map(|entry| entry.file_name().into_string().expect("UTF-8"));
    names.filter(|name| name != "__cluster_metadata-0").collect()
}

/// Everything in a directory belongs to the user.
fn owned_by(dir: &Path, user: u32) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let meta = entry.metadata().expect("its owner");
        assert_eq!(meta.uid(), user, "{}", entry.path().display());
        if meta.is_dir() {
            owned_by(&entry.path(), user);
        }
    }
}
