//! Rows of what the broker that took over does later by itself: starts after a crash, cleans, deletes, and has a second one join.

use super::column::{Cell, Mode, Row};
use super::rows::{epochs, fields, same};
use super::source::{LIMIT, RETENTION_MS, latest, names, seen, spec};
use super::world::World;
use serde_json::{Value, json};
use twinlog_tests::copy;
use twinlog_tests::kafka::Broker;
use twinlog_tests::kafka_log::{Log, compare};
use twinlog_tests::process::until;

/// Reads them.
pub(super) fn read(world: &mut World, source_start: i64) {
    world.found(Row::Unclean, unclean);
    world.found(Row::Retention, |world| retention(world, source_start));
    world.found(Row::Cleaner, cleaner);
    world.found(Row::Follower, follower);
}

/// Where retention moves the log start of `aged` to at a broker.
pub(super) fn retained(oracle: &mut twinlog_tests::oracle::Oracle, boot: &str) -> i64 {
    let set = json!({"retention.ms": RETENTION_MS.to_string()});
    oracle.ask(&json!({"do": "settings", "boot": boot, "topic": "aged", "set": set}));
    until("retention deletes old segments", LIMIT, || match oracle.offsets(boot, "aged").first() {
        Some((start, ..)) if *start > 0 => Ok(*start),
        other => Err(format!("{other:?}")),
    })
}

fn retention(world: &mut World, source_start: i64) -> Result<Cell, String> {
    let boot = world.boot.clone();
    match retained(&mut world.oracle, &boot) {
        start if start == source_start => Ok(Cell::Kept),
        start => Err(format!("the log begins at {start}, the source's at {source_start}")),
    }
}

/// Ends of all partitions, as clients are told.
fn ends(world: &mut World) -> Vec<i64> {
    let boot = world.boot.clone();
    copy::extents(&mut world.oracle, &boot, &names()).into_iter().map(|extent| extent.end).collect()
}

fn unclean(world: &mut World) -> Result<Cell, String> {
    let acknowledged = ends(world);
    let begins = world.node.log().len();
    world.node.kill();
    world.node.resume();
    let log = world.node.log();
    if log[begins..].contains("Skipping recovery") {
        return Err("the start was clean".to_owned());
    }
    let all = ["start", "first", "last", "count", "digest", "epochs"];
    // A running broker's copies have epoch 0, as the row of the epochs says.
    let keys = if world.column.mode == Mode::Adopt { &all[..5] } else { &all[..] };
    let now = seen(&mut world.oracle, &world.boot, Some(&world.before.extents));
    same(&fields(&world.before.seen, keys), &fields(&now, keys))?;
    let is = ends(world);
    if is == acknowledged { Ok(Cell::Kept) } else { Err(format!("ends were {acknowledged:?}, are {is:?}")) }
}

fn cleaner(world: &mut World) -> Result<Cell, String> {
    let (boot, topic) = (world.boot.clone(), "compacted");
    let set = json!({"min.compaction.lag.ms": "0"});
    world.oracle.try_ask(&json!({"do": "settings", "boot": boot, "topic": topic, "set": set}))?;
    // Rolls the segment.
    world.oracle.produce(&boot, topic, json!({"count": 2, "perBatch": 2, "keys": 2, "keyPrefix": "new-"}));
    let extents = world.before.extents.clone();
    let end = extents.iter().find(|extent| extent.topic == topic).map_or(0, |extent| extent.end);
    let keys = world.before.latest["keys"].as_i64();
    let dir = world.node.partition_dir(topic, 0);
    until("the cleaner leaves one record of each key", LIMIT, || {
        let log = Log::read(&dir)?;
        let left: i64 = log.batches().filter(|batch| batch.last < end).map(|batch| i64::from(batch.records)).sum();
        if Some(left) == keys { Ok(()) } else { Err(format!("{left} records of {keys:?} keys")) }
    });
    let is = latest(&mut world.oracle, &boot, Some(&extents));
    let now = seen(&mut world.oracle, &boot, Some(&extents));
    let left = fields(&now, &["count", "digest"]).remove("compacted-0 at level 0");
    let wanted = vec![world.before.latest["keys"].clone(), world.before.latest["digest"].clone()];
    match is == world.before.latest && left.as_ref() == Some(&wanted) {
        true => Ok(Cell::Kept),
        false => Err(format!("wanted {wanted:?}, {left:?} are left")),
    }
}

/// A follower takes no batch whose epoch is above its leader's, and says nothing.
fn follower(world: &mut World) -> Result<Cell, String> {
    let dir = world.scratch.path().join("second");
    let second = Broker::start(spec(world.column, &dir).joining(&world.node, 2));
    let (boot, names) = (world.boot.clone(), names());
    world.oracle.try_ask(&json!({"do": "reassign", "boot": boot, "topics": names, "replicas": [1, 2]}))?;
    until("the second broker is in sync", LIMIT, || {
        let told = world.oracle.ask(&json!({"do": "describe", "boot": boot, "topics": names}));
        let rows = told
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|topic| topic["partitions"].as_array().into_iter().flatten());
        let behind: Vec<&Value> = rows.filter(|row| row["isr"] != 2).collect();
        if behind.is_empty() { Ok(()) } else { Err(format!("{behind:?}")) }
    });
    for extent in copy::extents(&mut world.oracle, &boot, &names) {
        let first = world.node.partition_dir(&extent.topic, extent.partition);
        let copy = second.partition_dir(&extent.topic, extent.partition);
        until("the second broker has all", LIMIT, || match Log::read(&copy)?.end() {
            end if end >= extent.end => Ok(()),
            end => Err(format!("{end} of {extent:?}")),
        });
        compare(&Log::read(&first)?, &Log::read(&copy)?, extent.start, extent.end)?;
        let (was, is) = (epochs(&first, extent.end)?, epochs(&copy, extent.end)?);
        if was != is {
            return Err(format!("{}: epochs {was:?} and {is:?}", extent.folder()));
        }
    }
    Ok(Cell::Kept)
}
