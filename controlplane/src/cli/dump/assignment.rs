//! Assignment files, by which the data plane learns its work.

use super::state_log::shown;
use super::{Page, Stop};
use serde_json::{Map, Value, json};
use twinlog_proto::assignment::{self, Desired};

impl Page<'_> {
    pub(super) fn assignment(&mut self) -> Result<(), Stop> {
        let found = assignment::decode(&self.read()?).map_err(|why| self.wrong(&why))?;
        let settings =
            found.settings.into_iter().map(|setting| (setting.name.clone(), shown(&setting.name, setting.value)));
        let fields = [
            ("mirror", json!(found.mirror_name)),
            ("assignmentVersion", json!(found.assignment_version)),
            ("sourceClusterId", json!(found.source_cluster_id)),
            ("bootstrapServers", json!(found.bootstrap_servers)),
            ("settings", Value::Object(settings.collect::<Map<_, _>>())),
        ];
        self.entry("assignment", fields)?;
        for topic in found.topics {
            let fields = [
                ("topic", json!(topic.name)),
                ("topicId", json!(topic.topic_id.to_string())),
                ("segmentBytes", json!(topic.segment_bytes)),
                ("segmentMs", json!(topic.segment_ms)),
                ("segmentJitterMs", json!(topic.segment_jitter_ms)),
                ("segmentIndexBytes", json!(topic.segment_index_bytes)),
                ("indexIntervalBytes", json!(topic.index_interval_bytes)),
                ("compacted", json!(topic.compacted)),
                ("maxCompactionLagMs", json!(topic.max_compaction_lag_ms)),
            ];
            self.entry("assignedTopic", fields)?;
            for partition in topic.partitions {
                let desired = Desired::from_code(partition.desired)
                    .map_or_else(|| json!(partition.desired), |d| json!(format!("{d:?}")));
                let fields = [
                    ("topic", json!(topic.name)),
                    ("partition", json!(partition.index)),
                    ("slot", json!(partition.slot)),
                    ("dataDirectory", json!(partition.data_directory)),
                    ("desired", desired),
                    ("cutTo", json!(partition.cut_to)),
                    ("attempt", json!(partition.attempt)),
                ];
                self.entry("assignedPartition", fields)?;
            }
        }
        Ok(())
    }
}
