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
    let keep = |topic: &str, partition: i32, offset: i64, epoch: i32, metadata: Option<String>, code: i16| {
        // -1 is how a group says that it has none.
        (code == 0 && offset >= 0 && wanted(topic, partition)).then_some(Committed { offset, epoch, metadata })
    };
    for group in answer.groups {
        if group.error_code != 0 {
            found.insert(group.group_id, Err(ErrorCode(group.error_code)));
            continue;
        }
        let mut offsets = Offsets::new();
        for topic in group.topics {
            for p in topic.partitions {
                let kept = keep(
                    &topic.name,
                    p.partition_index,
                    p.committed_offset,
                    p.committed_leader_epoch,
                    p.metadata,
                    p.error_code,
                );
                if let Some(committed) = kept {
                    offsets.entry(topic.name.clone()).or_default().insert(p.partition_index, committed);
                }
            }
        }
        found.insert(group.group_id, Ok(offsets));
    }
    let [group] = asked else { return };
    if found.contains_key(group) {
        return;
    }
    let mut offsets = Offsets::new();
    for topic in answer.topics {
        for p in topic.partitions {
            let kept = keep(
                &topic.name,
                p.partition_index,
                p.committed_offset,
                p.committed_leader_epoch,
                p.metadata,
                p.error_code,
            );
            if let Some(committed) = kept {
                offsets.entry(topic.name.clone()).or_default().insert(p.partition_index, committed);
            }
        }
    }
    let outcome = if answer.error_code == 0 { Ok(offsets) } else { Err(ErrorCode(answer.error_code)) };
    found.insert(group.clone(), outcome);
}
