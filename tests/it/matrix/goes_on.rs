//! Rows of clients that go on at the broker that took over, when the source is gone.

use super::clients::{self, Group, joins, left_to_share, lives, shares};
use super::column::{Cell, Mode, Row};
use super::source::{LIMIT, LIVING, PRODUCERS, SHARED};
use super::world::World;
use serde_json::{Value, json};
use std::path::Path;
use twinlog_tests::kafka_log::{Batch, Log};
use twinlog_tests::process::until;

/// As the stock client tells a committed offset without a leader epoch.
const NO_EPOCH: i64 = -1;

/// Reads them.
pub(super) fn read(world: &mut World) {
    world.found(Row::Idempotent, idempotent);
    world.found(Row::Transactional, transactional);
    world.found(Row::Fresh, fresh);
    world.found(Row::Classic, |world| group(world, 0));
    world.found(Row::Consumer, |world| group(world, 1));
    world.found(Row::Share, share);
    world.found(Row::HigherEpoch, higher_epoch);
}

/// The batch at an offset.
fn batch(dir: &Path, offset: i64) -> Result<Batch, String> {
    let found = Log::read(dir)?.batches().find(|batch| batch.base <= offset && offset <= batch.last).cloned();
    found.ok_or_else(|| format!("{}: no batch at {offset}", dir.display()))
}

/// Where the mirrored records of a partition end.
fn end(world: &World, folder: &str) -> Result<i64, String> {
    let extent = world.before.extents.iter().find(|extent| extent.folder() == folder);
    extent.map(|extent| extent.end).ok_or_else(|| format!("no {folder}"))
}

fn idempotent(world: &mut World) -> Result<Cell, String> {
    let name = world.source.name.address().to_owned();
    let first = lives(&mut world.oracle, &name, None, world.source.delivery_ms)?;
    let end = end(world, "steady-0")?;
    let was = batch(&world.source.broker.partition_dir("steady", 0), 0)?;
    let is = batch(&world.node.partition_dir("steady", 0), first)?;
    let goes_on = (is.producer_id, is.producer_epoch, is.base_sequence)
        == (was.producer_id, was.producer_epoch, was.base_sequence + was.records);
    match goes_on && first == end {
        true => Ok(Cell::Kept),
        false => Err(format!("went on at {first}, behind {end}: {was:?}, then {is:?}")),
    }
}

fn transactional(world: &mut World) -> Result<Cell, String> {
    // The same process.
    let name = world.source.name.address().to_owned();
    let living = lives(&mut world.oracle, &name, Some(LIVING), world.source.delivery_ms);
    match world.column.mode {
        Mode::Standby => goes_on_in_steady(world, living?)?,
        // Not by its timeout: the coordinator says that it knows no such transaction.
        Mode::Adopt => match living {
            Err(why) if why.contains("InvalidPidMapping") => {}
            other => return Err(format!("a coordinator that knows nothing of it was to refuse it: {other:?}")),
        },
    }
    // Another one, with the id whose transaction was open.
    let more = json!({"do": "produce", "boot": world.boot, "topic": "paid", "count": 20, "perBatch": 5, "txn": "three", "end": "commit"});
    let told = world.oracle.try_ask(&more)?;
    let end = end(world, "paid-0")?;
    let first = told[0]["first"].as_i64().ok_or_else(|| told.to_string())?;
    let was = batch(&world.source.broker.partition_dir("paid", 0), end - 1)?;
    let is = batch(&world.node.partition_dir("paid", 0), first)?;
    let same_id = is.producer_id == was.producer_id;
    if same_id != (world.column.mode == Mode::Standby) || first <= end {
        return Err(format!("{was:?}, then {is:?}"));
    }
    if let Some(told) = world.also("transaction", json!({"topic": "paid", "txn": "three"}))? {
        let first = told[0].as_i64().ok_or_else(|| told.to_string())?;
        let now = batch(&world.node.partition_dir("paid", 0), first)?;
        if now.producer_id != is.producer_id {
            return Err(format!("librdkafka: {is:?}, then {now:?}"));
        }
    }
    Ok(match world.column.mode {
        Mode::Standby => Cell::Kept,
        Mode::Adopt => Cell::Changed(
            "a producer that lives on fails and is to be started again; another process with the id commits, under a new producer id".to_owned(),
        ),
    })
}

/// The transaction of a producer that lives on, which begins at `first`, is committed under the producer id that it had.
fn goes_on_in_steady(world: &mut World, first: i64) -> Result<(), String> {
    let was = batch(&world.source.broker.partition_dir("steady", 0), 10)?;
    let is = batch(&world.node.partition_dir("steady", 0), first)?;
    until("the transaction is committed", LIMIT, || match world.oracle.offsets(&world.boot, "steady")[0] {
        (_, end, stable) if end == stable => Ok(()),
        offsets => Err(format!("start, end, stable: {offsets:?}")),
    });
    match is.producer_id == was.producer_id && is.is_transactional() {
        true => Ok(()),
        false => Err(format!("{was:?}, then {is:?}")),
    }
}

/// The ids that a cluster gives out anew must not be those that wrote the mirrored records: what came from one would be taken for a
/// repetition, acknowledged with an old offset, and not written.
fn fresh(world: &mut World) -> Result<Cell, String> {
    let end = end(world, "singles-0")?;
    let ask = |prefix: &str| json!({"do": "fresh", "boot": world.boot, "topic": "singles", "producers": PRODUCERS, "prefix": prefix});
    let mut told = vec![("java", world.oracle.try_ask(&ask("java"))?)];
    told.extend(world.also("fresh", ask("other"))?.map(|offsets| ("other", offsets)));
    let values = world.oracle.try_ask(&json!({"do": "values", "boot": world.boot, "topic": "singles", "from": end}))?;
    for (prefix, told) in &told {
        let offsets: Vec<i64> = told.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        for (n, offset) in offsets.iter().enumerate() {
            if *offset < end || values[offset.to_string()] != format!("{prefix}-{n}") {
                return Err(format!("{prefix}-{n} was acknowledged at {offset}, the log ended at {end}: {values}"));
            }
        }
        if offsets.len() as i64 != PRODUCERS {
            return Err(format!("{prefix}: {told}"));
        }
    }
    Ok(Cell::Kept)
}

fn committed(offsets: &Value) -> Result<i64, String> {
    offsets["grouped-0"][0].as_i64().ok_or_else(|| format!("no offset in {offsets}"))
}

/// The group has its offset, and its next member begins there.
fn same_group(world: &mut World, at: usize) -> Result<Group, String> {
    let group = world.before.groups[at].clone();
    let is = clients::offsets(&mut world.oracle, &world.boot, group.id);
    let mut wanted = group.offsets.clone();
    if world.column.mode == Mode::Adopt {
        wanted["grouped-0"][1] = NO_EPOCH.into();
    }
    if is != wanted {
        return Err(format!("{} stood at {}, stands at {is}", group.id, group.offsets));
    }
    begins(world, &group)?;
    Ok(group)
}

/// A member of each client begins where the group stands.
fn begins(world: &mut World, group: &Group) -> Result<(), String> {
    let boot = world.boot.clone();
    let wanted = committed(&clients::offsets(&mut world.oracle, &boot, group.id))?;
    let first = joins(&mut world.oracle, &boot, group.id, group.protocol, 5)?;
    if first != wanted {
        return Err(format!("{} begins at {first}, not at {wanted}", group.id));
    }
    let wanted = committed(&clients::offsets(&mut world.oracle, &boot, group.id))?;
    let ask = json!({"group": group.id, "protocol": group.protocol, "topic": "grouped", "count": 5});
    match world.also("join", ask)? {
        Some(first) if first != wanted => Err(format!("librdkafka, {}: begins at {first}, not at {wanted}", group.id)),
        _ => Ok(()),
    }
}

fn group(world: &mut World, at: usize) -> Result<Cell, String> {
    same_group(world, at).map(|_| stands(world))
}

/// A group that has its offset and note: the epochs of a running broker are not the source's.
fn stands(world: &World) -> Cell {
    match world.column.mode {
        Mode::Standby => Cell::Kept,
        Mode::Adopt => Cell::Changed("offset and note are kept, without the leader epoch".to_owned()),
    }
}

fn share(world: &mut World) -> Result<Cell, String> {
    let Some(accepted) = world.before.accepted.clone() else {
        return Ok(Cell::Absent("share groups came with 4.2".to_owned()));
    };
    if world.column.mode == Mode::Adopt {
        return begins_anew(world, &accepted).map(Cell::Refused);
    }
    let (left, boot) = (left_to_share(&accepted), world.boot.clone());
    let now = shares(&mut world.oracle, &boot, left.len() as i64, false)?;
    if now == left {
        Ok(Cell::Kept)
    } else {
        Err(format!("{accepted:?} were accepted, {left:?} were left, {now:?} came"))
    }
}

/// A share group that is to begin with the earliest records gets those again that it had accepted; what was warned of.
fn begins_anew(world: &mut World, accepted: &[i64]) -> Result<String, String> {
    let boot = world.boot.clone();
    let now = shares(&mut world.oracle, &boot, SHARED, true)?;
    match !accepted.is_empty() && now == Vec::from_iter(0..SHARED) {
        true => world.warned("share groups"),
        false => Err(format!("{accepted:?} were accepted, {now:?} came")),
    }
}

/// A consumer that has seen an epoch takes no leader of a lower one: it would wait, without an error, for ever.
fn higher_epoch(world: &mut World) -> Result<Cell, String> {
    let group = same_group(world, 2)?;
    let epoch = group.offsets["grouped-0"][1].as_i64();
    if epoch.is_none_or(|epoch| epoch <= 0) {
        return Err(format!("the group committed no higher epoch: {}", group.offsets));
    }
    begins(world, &group).map(|()| stands(world))
}
