//! pure: access rules that were given to a running destination, as records. One with a number that a newer version gave is kept as it is.

use super::{TYPE_ACL_GIVEN, record, value, whole};
use crate::mirror::catalog::StateRecord;
use crate::statelog::batch::KeyValue;
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::state_log::{GivenAclKey, GivenAclValue};
use twinlog_proto::reader::Reader;
use twinlog_proto::security::acl::{AclBinding, Codes};

pub(super) fn encode(mirror: &str, binding: &AclBinding, to: Option<&str>) -> KeyValue {
    let Codes { resource_type, pattern_type, operation, permission } = binding.codes();
    let key = GivenAclKey {
        mirror_name: mirror.to_owned(),
        resource_type,
        resource_name: binding.resource_name.clone(),
        pattern_type,
        principal: binding.principal.clone(),
        host: binding.host.clone(),
        operation,
        permission_type: permission,
    };
    record(TYPE_ACL_GIVEN, &key, to.map(|cluster_id| GivenAclValue { cluster_id: cluster_id.to_owned() }).as_ref())
}

pub(super) fn decode(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let key: GivenAclKey = whole(key)?;
    let to = value::<GivenAclValue>(record)?.map(|value| value.cluster_id);
    let codes = Codes {
        resource_type: key.resource_type,
        pattern_type: key.pattern_type,
        operation: key.operation,
        permission: key.permission_type,
    };
    Ok(match AclBinding::from_codes(codes, &key.resource_name, &key.principal, &key.host) {
        Ok(binding) => StateRecord::AclGiven { mirror: key.mirror_name, binding, to },
        Err(_newer) => StateRecord::Foreign(record.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::MirrorFacts;
    use crate::statelog::record::replayed;

    #[test]
    fn what_was_given_survives_replay_and_snapshot_and_goes_with_its_mirror() {
        let codes = Codes { resource_type: 2, pattern_type: 3, operation: 3, permission: 3 };
        let binding = AclBinding::from_codes(codes, "orders", "User:alice", "*").unwrap();
        let given = |to: Option<&str>| StateRecord::AclGiven {
            mirror: "m".into(),
            binding: binding.clone(),
            to: to.map(str::to_owned),
        };
        let mirror = |facts| StateRecord::Mirror { mirror: "m".into(), facts };
        let told = [mirror(Some(MirrorFacts::default())), given(Some("there"))];
        let catalog = replayed(&told);
        assert_eq!(catalog.mirror("m").unwrap().given_acls.values().collect::<Vec<_>>(), ["there"]);
        let snapshot: Vec<StateRecord> = catalog.records().collect();
        assert_eq!(replayed(&snapshot), catalog);
        let [created, given_then] = told;
        let emptied = replayed(&[created.clone(), given_then.clone(), given(None)]);
        assert!(emptied.mirror("m").unwrap().given_acls.is_empty());
        let anew = replayed(&[created.clone(), given_then, mirror(None), created]);
        assert!(anew.mirror("m").unwrap().given_acls.is_empty(), "a mirror that is created again gave nothing");
    }
}
