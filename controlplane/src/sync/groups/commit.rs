//! Commits offsets of groups at the destination, through the coordinators, over a few connections at the same time: a coordinator
//! lets each commit wait a little for others.

use crate::limits::{SOURCE_ASK, SYNC_COMMIT_LANES, SYNC_COORDINATOR_RETRIES, SYNC_COORDINATOR_RETRY};
use crate::source::SourceError;
use crate::source::connection::Connection;
use crate::sync::cluster::Cluster;
use crate::sync::groups::plan::Offsets;
use std::collections::BTreeMap;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use twinlog_proto::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

/// The first version of FindCoordinator that asks for several keys at once.
const SEVERAL_KEYS: i16 = 4;
/// Groups in one question for coordinators.
const KEYS_PER_QUESTION: usize = 500;

/// What came of each partition of a group: an error code, or why the group could not be asked at all.
pub type Outcome = Result<BTreeMap<(String, i32), ErrorCode>, String>;

/// Commits; every group has an outcome.
pub async fn all(
    cluster: &mut Cluster,
    coordinators: &BTreeMap<String, i32>,
    commits: BTreeMap<String, Offsets>,
) -> BTreeMap<String, Outcome> {
    let mut outcomes = BTreeMap::new();
    let mut by_broker: BTreeMap<i32, Vec<(String, Offsets)>> = BTreeMap::new();
    for (group, offsets) in commits {
        match coordinators.get(&group) {
            Some(broker) => by_broker.entry(*broker).or_default().push((group, offsets)),
            None => drop(outcomes.insert(group, Err("the destination names no coordinator for it".to_owned()))),
        }
    }
    for (broker, groups) in by_broker {
        let mut lanes = JoinSet::new();
        let share = groups.len().div_ceil(SYNC_COMMIT_LANES).max(1);
        let mut groups = groups.into_iter();
        loop {
            let some: Vec<(String, Offsets)> = groups.by_ref().take(share).collect();
            if some.is_empty() {
                break;
            }
            match cluster.take(broker).await {
                Ok(connection) => drop(lanes.spawn_local(lane(connection, some))),
                Err(cause) => {
                    let why = cause.to_string();
                    outcomes.extend(some.into_iter().map(|(group, _)| (group, Err(why.clone()))));
                }
            }
        }
        while let Some(ended) = lanes.join_next().await {
            let Ok((connection, done)) = ended else { continue };
            outcomes.extend(done);
            if let Some(connection) = connection {
                cluster.put_back(broker, connection);
            }
        }
    }
    outcomes
}

/// One connection's groups, one after the other; without the connection when it failed.
async fn lane(
    mut connection: Connection,
    groups: Vec<(String, Offsets)>,
) -> (Option<Connection>, Vec<(String, Outcome)>) {
    let mut done = Vec::with_capacity(groups.len());
    let mut broken: Option<String> = None;
    for (group, offsets) in groups {
        if let Some(why) = &broken {
            done.push((group, Err(why.clone())));
            continue;
        }
        let request = question(&group, offsets);
        let outcome = match timeout(SOURCE_ASK, connection.ask(&request)).await {
            Ok(Ok(answer)) => {
                let topics = answer.topics.into_iter();
                let codes = topics.flat_map(|topic| {
                    let name = topic.name;
                    topic
                        .partitions
                        .into_iter()
                        .map(move |p| ((name.clone(), p.partition_index), ErrorCode(p.error_code)))
                });
                Ok(codes.collect())
            }
            Ok(Err(cause)) => Err(cause.to_string()),
            Err(_elapsed) => Err(format!("the destination did not answer within {SOURCE_ASK:?}")),
        };
        broken = outcome.as_ref().err().cloned();
        done.push((group, outcome));
    }
    (broken.is_none().then_some(connection), done)
}

/// A commit by an administrator: it is taken only while nobody is in the group.
fn question(group: &str, offsets: Offsets) -> OffsetCommitRequest {
    let topic = |(name, partitions): (String, BTreeMap<i32, _>)| OffsetCommitRequestTopic {
        name,
        partitions: partitions
            .into_iter()
            .map(|(partition_index, committed): (i32, super::plan::Committed)| OffsetCommitRequestPartition {
                partition_index,
                committed_offset: committed.offset,
                committed_leader_epoch: committed.epoch,
                committed_metadata: committed.metadata,
            })
            .collect(),
    };
    OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: offsets.into_iter().map(topic).collect(),
        ..OffsetCommitRequest::default()
    }
}

/// The coordinators of groups that no broker has listed. The first question may make a cluster create the topic that keeps offsets,
/// so it is asked again for a while.
///
/// # Errors
/// See [`SourceError`]; a group without an answer is left out.
pub async fn find(cluster: &mut Cluster, groups: &[String]) -> Result<BTreeMap<String, i32>, SourceError> {
    let mut found = BTreeMap::new();
    let mut missing: Vec<String> = groups.to_vec();
    for attempt in 0..SYNC_COORDINATOR_RETRIES {
        if missing.is_empty() {
            break;
        }
        if attempt > 0 {
            sleep(SYNC_COORDINATOR_RETRY).await;
        }
        for some in missing.chunks(KEYS_PER_QUESTION) {
            for (group, node, address) in ask(cluster, some).await? {
                cluster.learn(node, address);
                found.insert(group, node);
            }
        }
        missing.retain(|group| !found.contains_key(group));
    }
    Ok(found)
}

async fn ask(cluster: &mut Cluster, groups: &[String]) -> Result<Vec<(String, i32, String)>, SourceError> {
    let address = |host: &str, port: i32| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let mut found = Vec::new();
    if cluster.version::<FindCoordinatorRequest>().await? >= Some(SEVERAL_KEYS) {
        let request = FindCoordinatorRequest { coordinator_keys: groups.to_vec(), ..Default::default() };
        for told in cluster.ask(&request).await?.coordinators {
            if told.error_code == 0 {
                found.push((told.key, told.node_id, address(&told.host, told.port)));
            }
        }
        return Ok(found);
    }
    for group in groups {
        let request = FindCoordinatorRequest { key: group.clone(), ..Default::default() };
        let told: FindCoordinatorResponse = cluster.ask(&request).await?;
        if told.error_code == 0 {
            found.push((group.clone(), told.node_id, address(&told.host, told.port)));
        }
    }
    Ok(found)
}
