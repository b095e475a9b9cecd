//! pure: the requests that stock clients send, judged as a stock broker does.

use super::{Access, Guard, mirrors};
use crate::rpc::Refusal;
use std::collections::BTreeSet;
use twinlog_proto::messages::api_versions::ApiVersionsRequest;
use twinlog_proto::messages::describe_cluster::DescribeClusterRequest;
use twinlog_proto::messages::describe_configs::DescribeConfigsRequest;
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest,
};
use twinlog_proto::messages::init_producer_id::InitProducerIdRequest;
use twinlog_proto::messages::list_offsets::ListOffsetsRequest;
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataResponseTopic};
use twinlog_proto::messages::produce::ProduceRequest;
use twinlog_proto::security::acl::CLUSTER_NAME;
use twinlog_proto::security::codes::{Operation, ResourceType};

/// Up to version 0, no topics means all of them.
const EMPTY_IS_ALL_UP_TO: i16 = 0;
/// From this version on FindCoordinator asks for several keys.
const SEVERAL_FROM: i16 = 4;

/// Needs nothing: whoever connects may ask what is spoken.
impl Guard for ApiVersionsRequest {}

/// Is refused to everybody, and tells nobody anything.
impl Guard for ProduceRequest {}

/// As Produce.
impl Guard for InitProducerIdRequest {}

impl Guard for MetadataRequest {
    fn finish(&self, version: i16, access: &Access<'_>, response: &mut Self::Response) {
        let all = match &self.topics {
            None => true,
            Some(topics) => topics.is_empty() && version <= EMPTY_IS_ALL_UP_TO,
        };
        let asked = self.topics.as_deref().unwrap_or_default();
        let by_id: BTreeSet<_> =
            asked.iter().filter(|topic| !topic.topic_id.is_zero()).map(|topic| topic.topic_id).collect();
        response.topics.retain_mut(|topic| {
            // An id that nothing has.
            let Some(name) = topic.name.clone() else { return true };
            let Err(refusal) = access.need(Operation::Describe, ResourceType::Topic, &name) else {
                if self.include_topic_authorized_operations {
                    topic.topic_authorized_operations = access.operations(ResourceType::Topic, &name);
                }
                return true;
            };
            let (error_code, id) = (refusal.code.0, topic.topic_id);
            // Who knows the id learns no name by it, and who knows the name no id.
            *topic = MetadataResponseTopic { error_code, name: None, ..MetadataResponseTopic::default() };
            if by_id.contains(&id) {
                topic.topic_id = id;
            } else {
                topic.name = Some(name);
            }
            !all
        });
        if self.include_cluster_authorized_operations {
            response.cluster_authorized_operations = access.cluster_operations();
        }
    }
}

impl Guard for DescribeClusterRequest {
    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        if self.include_cluster_authorized_operations && response.error_code == 0 {
            response.cluster_authorized_operations = access.cluster_operations();
        }
    }
}

impl Guard for ListOffsetsRequest {
    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        for topic in &mut response.topics {
            let Err(refusal) = access.need(Operation::Describe, ResourceType::Topic, &topic.name) else { continue };
            for partition in &mut topic.partitions {
                partition.error_code = refusal.code.0;
                (partition.timestamp, partition.offset, partition.leader_epoch) = (-1, -1, -1);
            }
        }
    }
}

impl Guard for FindCoordinatorRequest {
    fn finish(&self, version: i16, access: &Access<'_>, response: &mut Self::Response) {
        let kind = match self.key_type {
            0 => ResourceType::Group,
            1 => ResourceType::TransactionalId,
            3 => ResourceType::ClusterMirror,
            _ => return,
        };
        let denied = |key: &str| access.need(Operation::Describe, kind, key).err();
        for coordinator in &mut response.coordinators {
            let Some(refusal) = denied(&coordinator.key) else { continue };
            coordinator.error_code = refusal.code.0;
            coordinator.error_message = access.words(refusal);
            (coordinator.node_id, coordinator.host, coordinator.port) = (-1, String::new(), -1);
        }
        if version < SEVERAL_FROM
            && let Some(refusal) = denied(&self.key)
        {
            response.error_code = refusal.code.0;
            response.error_message = Some(refusal.message);
            (response.node_id, response.host, response.port) = (-1, String::new(), -1);
        }
    }
}

/// The resource of access control that a resource with settings belongs to; `None` when there is no such thing.
fn of_configs(resource_type: i8, name: &str) -> Option<(ResourceType, &str)> {
    match resource_type {
        2 => Some((ResourceType::Topic, name)),
        // Brokers and their loggers.
        4 | 8 => Some((ResourceType::Cluster, CLUSTER_NAME)),
        32 => Some((ResourceType::Group, name)),
        64 => Some((ResourceType::ClusterMirror, name)),
        _ => None,
    }
}

impl Guard for DescribeConfigsRequest {
    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        for result in &mut response.results {
            let Some((kind, name)) = of_configs(result.resource_type, &result.resource_name) else { continue };
            let Err(refusal) = access.need(Operation::DescribeConfigs, kind, name) else { continue };
            result.error_code = refusal.code.0;
            result.error_message = access.words(refusal);
            result.configs.clear();
        }
    }
}

fn alter(resource: &AlterConfigsResource, access: &Access<'_>) -> Result<(), Refusal> {
    let Some((kind, name)) = of_configs(resource.resource_type, &resource.resource_name) else { return Ok(()) };
    access.need(Operation::AlterConfigs, kind, name)?;
    if kind != ResourceType::ClusterMirror {
        return Ok(());
    }
    resource.configs.iter().try_for_each(|config| access.need_exclusion(name, config))?;
    // An include pattern that is taken away lets nothing start.
    let given = resource.configs.iter().filter(|config| !mirrors::takes_away(config));
    access.need_settings(given.map(|config| (config.name.as_str(), config.value.as_deref())))
}

impl Guard for IncrementalAlterConfigsRequest {
    fn permitted(&self, access: &Access<'_>) -> Option<Self> {
        let resources: Vec<_> =
            self.resources.iter().filter(|resource| alter(resource, access).is_ok()).cloned().collect();
        (resources.len() < self.resources.len()).then(|| Self { resources, ..self.clone() })
    }

    fn finish(&self, _version: i16, access: &Access<'_>, response: &mut Self::Response) {
        for resource in &self.resources {
            let Err(refusal) = alter(resource, access) else { continue };
            response.responses.push(AlterConfigsResourceResponse {
                error_code: refusal.code.0,
                error_message: access.words(refusal),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
            });
        }
    }
}
