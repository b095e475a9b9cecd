//! A pass proves: after a hand-over from host A to host B, the node of A that was the source once gives its own directories to a mirror at
//! A, cut where B's mirroring ended; what only A ever had is listed exactly and saved, nothing that is there is copied again, and the
//! mirror goes on from B.

mod world;

use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::command::twinlog_until;
use twinlog_tests::kafka_log::Log;
use twinlog_tests::place;
use world::{OLD, OTHER, TOPICS, World, text};

fn records(list: &Value, topic: &str) -> i64 {
    let rows = list["partitions"].as_array().cloned().unwrap_or_default();
    rows.iter().filter(|row| row["topic"] == topic).filter_map(|row| row["records"].as_i64()).sum()
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("a folder")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_killed_source_gives_its_directories_to_the_mirror_of_what_took_over_and_lists_what_only_it_had() {
    let _turn = place::turn();
    let mut world = World::new("circle-forced");
    let boot_a = world.a.boot();
    // From here on B gets nothing any more, and A acknowledges.
    world.b.site.cli(&["topics", "pause", "dr", "--topic", "plain", "--topic", "paid", "--wait"]).done();
    world.plain(&boot_a, OLD + 500_000, 30);
    world.pay(&boot_a, "three", "commit");
    world.oracle.produce(&boot_a, OTHER, json!({"count": 5}));
    world.a.broker.kill();

    let from_b = world.b.site.listen.clone();
    let lmo_from = ["--lmo-from", from_b.as_str()];
    let refused = world.a.reclaim(&lmo_from).refused();
    assert!(refused.contains("there is no such mirror") || refused.contains("no mirror"), "{refused}");
    world.b.promote();
    let boot_b = world.b.boot();
    world.plain(&boot_b, OLD + 900_000, 20);
    world.a.create(&boot_b);
    let itself = world.a.site.listen.clone();
    let refused = world.a.reclaim(&["--lmo-from", &itself]).refused();
    assert!(refused.contains("as its source"), "{refused}");

    let looked: Value =
        serde_json::from_str(&world.a.reclaim(&[&lmo_from[..], &["--dry-run", "--json"]].concat()).done())
            .expect("JSON");
    assert_eq!(looked["blockers"], json!([]), "{looked}");
    assert_eq!((records(&looked, "plain"), records(&looked, "paid")), (30, 20), "{looked}");
    let log_dir = world.a.broker.dir().join("data");
    let data = world.a.site.data();
    let aside = world.scratch.path().join("aside");
    let save = ["--save-aside", &text(&aside)].map(ToOwned::to_owned);
    let more = [&lmo_from[..], &save.each_ref().map(String::as_str)].concat();
    for step in ["begun", "registered", "unmarked", "moved", "returned"] {
        for at in [format!("reclaim-{step}-done"), format!("reclaim-{step}")] {
            let words = world.a.words("reclaim", "--from", &more);
            let ran = twinlog_until(&at, &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, -1, "{at}: {ran:?}");
        }
    }
    let done = world.a.reclaim(&more).done();
    assert!(done.contains("are taken back; 50 records"), "{done}");
    let saved: usize = (0..2)
        .map(|index| Log::read(&aside.join(format!("plain-{index}"))).expect("the saved records").batches().count())
        .sum();
    assert_eq!(saved, 3, "batches of 10 records");
    assert!(names_in(&log_dir).contains(&format!("{OTHER}-0")), "what is not mirrored stays");
    for (topic, partitions) in TOPICS {
        for index in 0..partitions {
            assert!(data.join(format!("{topic}-{index}")).is_dir());
            assert!(!log_dir.join(format!("{topic}-{index}")).exists());
        }
    }
    let whole: u64 = TOPICS
        .iter()
        .flat_map(|(topic, partitions)| (0..*partitions).map(move |index| format!("{topic}-{index}")))
        .flat_map(|name| Log::read(&data.join(name)).expect("a log").segments)
        .map(|segment| std::fs::metadata(&segment.path).expect("a segment").len())
        .sum();
    let fetched = world.a.site.metric("twinlog_core_mirrored_bytes_total");
    world.a.start_again();
    world.is_a_copy(|world| &world.a, |world| &world.b);
    let fetched = world.a.site.metric("twinlog_core_mirrored_bytes_total") - fetched;
    assert!(fetched < whole as f64, "{fetched} bytes were fetched, {whole} were there");
    world.b.broker.stop();
    world.a.house.down();
    world.b.house.down();
}
