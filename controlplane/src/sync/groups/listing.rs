//! The groups of a cluster: every broker lists those that it coordinates.

use crate::source::SourceError;
use crate::sync::cluster::Cluster;
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::list_groups::{ListGroupsRequest, ListedGroup};

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Whether somebody is in it, or may be.
    pub active: bool,
    /// Its protocol.
    pub form: Form,
}

/// Protocols of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Consumers, by the classic or the newer protocol: offsets are committed.
    Consumer,
    /// A share group: it has start offsets.
    Share,
    /// Anything else.
    Other,
}

/// Types that are asked for where a broker can tell them apart.
const TYPES: [&str; 3] = ["classic", "consumer", "share"];

/// The groups of all brokers by name; and the brokers that could not tell, with the reason.
///
/// # Errors
/// None of a single broker: see the second value.
pub async fn groups(cluster: &mut Cluster, every_type: bool) -> (BTreeMap<String, Group>, Vec<SourceError>) {
    let (mut groups, mut failures) = (BTreeMap::new(), Vec::new());
    for broker in cluster.brokers() {
        match of_broker(cluster, broker, every_type).await {
            Ok(listed) => groups.extend(listed.into_iter().map(|group| (group.group_id.clone(), read(broker, &group)))),
            Err(cause) => failures.push(cause),
        }
    }
    (groups, failures)
}

async fn of_broker(cluster: &mut Cluster, broker: i32, every_type: bool) -> Result<Vec<ListedGroup>, SourceError> {
    let knows_types = cluster.version_at::<ListGroupsRequest>(broker).await?.is_some_and(|version| version >= 5);
    let types: &[&str] = if knows_types && !every_type { &TYPES } else { &[] };
    let request = ListGroupsRequest {
        types_filter: types.iter().map(|name| (*name).to_owned()).collect(),
        ..ListGroupsRequest::default()
    };
    let answer = cluster.ask_broker(broker, &request).await?;
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE => Ok(answer.groups),
        code => Err(SourceError::Refused { what: "to list its groups", code }),
    }
}

fn read(coordinator: i32, group: &ListedGroup) -> Group {
    let is = |text: &str, name: &str| text.eq_ignore_ascii_case(name);
    // A group that only ever had offsets committed has no protocol.
    let of_consumers = group.protocol_type.is_empty() || group.protocol_type == "consumer";
    let form = match group.group_type.as_str() {
        "" => of_consumers,
        kind => of_consumers && (is(kind, "classic") || is(kind, "consumer")),
    };
    let form = match form {
        true => Form::Consumer,
        false if is(&group.group_type, "share") || group.protocol_type == "share" => Form::Share,
        false => Form::Other,
    };
    // A broker that does not tell the state leaves the commit to find out.
    let active = !["", "Empty", "Dead"].iter().any(|state| is(&group.group_state, state));
    Group { coordinator, active, form }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(protocol: &str, state: &str, kind: &str) -> Group {
        let listed = ListedGroup {
            group_id: "g".into(),
            protocol_type: protocol.into(),
            group_state: state.into(),
            group_type: kind.into(),
        };
        read(1, &listed)
    }

    #[test]
    fn groups_of_consumers_of_both_protocols_and_without_members_have_offsets() {
        for (protocol, kind) in [("consumer", "Classic"), ("consumer", "consumer"), ("", "classic"), ("consumer", "")] {
            assert_eq!(group(protocol, "Empty", kind).form, Form::Consumer, "{protocol} {kind}");
        }
        assert_eq!(group("share", "Empty", "Share").form, Form::Share);
        for (protocol, kind) in [("connect", "classic"), ("streams", "Streams"), ("connect", "")] {
            assert_eq!(group(protocol, "Empty", kind).form, Form::Other, "{protocol} {kind}");
        }
    }

    #[test]
    fn a_group_is_active_in_every_state_but_empty_and_dead() {
        for state in ["Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotYetKnown"]
        {
            assert!(group("consumer", state, "classic").active, "{state}");
        }
        assert!(!group("consumer", "Empty", "classic").active && !group("consumer", "Dead", "classic").active);
    }
}
