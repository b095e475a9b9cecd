//! pure: DescribeMirrors: the recorded states together with what the board shows; unknown offsets are -1.

use crate::mirror::catalog::{Catalog, Mirror, Partition, Topic};
use crate::mirror::settings::BOOTSTRAP_SERVERS;
use crate::plane::lag::{lag_bytes, lag_records, lso_lag_records};
use crate::plane::pace::{CatchUp, Pace};
use crate::plane::view::{self, View};
use crate::rpc::{OPERATIONS_NOT_ASKED, Refusal, once};
use std::collections::BTreeSet;
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::messages::describe_mirrors::{
    DescribeMirrorsRequest, DescribeMirrorsResponse, DescribedMirror, PartitionDetail, TopicPartitions,
};
use twinlog_proto::mirror_state::MirrorState;

const UNKNOWN: i64 = -1;
/// In the place of a time: the source is as fast as the mirror.
const NEVER: i64 = -2;

/// The answer.
#[must_use]
pub fn handle(request: &DescribeMirrorsRequest, catalog: &Catalog, view: &View<'_>) -> DescribeMirrorsResponse {
    let names = request.mirror_names.as_deref().unwrap_or_default();
    let topics: BTreeSet<&str> = request.topic_names.iter().map(String::as_str).collect();
    let wanted = |topic: &str| topics.is_empty() || topics.contains(topic);
    let mirrors = if names.is_empty() {
        catalog.mirrors().map(|(name, mirror)| described(name, mirror, view, &wanted)).collect()
    } else {
        let one = |name: &String| match catalog.mirror(name) {
            Some(mirror) => described(name, mirror, view, &wanted),
            None => absent(name),
        };
        once(names, |name| name).map(one).collect()
    };
    DescribeMirrorsResponse { mirrors, ..DescribeMirrorsResponse::default() }
}

fn absent(name: &str) -> DescribedMirror {
    DescribedMirror {
        error_code: Refusal::unknown_mirror(name).code.0,
        mirror_name: name.to_owned(),
        authorized_operations: OPERATIONS_NOT_ASKED,
        ..DescribedMirror::default()
    }
}

fn described(name: &str, mirror: &Mirror, view: &View<'_>, wanted: &dyn Fn(&str) -> bool) -> DescribedMirror {
    let topics = mirror.topics.iter().filter(|(name, _)| wanted(name));
    DescribedMirror {
        mirror_name: name.to_owned(),
        topics: topics
            .map(|(name, topic)| TopicPartitions {
                topic_name: name.clone(),
                partitions: topic.partitions.iter().map(|(index, p)| detail(topic, *index, p, view)).collect(),
                topic_id: topic.facts.id,
                handed_over_to: topic.handed_over.clone(),
            })
            .collect(),
        authorized_operations: OPERATIONS_NOT_ASKED,
        source_cluster_id: Some(mirror.facts.source_cluster_id.clone()).filter(|id| !id.is_empty()),
        source_bootstrap: mirror.facts.settings.get(BOOTSTRAP_SERVERS).cloned(),
        ..DescribedMirror::default()
    }
}

fn detail(topic: &Topic, index: i32, partition: &Partition, view: &View<'_>) -> PartitionDetail {
    let standing = &partition.standing;
    let (seen, pace) = view.moves(topic, index).map_or((None, Pace::default()), |(seen, pace)| (Some(seen), pace));
    let seen = seen.as_ref();
    let offset = |pick: fn(&PartitionProgress) -> i64| seen.map_or(UNKNOWN, pick);
    let (per_mille, eta_ms) = catch_up(pace.catch_up);
    PartitionDetail {
        partition_index: index,
        source_offset: offset(|seen| seen.source_high_watermark),
        destination_offset: offset(|seen| seen.leo),
        lag: seen.and_then(lag_records).unwrap_or(UNKNOWN),
        state: view::state(standing.state, seen).name().to_owned(),
        last_mirror_offset: partition.last_mirrored.map_or(UNKNOWN, |last| last.offset),
        last_mirror_epoch: partition.last_mirrored.map_or(-1, |last| last.epoch),
        retry_attempt: standing.retry_attempt,
        error_message: standing.message.clone(),
        lag_ms: pace.lag_ms.unwrap_or(UNKNOWN),
        previous_state: Some(standing.previous)
            .filter(|state| *state != MirrorState::Unknown)
            .map(|state| state.name().to_owned()),
        leader_epoch: seen.map_or(-1, |seen| seen.leader_epoch),
        flushed_offset: offset(|seen| seen.flushed),
        log_start_offset: offset(|seen| seen.log_start),
        lag_bytes: seen.and_then(lag_bytes).unwrap_or(UNKNOWN),
        lso_lag_records: seen.and_then(lso_lag_records).unwrap_or(UNKNOWN),
        bytes_per_second: pace.bytes_per_second.unwrap_or(UNKNOWN),
        catch_up_per_mille: per_mille,
        catch_up_eta_ms: eta_ms,
    }
}

fn catch_up(catch_up: CatchUp) -> (i32, i64) {
    match catch_up {
        CatchUp::None => (-1, UNKNOWN),
        CatchUp::Measuring { per_mille } => (per_mille, UNKNOWN),
        CatchUp::Closing { per_mille, eta_ms } => (per_mille, eta_ms),
        CatchUp::NotClosing { per_mille } => (per_mille, NEVER),
    }
}
