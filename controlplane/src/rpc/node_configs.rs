//! pure: what DescribeConfigs tells of this node as a broker: stock tools look there for what a cluster lets them do. Called by
//! `describe_configs.rs`; never tells a setting that the node does not keep.

use crate::rpc::{Endpoint, Refusal};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::describe_configs::DescribeConfigsResourceResult;

/// Resource type of a broker.
pub const RESOURCE_BROKER: i8 = 4;
/// A value that holds from start to end of a process.
const FROM_THE_FILE: i8 = 4;
const SWITCH: i8 = 1;
const NUMBER: i8 = 3;

/// The settings of the node `name`; "" asks for what is set on all nodes, which is nothing.
///
/// # Errors
/// When it is another node's name.
pub fn described(name: &str, us: &Endpoint) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    if name.parse() != Ok(us.node_id) {
        let message = format!("there is no node {name}; this is node {}, the only one", us.node_id);
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    }
    let setting = |key: &str, value: String, config_type: i8| DescribeConfigsResourceResult {
        name: key.to_owned(),
        value: Some(value),
        read_only: true,
        config_source: FROM_THE_FILE,
        config_type,
        ..DescribeConfigsResourceResult::default()
    };
    // Topics come and go with their source alone.
    let never = || false.to_string();
    Ok(vec![
        setting("auto.create.topics.enable", never(), SWITCH),
        setting("delete.topic.enable", never(), SWITCH),
        setting("node.id", us.node_id.to_string(), NUMBER),
    ])
}
