//! Committed offsets of some groups that one broker coordinates.

use crate::source::SourceError;
use crate::sync::cluster::Cluster;
use crate::sync::groups::plan::{Committed, Offsets};
use std::collections::{BTreeMap, VecDeque};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};

/// What was found, by group.
pub type Found = BTreeMap<String, Result<Offsets, ErrorCode>>;

/// The first version that asks for several groups at once.
const SEVERAL_GROUPS: i16 = 8;

/// Fetches the offsets of `groups`, as far as `wanted` says of topic and partition. An answer that is too large is asked for in
/// halves.
///
/// # Errors
/// See [`SourceError`]; an error of one group stands with the group.
pub async fn fetch(
    cluster: &mut Cluster,
    broker: i32,
    groups: &[String],
    wanted: &dyn Fn(&str, i32) -> bool,
) -> Result<Found, SourceError> {
    let several = cluster.version_at::<OffsetFetchRequest>(broker).await? >= Some(SEVERAL_GROUPS);
    let mut found = Found::new();
    let mut waiting: VecDeque<&[String]> = if several { [groups].into() } else { groups.chunks(1).collect() };
    while let Some(some) = waiting.pop_front() {
        match cluster.ask_broker(broker, &question(some, several)).await {
            Ok(answer) => take(answer, some, wanted, &mut found),
            Err(SourceError::NotKafka { .. }) if some.len() > 1 => {
                let (one, other) = some.split_at(some.len() / 2);
                waiting.extend([one, other]);
            }
            Err(cause) => return Err(cause),
        }
    }
    Ok(found)
}

fn question(groups: &[String], several: bool) -> OffsetFetchRequest {
    // Without waiting for open transactions: what they decide comes with the next sync.
    if several {
        let group = |id: &String| OffsetFetchRequestGroup { group_id: id.clone(), ..Default::default() };
        return OffsetFetchRequest { groups: groups.iter().map(group).collect(), ..Default::default() };
    }
    OffsetFetchRequest { group_id: groups.first().cloned().unwrap_or_default(), ..Default::default() }
}

fn take(answer: OffsetFetchResponse, asked: &[String], wanted: &dyn Fn(&str, i32) -> bool, found: &mut Found) {
    for group in answer.groups {
        let told = group.topics.into_iter().flat_map(|topic| {
            topic.partitions.into_iter().map(move |p| Told {
                topic: topic.name.clone(),
                partition: p.partition_index,
                committed: Committed {
                    offset: p.committed_offset,
                    epoch: p.committed_leader_epoch,
                    metadata: p.metadata,
                },
                error_code: p.error_code,
            })
        });
        found.insert(group.group_id, gathered(group.error_code, told, wanted));
    }
    // The older versions tell of one group, without its name.
    let [group] = asked else { return };
    if found.contains_key(group) {
        return;
    }
    let told = answer.topics.into_iter().flat_map(|topic| {
        topic.partitions.into_iter().map(move |p| Told {
            topic: topic.name.clone(),
            partition: p.partition_index,
            committed: Committed { offset: p.committed_offset, epoch: p.committed_leader_epoch, metadata: p.metadata },
            error_code: p.error_code,
        })
    });
    found.insert(group.clone(), gathered(answer.error_code, told, wanted));
}

/// What an answer tells of one partition.
pub(super) struct Told {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) committed: Committed,
    pub(super) error_code: i16,
}

/// The offsets of one group, as far as there are any and they are wanted; or the error of the whole group.
pub(super) fn gathered(
    error_code: i16,
    told: impl Iterator<Item = Told>,
    wanted: &dyn Fn(&str, i32) -> bool,
) -> Result<Offsets, ErrorCode> {
    if error_code != 0 {
        return Err(ErrorCode(error_code));
    }
    let mut offsets = Offsets::new();
    // -1 is how a group says that it has none.
    for one in told.filter(|one| one.error_code == 0 && one.committed.offset >= 0) {
        if wanted(&one.topic, one.partition) {
            offsets.entry(one.topic).or_default().insert(one.partition, one.committed);
        }
    }
    Ok(offsets)
}
