//! Rows that are read before anybody writes to the broker that took over.

use super::column::{Cell, Row};
use super::source::seen;
use super::world::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use twinlog_tests::kafka_log::{self, Log, compare};

/// Reads them.
pub(super) fn read(world: &mut World) {
    let now = seen(&mut world.oracle, &world.boot, None);
    world.found(Row::Offsets, |world| offsets(&world.before.seen, &now));
    world.found(Row::BatchBytes, batch_bytes);
    world.found(Row::LeaderEpochs, |world| leader_epochs(world, &now));
    world.found(Row::TopicIds, topic_ids);
    world.found(Row::Timestamps, |world| timestamps(world, &now));
}

/// A row of what a consumer saw, as `topic-partition`, with the fields `keys`.
fn fields(seen: &Value, keys: &[&str]) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    for (level, rows) in seen.as_array().into_iter().flatten().enumerate() {
        for row in rows.as_array().into_iter().flatten() {
            let name = format!("{}-{} at level {level}", row["topic"].as_str().unwrap_or_default(), row["partition"]);
            all.insert(name, keys.iter().map(|key| row[key].clone()).collect());
        }
    }
    all
}

/// That both are the same, and not empty.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    was: &BTreeMap<String, T>,
    is: &BTreeMap<String, T>,
) -> Result<Cell, String> {
    let differs: Vec<String> = was
        .iter()
        .filter(|(name, was)| is.get(*name) != Some(was))
        .map(|(name, was)| format!("{name} was {was:?}, is {:?}", is.get(name)))
        .collect();
    let new: Vec<&String> = is.keys().filter(|name| !was.contains_key(*name)).collect();
    match (was.is_empty(), differs.is_empty() && new.is_empty()) {
        (true, _) => Err("nothing was looked at".to_owned()),
        (false, true) => Ok(Cell::Kept),
        (false, false) => Err(format!("{}; new: {new:?}", differs.join("; "))),
    }
}

fn offsets(was: &Value, is: &Value) -> Result<Cell, String> {
    let keys = ["start", "first", "last", "count"];
    same(&fields(was, &keys), &fields(is, &keys))
}

fn batch_bytes(world: &mut World) -> Result<Cell, String> {
    let mut batches = 0;
    for extent in &world.before.extents {
        let theirs = Log::read(&world.source.broker.partition_dir(&extent.topic, extent.partition))?;
        let ours = Log::read(&world.node.partition_dir(&extent.topic, extent.partition))?;
        let equal = compare(&theirs, &ours, extent.start, extent.end).map_err(|why| format!("{extent:?}: {why}"))?;
        batches += equal.batches;
    }
    if batches > 40 { Ok(Cell::Kept) } else { Err(format!("only {batches} batches were compared")) }
}

fn leader_epochs(world: &mut World, now: &Value) -> Result<Cell, String> {
    same(&fields(&world.before.seen, &["epochs"]), &fields(now, &["epochs"]))?;
    let topics: Vec<&String> = world.before.ids.keys().collect();
    let told = world.oracle.ask(&json!({"do": "describe", "boot": world.boot, "topics": topics}));
    let mut highest = 0;
    for extent in &world.before.extents {
        let mut history = epochs(&world.source.broker.partition_dir(&extent.topic, extent.partition))?;
        history.retain(|(_, start)| *start < extent.end); // a leader notes its epoch before it has a record of it
        let ours = epochs(&world.node.partition_dir(&extent.topic, extent.partition))?;
        if ours.get(..history.len()) != Some(&history[..]) {
            return Err(format!("{}: the epoch history was {history:?}, is {ours:?}", extent.folder()));
        }
        let last = history.last().map_or(0, |(epoch, _)| *epoch);
        let row = told.as_array().into_iter().flatten().find(|topic| topic["topic"] == *extent.topic);
        let own = row.and_then(|topic| topic["partitions"][extent.partition as usize]["epoch"].as_i64());
        if own <= Some(i64::from(last)) {
            return Err(format!("{}: the broker's epoch {own:?} is not above {last}", extent.folder()));
        }
        highest = highest.max(last);
    }
    if highest > 0 { Ok(Cell::Kept) } else { Err("the source had one epoch only".to_owned()) }
}

/// The epoch history of a folder. A follower knows the first epoch from its first batch on, which a cleaner may have left in the middle.
fn epochs(dir: &Path) -> Result<Vec<(i32, i64)>, String> {
    let mut history = kafka_log::epoch_file(dir)?;
    let first = Log::read(dir)?.batches().next().map_or(0, |batch| batch.base);
    if let Some((_, start)) = history.first_mut() {
        *start = first.max(*start);
    }
    Ok(history)
}

fn topic_ids(world: &mut World) -> Result<Cell, String> {
    let topics: Vec<&String> = world.before.ids.keys().collect();
    let told = world.oracle.ask(&json!({"do": "describe", "boot": world.boot, "topics": topics}));
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let is = told.as_array().into_iter().flatten().map(|t| (text(&t["topic"]), text(&t["id"]))).collect();
    for extent in &world.before.extents {
        let own = kafka_log::topic_id(&world.node.partition_dir(&extent.topic, extent.partition))?;
        if own != world.before.ids[&extent.topic] {
            return Err(format!("{}/partition.metadata says {own}", extent.folder()));
        }
    }
    same(&world.before.ids, &is)
}

fn timestamps(world: &mut World, now: &Value) -> Result<Cell, String> {
    same(&fields(&world.before.seen, &["digest"]), &fields(now, &["digest"]))?;
    let is = world.source.times(&mut world.oracle, &world.boot);
    match is == world.before.times {
        true => Ok(Cell::Kept),
        false => Err(format!("lookups by time gave {}, give {is}", world.before.times)),
    }
}
