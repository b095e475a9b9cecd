//! Rows that are read before anybody writes to the broker that took over.

use super::column::{Cell, Mode, Row};
use super::source::{LEVELS, TIERED, TRIMMED_AT, names, seen, settings_of};
use super::world::World;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use twinlog_tests::kafka_log::{self, Log, compare, compare_restamped};

/// Reads them.
pub(super) fn read(world: &mut World) {
    let now = seen(&mut world.oracle, &world.boot, None);
    world.found(Row::Offsets, |world| offsets(&world.before.seen, &now));
    world.found(Row::BatchBytes, batch_bytes);
    world.found(Row::LeaderEpochs, |world| leader_epochs(world, &now));
    world.found(Row::TopicIds, topic_ids);
    world.found(Row::Timestamps, |world| timestamps(world, &now));
    world.found(Row::Gaps, |world| gaps(world, &now));
    world.found(Row::LogStart, |world| log_start(world, &now));
    world.found(Row::Aborted, |world| aborted(world, &now));
    world.found(Row::Open, open);
    world.found(Row::Configs, configs);
    world.found(Row::Acls, acls);
    world.found(Row::Quotas, quotas);
    world.found(Row::Tiered, tiered);
}

/// A row of what a consumer saw, as `topic-partition`, with the fields `keys`.
pub(super) fn fields(seen: &Value, keys: &[&str]) -> BTreeMap<String, Vec<Value>> {
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
        let equal = match world.column.mode {
            Mode::Standby => compare(&theirs, &ours, extent.start, extent.end),
            Mode::Adopt => compare_restamped(&theirs, &ours, extent.start, extent.end),
        };
        batches += equal.map_err(|why| format!("{extent:?}: {why}"))?.batches;
    }
    match world.column.mode {
        _ if batches <= 40 => Err(format!("only {batches} batches were compared")),
        Mode::Standby => Ok(Cell::Kept),
        Mode::Adopt => {
            Ok(Cell::Changed("the leader epoch of each batch is 0, all other bytes are the same".to_owned()))
        }
    }
}

fn leader_epochs(world: &mut World, now: &Value) -> Result<Cell, String> {
    match world.column.mode {
        Mode::Standby => mirrored_epochs(world, now),
        Mode::Adopt => {
            let (was, is) = (fields(&world.before.seen, &["epochs"]), fields(now, &["epochs"]));
            let zero = |epochs: &[Value]| {
                epochs.iter().flat_map(|all| all.as_array().into_iter().flatten()).all(|e| e[0] == 0)
            };
            let rose = was.values().any(|epochs| !zero(epochs));
            match rose && !is.is_empty() && is.values().all(|epochs| zero(epochs)) {
                true => Ok(Cell::Changed(
                    "0 for every record: the broker makes a new topic, which begins with epoch 0".to_owned(),
                )),
                false => Err(format!("were {was:?}, are {is:?}")),
            }
        }
    }
}

fn mirrored_epochs(world: &mut World, now: &Value) -> Result<Cell, String> {
    same(&fields(&world.before.seen, &["epochs"]), &fields(now, &["epochs"]))?;
    let topics: Vec<&String> = world.before.ids.keys().collect();
    let told = world.oracle.ask(&json!({"do": "describe", "boot": world.boot, "topics": topics}));
    let mut highest = 0;
    for extent in &world.before.extents {
        let history = epochs(&world.source.broker.partition_dir(&extent.topic, extent.partition), extent.end)?;
        let ours = epochs(&world.node.partition_dir(&extent.topic, extent.partition), extent.end)?;
        if ours != history {
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

/// The epoch history of a folder up to an end, each epoch from its first batch on: a leader notes an epoch before it has a record of it, and
/// a cleaner takes the first ones away, of which a follower that comes later knows nothing.
pub(super) fn epochs(dir: &Path, end: i64) -> Result<Vec<(i32, i64)>, String> {
    let (mut history, log) = (kafka_log::epoch_file(dir)?, Log::read(dir)?);
    for (_, start) in &mut history {
        *start = log.batches().find(|batch| batch.last >= *start).map_or(i64::MAX, |batch| batch.base.max(*start));
    }
    history.retain(|(_, start)| *start < end);
    Ok(history)
}

fn topic_ids(world: &mut World) -> Result<Cell, String> {
    let topics: Vec<&String> = world.before.ids.keys().collect();
    let told = world.oracle.ask(&json!({"do": "describe", "boot": world.boot, "topics": topics}));
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let is = told.as_array().into_iter().flatten().map(|t| (text(&t["topic"]), text(&t["id"]))).collect();
    let wanted: &BTreeMap<String, String> = match world.column.mode {
        Mode::Standby => &world.before.ids,
        Mode::Adopt => &is,
    };
    for extent in &world.before.extents {
        let own = kafka_log::topic_id(&world.node.partition_dir(&extent.topic, extent.partition))?;
        if Some(&own) != wanted.get(&extent.topic) {
            return Err(format!(
                "{}/partition.metadata says {own}, {:?} was told",
                extent.folder(),
                wanted.get(&extent.topic)
            ));
        }
    }
    let new = is.iter().filter(|(topic, id)| world.before.ids.get(*topic) != Some(id)).count();
    match world.column.mode {
        Mode::Adopt if new == world.before.ids.len() => {
            Ok(Cell::Changed("the broker's cluster gives new ones".to_owned()))
        }
        _ => same(&world.before.ids, &is),
    }
}

/// A running broker gets the rules that are about the topics and their groups alone.
fn acls(world: &mut World) -> Result<Cell, String> {
    let is = world.oracle.try_ask(&json!({"do": "list-acls", "boot": world.boot}))?;
    if world.column.mode == Mode::Standby {
        return kept(&world.before.acls, &is);
    }
    let (was, is) = (rules(&world.before.acls), rules(&is));
    let literal: BTreeSet<&String> = was.iter().filter(|rule| rule.contains("plain")).collect();
    match literal.len() < was.len() && !literal.is_empty() && is.iter().collect::<BTreeSet<_>>() == literal {
        true => Ok(Cell::Changed("those that name one of the topics or its groups; the others, prefixed and of other kinds, are told and left out".to_owned())),
        false => Err(format!("were {was:?}, are {is:?}")),
    }
}

/// Access rules, each as a text.
fn rules(all: &Value) -> BTreeSet<String> {
    all.as_array().into_iter().flatten().map(Value::to_string).collect()
}

fn timestamps(world: &mut World, now: &Value) -> Result<Cell, String> {
    same(&fields(&world.before.seen, &["digest"]), &fields(now, &["digest"]))?;
    for (level, isolation) in LEVELS.into_iter().enumerate() {
        let Some(told) = world.also("read", json!({"topics": names(), "isolation": isolation}))? else { break };
        for was in world.before.seen[level].as_array().into_iter().flatten() {
            let is = &told[format!("{}-{}", was["topic"].as_str().unwrap_or_default(), was["partition"])];
            if is["digest"] != was["digest"] || is["count"] != was["count"] {
                return Err(format!("librdkafka, {isolation}: was {was}, is {is}"));
            }
        }
    }
    let is = world.source.times(&mut world.oracle, &world.boot);
    match is == world.before.times {
        true => Ok(Cell::Kept),
        false => Err(format!("lookups by time gave {}, give {is}", world.before.times)),
    }
}

/// That a list or an object is the same, and not empty.
fn kept(was: &Value, is: &Value) -> Result<Cell, String> {
    let empty = was.as_array().is_some_and(Vec::is_empty) || was.as_object().is_some_and(serde_json::Map::is_empty);
    match !empty && was == is {
        true => Ok(Cell::Kept),
        false => Err(format!("was {was}, is {is}")),
    }
}

/// What a reader saw of a partition; level 0 is of all records, 1 of committed ones.
fn of<'s>(seen: &'s Value, level: usize, topic: &str, partition: i32) -> Result<&'s Value, String> {
    let rows = seen[level].as_array().into_iter().flatten();
    let found = rows.into_iter().find(|row| row["topic"] == topic && row["partition"] == partition);
    found.ok_or_else(|| format!("nobody read {topic}-{partition}"))
}

fn gaps(world: &mut World, now: &Value) -> Result<Cell, String> {
    let (was, is) = (of(&world.before.seen, 0, "compacted", 0)?, of(now, 0, "compacted", 0)?);
    let missing = was["last"].as_i64().unwrap_or(-1) + 1 - was["count"].as_i64().unwrap_or(0);
    if missing <= 0 {
        return Err(format!("the source has no gaps: {was}"));
    }
    let ours = Log::read(&world.node.partition_dir("compacted", 0))?.gaps();
    let theirs = Log::read(&world.source.broker.partition_dir("compacted", 0))?.gaps();
    match is["digest"] == was["digest"] && ours == theirs {
        true => Ok(Cell::Kept),
        false => Err(format!("{theirs} offsets were missing, are {ours}; was {was}, is {is}")),
    }
}

fn log_start(world: &mut World, now: &Value) -> Result<Cell, String> {
    let is = of(now, 0, "trimmed", 0)?;
    let first = Log::read(&world.node.partition_dir("trimmed", 0))?.batches().next().map_or(0, |batch| batch.base);
    match (is["start"].as_i64(), is["first"].as_i64()) {
        (Some(TRIMMED_AT), Some(TRIMMED_AT)) if first < TRIMMED_AT => Ok(Cell::Kept),
        _ => Err(format!("wanted {TRIMMED_AT} within the batch that begins at {first}: {is}")),
    }
}

/// Readers of committed records get what they got at the source, which is not all there is.
fn aborted(world: &mut World, now: &Value) -> Result<Cell, String> {
    for partition in 0..2 {
        let (all, was) = (of(&world.before.seen, 0, "paid", partition)?, of(&world.before.seen, 1, "paid", partition)?);
        let is = of(now, 1, "paid", partition)?;
        let index = Log::read(&world.node.partition_dir("paid", partition))?;
        let indexed = index.segments.iter().any(|segment| segment.sibling("txnindex").exists());
        let same = is["digest"] == was["digest"] && is["count"] == was["count"];
        if !same || all["count"] == was["count"] || !indexed {
            return Err(format!("paid-{partition}: of {all} committed was {was}, is {is}; indexed: {indexed}"));
        }
    }
    Ok(Cell::Kept)
}

fn open(world: &mut World) -> Result<Cell, String> {
    let now = world.oracle.offsets(&world.boot, "paid");
    let ends: Vec<i64> = world.before.extents.iter().filter(|e| e.topic == "paid").map(|e| e.end).collect();
    for ((_, end, stable), (was_stable, was_end)) in now.iter().zip(world.before.stable.iter().zip(&ends)) {
        if was_stable >= was_end {
            return Err(format!("nothing was open at the source: {:?} of {ends:?}", world.before.stable));
        }
        if (end, *stable) != (&(was_end + 1), was_end + 1) {
            return Err(format!("one marker at {was_end} was to end it: end {end}, stable {stable}"));
        }
    }
    Ok(Cell::Changed(
        "aborted, by a marker behind the mirrored records; readers of committed records are not held up".to_owned(),
    ))
}

fn configs(world: &mut World) -> Result<Cell, String> {
    let mut differs = BTreeSet::new();
    for (topic, is) in settings_of(&mut world.oracle, &world.boot) {
        let (was, is) = (world.before.settings[&topic].as_object(), is.as_object());
        let (Some(was), Some(is)) = (was, is) else { return Err(format!("{topic}: no settings")) };
        differs.extend(was.iter().filter(|(key, value)| is.get(*key) != Some(value)).map(|(key, _)| key.clone()));
    }
    match differs.is_empty() {
        true => Ok(Cell::Kept),
        false => Ok(Cell::Changed(format!("other values of {}", differs.into_iter().collect::<Vec<_>>().join(", ")))),
    }
}

fn quotas(world: &mut World) -> Result<Cell, String> {
    let is = world.oracle.try_ask(&json!({"do": "quotas", "boot": world.boot}))?;
    match world.column.mode {
        Mode::Adopt if is == json!({}) => world.warned("quotas of clients").map(Cell::Refused),
        _ => kept(&world.before.quotas, &is),
    }
}

/// What was refused at first goes over as a local topic, with its settings.
fn tiered(world: &mut World) -> Result<Cell, String> {
    let why = world.tiered.clone()?;
    let is = world.oracle.try_ask(&json!({"do": "read", "boot": world.boot, "topics": [TIERED]}))?;
    let own = world.oracle.try_ask(&json!({"do": "own-settings", "boot": world.boot, "topic": TIERED}))?;
    let faults = world.node.log().lines().filter(|line| line.contains("publishing fault")).count();
    let keys = ["start", "first", "last", "count", "digest"];
    let same = keys.iter().all(|key| is[0][key] == world.before.tiered[key]);
    match same && own["retention.ms"] == "-1" && faults == 0 {
        true => Ok(Cell::Refused(why)),
        false => Err(format!("was {}, is {is}, with {own}; {faults} faults", world.before.tiered)),
    }
}
