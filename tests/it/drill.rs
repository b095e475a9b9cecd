//! A pass proves: a hand-over is rehearsed on copies, with a stock broker, while records flow: the mirror goes on in its state, nothing of it is
//! recorded, and no file of it changes that mirroring had closed, also when the drill's broker is killed and starts unclean over linked
//! files, one of which is damaged; the time to the first acknowledged record and what would have been lost are told; a drill that is
//! interrupted, killed or refused leaves nothing behind, or what the next one removes.

mod world;

use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::place;
use twinlog_tests::process::{runs, signal, until};
use world::{LIMIT, World, flip};

#[test]
fn a_drill_leaves_the_mirror_alone_also_when_its_broker_is_killed_and_starts_unclean() {
    let _turn = place::turn();
    let mut world = World::new("drill");
    let harmed = world.harmed();
    let sound = flip(&harmed);
    let before = world.closed_files();
    assert!(before.keys().filter(|path| path.extension().is_some_and(|x| x == "log")).count() > 6, "{before:?}");
    let recorded = world.site.ask(&["lmo", "dr"]);
    let flow = world.flow();
    let report = world.drill(&["--keep", "--json"]).json();
    tells_what_it_did(&report);
    let folder = Path::new(report["folder"].as_str().expect("a folder")).to_owned();
    assert_eq!(folder.parent(), Some(world.site.dir.as_path()), "beside DATA, not in it");
    world.is_as_before(&flow);
    let links = world.links(&folder);
    assert!(report["clone"]["linkedFiles"] == links && links > 6 || report["clone"]["reflinkedFiles"] != 0, "{report}");
    // Its broker was killed. Twice more, unclean, over the linked files.
    for _ in 0..2 {
        world.starts_unclean(&folder);
    }
    flow.stop();
    let after = world.closed_files();
    for (path, sum) in &before {
        assert_eq!(after.get(path), Some(sum), "{} has changed", path.display());
    }
    world.drill(&["--clean"]).done();
    assert!(!folder.exists());
    std::fs::write(&harmed, sound).expect("the damage taken back");
    world.caught_up();
    world.is_sound();
    assert_eq!(world.site.ask(&["lmo", "dr"]), recorded, "nothing is recorded of a drill");
    world.house.down();
}

fn tells_what_it_did(report: &Value) {
    assert_eq!(
        (&report["ok"], &report["checked"]["ok"], &report["mode"]),
        (&json!(true), &json!(true), &json!("planned"))
    );
    assert_eq!(report["produced"]["offset"], report["produced"]["endOffset"], "{report}");
    assert_eq!(report["checked"]["equalOffsets"], 2, "{report}");
    assert_eq!(report["openTransactions"].as_array().map(Vec::len), Some(1), "{report}");
    let parts: u64 = ["cloneMs", "finishMs", "startMs", "produceMs"]
        .iter()
        .map(|part| report["parts"][part].as_u64().unwrap_or_else(|| panic!("no {part} in {report}")))
        .sum();
    assert_eq!(report["rtoMs"].as_u64(), Some(parts));
    assert!(report["rpo"]["records"].as_i64().is_some() && report["rpoUnknownPartitions"] == 0, "{report}");
    let partitions = report["partitions"].as_array().expect("partitions");
    let told = |row: &&Value| row["loss"]["records"].is_i64() && row["logEndOffset"].is_i64();
    assert_eq!(partitions.iter().filter(told).count(), partitions.len(), "{report}");
}

#[test]
fn a_drill_that_is_interrupted_killed_or_refused_leaves_nothing_or_what_the_next_one_removes() {
    let _turn = place::turn();
    let world = World::new("drill-ends");
    for stopped_by in [Signal::INT, Signal::TERM] {
        let (mut drill, folder, broker) = world.drill_under_way();
        signal(drill.id(), stopped_by);
        let ended = drill.wait().expect("it was started here");
        assert_eq!(ended.code(), Some(1), "{stopped_by:?}");
        assert!(!folder.exists() && !runs(broker), "{stopped_by:?}");
    }
    let (mut drill, folder, broker) = world.drill_under_way();
    signal(drill.id(), Signal::KILL);
    drill.wait().expect("it was started here");
    until("the broker ends with its drill", LIMIT, || if runs(broker) { Err("it runs".to_owned()) } else { Ok(()) });
    assert!(folder.exists());
    // The next one removes what it left, and does its work.
    let text = world.drill(&[]).done();
    assert!(text.contains("removed") && text.contains("RTO") && !folder.exists(), "{text}");
    world.left_nothing();

    let data = world.site.data().join("inside");
    std::fs::create_dir(&data).expect("a folder");
    let refusals: [(&[&str], &str); 4] = [
        (&["--topic", "nowhere"], "topic nowhere"),
        (&["--dir", data.to_str().expect("UTF-8")], "where only the mirror's files are"),
        (&["--dir", "/nowhere/at/all"], "--dir"),
        (&["--start-command", "false"], "exit status: 1"),
    ];
    for (more, sign) in refusals {
        let refused = world.drill(more).refused();
        assert!(refused.contains(sign), "{refused}");
    }
    std::fs::remove_dir(data).expect("it is empty");
    if Path::new("/dev/shm").is_dir() {
        let refused = world.drill(&["--dir", "/dev/shm"]).refused();
        assert!(refused.contains("another file system") && refused.contains("--copy"), "{refused}");
    }
    let refused = world.drill_of("other", &[]).refused();
    assert!(refused.contains("mirror other"), "{refused}");
    world.left_nothing();
    world.house.down();
}
