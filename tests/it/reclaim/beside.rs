//! A pass proves: a broker that goes on running gives copies, keeps its own directories as they are, and serves all that it acknowledged.

use super::*;

#[test]
fn a_broker_that_runs_keeps_its_directories_and_the_mirror_goes_on_in_copies() {
    let _turn = place::turn();
    let mut world = World::new("reclaim-clone");
    let whole: u64 = world.ours().values().map(|(_, bytes, ..)| bytes).sum();
    let mut node = world.promote("first");
    let boot = node.address();
    world.write_to(&boot);
    world.source_gets(OLD + 500_000, 40);
    let more = json!({"do": "stream-start", "name": "on", "boot": boot, "topic": "plain", "partitions": 2, "perBatch": 5, "pauseMs": 20});
    world.oracle.ask(&more);
    until("the stream has begun", LIMIT, || {
        match world.oracle.offsets(&boot, "plain").iter().map(|(_, end, _)| end).sum::<i64>() {
            ends if ends > 200 + 40 => Ok(()),
            ends => Err(format!("ends: {ends}")),
        }
    });
    let refused = world.reclaim(&node, &[]).refused();
    assert!(refused.contains(".lock") && refused.contains("--clone"), "{refused}");
    let (before, clone) = (world.closed_at(&node), ["--clone"]);
    assert!(before.len() > 9, "{:?}", before.keys());
    let looked: Value =
        serde_json::from_str(&world.reclaim(&node, &["--clone", "--dry-run", "--json"]).done()).expect("JSON");
    assert_eq!((&looked["blockers"], records(&looked, "paid")), (&json!([]), 20), "{looked}");
    assert!(
        records(&looked, "plain") > 40 && looked["warnings"].to_string().contains("stay at the broker"),
        "{looked}"
    );
    for step in ["begun", "cloned", "unmarked", "moved", "returned"] {
        for at in [format!("reclaim-{step}-done"), format!("reclaim-{step}")] {
            let words = world.command("reclaim", "--from", &node, &clone);
            let ran = twinlog_until(&at, &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(ran.code, -1, "{at}: {ran:?}");
        }
    }
    let fetched = world.site.metric("twinlog_core_mirrored_bytes_total");
    let done = world.reclaim(&node, &clone).done();
    assert!(done.contains("of the broker stay there") && done.contains("still leads"), "{done}");
    assert!(!world.site.data().join(".twinlog-reclaim-dr").exists());
    world.start_again();
    world.is_the_sources(&BTreeMap::new());
    let fetched = world.site.metric("twinlog_core_mirrored_bytes_total") - fetched;
    assert!(fetched < whole as f64, "{fetched} bytes were fetched, the copy had {whole}");

    // The broker has served all along, and what it had is as it was: by its files, and once it was killed and has recovered them.
    let acknowledged =
        world.oracle.ask(&json!({"do": "stream-stop", "name": "on"}))["records"].as_i64().expect("a number");
    node.kill();
    node.resume();
    let seen = world.oracle.read(&boot, &["plain"], "read_committed");
    assert_eq!(seen.iter().map(|seen| seen.count).sum::<i64>(), 200 + 40 + acknowledged);
    let after = world.closed_at(&node);
    before.iter().for_each(|(path, bytes)| assert!(after.get(path) == Some(bytes), "{} was changed", path.display()));
    world.source_gets(OLD + 800_000, 40);
    world.is_the_sources(&BTreeMap::new());
    node.stop();
    world.house.down();
}
