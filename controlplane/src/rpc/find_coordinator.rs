//! pure: FindCoordinator: a mirror is coordinated here; groups are not served, and transactions are refused.
//!
//! COORDINATOR_NOT_AVAILABLE makes a client ask again. A transactional producer would do so until its `max.block.ms` is over, so it
//! gets the one code on which the Java producer stops and prints our text (any that is neither retriable nor one of its own cases), and
//! librdkafka's stops and prints it too (that one and TRANSACTIONAL_ID_AUTHORIZATION_FAILED, of which Java does not print the text).

use crate::rpc::{Endpoint, refused_writes};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

/// The key is a transactional id.
const KEY_TRANSACTION: i8 = 1;
/// The key is a mirror's name.
const KEY_MIRROR: i8 = 3;
/// The key is the name of a group.
const KEY_GROUP: i8 = 0;
/// The key is a share group's partition.
const KEY_SHARE: i8 = 2;
/// Mirrors may be asked for from this version on.
const MIRROR_FROM: i16 = 7;
/// Several keys at once from this version on.
const SEVERAL_FROM: i16 = 4;

/// The answer. Whether there is such a mirror is for the coordinator to say.
#[must_use]
pub fn handle(request: &FindCoordinatorRequest, version: i16, us: &Endpoint) -> FindCoordinatorResponse {
    let refusal = match request.key_type {
        KEY_MIRROR if version >= MIRROR_FROM => None,
        KEY_TRANSACTION => Some((ErrorCode::CLUSTER_AUTHORIZATION_FAILED, refused_writes::WHY)),
        KEY_GROUP | KEY_SHARE => Some((ErrorCode::COORDINATOR_NOT_AVAILABLE, "groups are not served by a mirror node")),
        _ => Some((ErrorCode::INVALID_REQUEST, "this key type is not known at this version")),
    };
    let answer = |key: &String| {
        let (node_id, host, port) = match refusal {
            None => (us.node_id, us.host.clone(), us.port),
            Some(_) => (-1, String::new(), -1),
        };
        Coordinator {
            key: key.clone(),
            node_id,
            host,
            port,
            error_code: refusal.map_or(0, |(code, _)| code.0),
            error_message: refusal.map(|(_, text)| text.to_owned()),
        }
    };
    if version >= SEVERAL_FROM {
        let coordinators = request.coordinator_keys.iter().map(answer).collect();
        return FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() };
    }
    let Coordinator { node_id, host, port, error_code, error_message, .. } = answer(&request.key);
    FindCoordinatorResponse { error_code, error_message, node_id, host, port, ..FindCoordinatorResponse::default() }
}
