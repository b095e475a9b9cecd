//! Start offsets of share groups, where both clusters have such groups; what is delivered beyond them is not copied.

use crate::source::SourceError;
use crate::sync::cluster::Cluster;
use crate::sync::groups::offsets::{Found, Told, gathered};
use crate::sync::groups::plan::{Committed, Offsets};
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use twinlog_proto::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};

/// The start offsets of `groups`, as far as `wanted` says; none where the broker does not know share groups.
///
/// # Errors
/// See [`SourceError`]; an error of one group stands with the group.
pub async fn fetch(
    cluster: &mut Cluster,
    broker: i32,
    groups: &[String],
    wanted: &dyn Fn(&str, i32) -> bool,
) -> Result<Found, SourceError> {
    if cluster.version_at::<DescribeShareGroupOffsetsRequest>(broker).await?.is_none() {
        return Ok(Found::new());
    }
    let group = |id: &String| DescribeShareGroupOffsetsRequestGroup { group_id: id.clone(), topics: None };
    let request = DescribeShareGroupOffsetsRequest { groups: groups.iter().map(group).collect() };
    let mut found = Found::new();
    for group in cluster.ask_broker(broker, &request).await?.groups {
        let told = group.topics.into_iter().flat_map(|topic| {
            topic.partitions.into_iter().map(move |p| Told {
                topic: topic.topic_name.clone(),
                partition: p.partition_index,
                committed: Committed { offset: p.start_offset, epoch: -1, metadata: None },
                error_code: p.error_code,
            })
        });
        found.insert(group.group_id, gathered(group.error_code, told, wanted));
    }
    Ok(found)
}

/// Sets start offsets of a group; gives the code of each partition.
///
/// # Errors
/// See [`SourceError`].
pub async fn alter(
    cluster: &mut Cluster,
    coordinator: i32,
    group: &str,
    offsets: &Offsets,
) -> Result<BTreeMap<(String, i32), ErrorCode>, SourceError> {
    let partition = |(index, start): (&i32, &Committed)| AlterShareGroupOffsetsRequestPartition {
        partition_index: *index,
        start_offset: start.offset,
    };
    let topic = |(name, partitions): (&String, &BTreeMap<i32, Committed>)| AlterShareGroupOffsetsRequestTopic {
        topic_name: name.clone(),
        partitions: partitions.iter().map(partition).collect(),
    };
    let request =
        AlterShareGroupOffsetsRequest { group_id: group.to_owned(), topics: offsets.iter().map(topic).collect() };
    let answer = cluster.ask_broker(coordinator, &request).await?;
    let mut codes = BTreeMap::new();
    if answer.error_code != 0 {
        let all =
            offsets.iter().flat_map(|(name, partitions)| partitions.keys().map(move |index| (name.clone(), *index)));
        codes.extend(all.map(|partition| (partition, ErrorCode(answer.error_code))));
    }
    for topic in answer.responses {
        for p in topic.partitions.iter().filter(|_| answer.error_code == 0) {
            codes.insert((topic.topic_name.clone(), p.partition_index), ErrorCode(p.error_code));
        }
    }
    Ok(codes)
}
