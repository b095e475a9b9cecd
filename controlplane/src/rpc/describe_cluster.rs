//! pure: DescribeCluster: one node, this one.

use crate::rpc::{Endpoint, OPERATIONS_NOT_ASKED};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

/// Endpoint type of brokers; controllers are another kind of endpoint, which this node is not.
const BROKERS: i8 = 1;

/// The answer.
#[must_use]
pub fn handle(request: &DescribeClusterRequest, us: &Endpoint) -> DescribeClusterResponse {
    if request.endpoint_type != BROKERS {
        return DescribeClusterResponse {
            error_code: ErrorCode::MISMATCHED_ENDPOINT_TYPE.0,
            error_message: Some("this endpoint answers as a broker, not as a controller".to_owned()),
            endpoint_type: BROKERS,
            ..DescribeClusterResponse::default()
        };
    }
    DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: us.cluster_id.clone(),
        controller_id: us.node_id,
        brokers: vec![DescribeClusterBroker {
            broker_id: us.node_id,
            host: us.host.clone(),
            port: us.port,
            ..DescribeClusterBroker::default()
        }],
        cluster_authorized_operations: OPERATIONS_NOT_ASKED,
        ..DescribeClusterResponse::default()
    }
}
