//! What lies behind the cut, which the data plane's program reads: with the broker's log directories locked, or beside a broker that runs.

use super::progress::{self, Taken};
use super::{Order, Preflight, plan_path};
use crate::failure::Failure;
use crate::handover::locks::Locks;
use crate::handover::preflight::Finding;
use crate::handover::surgeon;
use std::collections::BTreeMap;
use twinlog_proto::handover::plan::{HandOverPlan, HandOverResult, HandedPartition};

/// Reads it; the plan and the judgement have where each partition is cut then.
///
/// # Errors
/// What the program complains of.
pub(super) fn read(
    order: &Order,
    locks: &Locks,
    judged: &mut Preflight,
    plan: &mut HandOverPlan,
) -> Result<(), Failure> {
    let path = plan_path(order);
    surgeon::write_plan(&path, plan)?;
    let found = if order.clone { surgeon::clone(&path)? } else { surgeon::operate(&path, locks)? };
    take_over(judged, plan, &found);
    (judged.records, judged.bytes) = progress::sums(&judged.partitions);
    if order.clone && judged.records > 0 {
        judged.warnings.push(Finding::new(
            format!(
                "{} records behind the cut stay at the broker, as will what its clients write from now on: the mirror has none of it",
                judged.records
            ),
            "move the clients to the new leader, then delete the topics there when nothing of that is wanted",
        ));
    }
    Ok(())
}

/// Takes over what the data plane's program found behind the last mirrored offsets, and where those are when it looked for them.
fn take_over(judged: &mut Preflight, plan: &mut HandOverPlan, found: &HandOverResult) {
    behind(&mut judged.partitions, found);
    let known = by_partition(found);
    for (taken, planned) in judged.partitions.iter_mut().zip(&mut plan.partitions) {
        if let Some(found) = known.get(&(taken.topic.as_str(), taken.partition)) {
            (taken.last_mirrored_offset, taken.last_mirror_epoch) = (found.cut_offset, found.cut_epoch);
            taken.log_start_offset = taken.log_start_offset.min(found.cut_offset);
            (planned.last_mirrored_offset, planned.last_mirror_epoch) = (found.cut_offset, found.cut_epoch);
            planned.log_start_offset = taken.log_start_offset;
        }
    }
}

/// Notes what was found behind the cuts.
pub(super) fn behind(partitions: &mut [Taken], found: &HandOverResult) {
    let known = by_partition(found);
    for taken in partitions {
        if let Some(found) = known.get(&(taken.topic.as_str(), taken.partition)) {
            (taken.end_offset, taken.records) = (found.beyond_end_offset, found.beyond_records);
            taken.bytes = found.beyond_bytes;
            taken.epochs.clone_from(&found.beyond_epochs);
        }
    }
}

fn by_partition(found: &HandOverResult) -> BTreeMap<(&str, i32), &HandedPartition> {
    found.partitions.iter().map(|found| ((found.topic.as_str(), found.index), found)).collect()
}
