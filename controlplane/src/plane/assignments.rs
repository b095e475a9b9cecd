//! pure: the assignment of a mirror: everything that the data plane has to know of it, as one file.

use crate::mirror::catalog::{Desired, Mirror, Partition, Topic};
use crate::mirror::settings;
use twinlog_proto::assignment::{self, AssignedPartition, AssignedSetting, AssignedTopic, Assignment};
use twinlog_proto::mirror_state::MirrorState;

/// The assignment that belongs to the present state of a mirror.
#[must_use]
pub fn assignment(name: &str, mirror: &Mirror) -> Assignment {
    Assignment {
        mirror_name: name.to_owned(),
        assignment_version: mirror.facts.assignment_version,
        source_cluster_id: mirror.facts.source_cluster_id.clone(),
        bootstrap_servers: settings::bootstrap_servers(&mirror.facts.settings),
        settings: mirror
            .facts
            .settings
            .of_data_plane()
            .map(|(name, value)| AssignedSetting { name: name.clone(), value: Some(value.clone()) })
            .collect(),
        topics: mirror.topics.iter().filter_map(|(name, topic)| topic_part(name, topic)).collect(),
    }
}

/// `None` while the source has not told what the topic is.
fn topic_part(name: &str, topic: &Topic) -> Option<AssignedTopic> {
    let partitions: Vec<AssignedPartition> =
        topic.partitions.iter().filter_map(|(index, partition)| partition_part(*index, topic, partition)).collect();
    let settings = &topic.facts.settings;
    (!partitions.is_empty()).then(|| AssignedTopic {
        name: name.to_owned(),
        topic_id: topic.facts.id,
        segment_bytes: settings.segment_bytes,
        segment_ms: settings.segment_ms,
        segment_jitter_ms: settings.segment_jitter_ms,
        segment_index_bytes: settings.segment_index_bytes,
        index_interval_bytes: settings.index_interval_bytes,
        compacted: settings.compacted,
        max_compaction_lag_ms: settings.max_compaction_lag_ms,
        partitions,
    })
}

const NO_CUT: i64 = -1;

fn partition_part(index: i32, topic: &Topic, partition: &Partition) -> Option<AssignedPartition> {
    let placement = partition.placement.as_ref()?;
    let state = match partition.standing.state {
        MirrorState::Failed => partition.standing.previous,
        state => state,
    };
    let desired = match state {
        _ if placement.discard => assignment::Desired::Discard,
        MirrorState::Stopping | MirrorState::Stopped => assignment::Desired::Stop,
        MirrorState::Pausing | MirrorState::Paused => assignment::Desired::Pause,
        MirrorState::Unknown | MirrorState::Failed => match topic.facts.desired {
            Desired::Mirror => assignment::Desired::Mirror,
            Desired::Pause => assignment::Desired::Pause,
            Desired::Stop => assignment::Desired::Stop,
        },
        MirrorState::Preparing | MirrorState::EpochFencing | MirrorState::Mirroring | MirrorState::Initializing => {
            assignment::Desired::Mirror
        }
    };
    Some(AssignedPartition {
        index,
        slot: placement.slot.cast_signed(),
        data_directory: placement.directory.clone(),
        desired: desired.code(),
        cut_to: NO_CUT,
        attempt: placement.attempt,
    })
}
