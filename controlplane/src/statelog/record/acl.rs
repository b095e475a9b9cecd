//! pure: access control entries as records. An entry with a number that a newer version gave is kept as it is.

use super::{TYPE_ACL, record, value, whole};
use crate::mirror::catalog::StateRecord;
use crate::statelog::batch::KeyValue;
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::state_log::{AclKey, AclValue};
use twinlog_proto::reader::Reader;
use twinlog_proto::security::acl::{AclBinding, Codes};

pub(super) fn encode(origin: &str, binding: &AclBinding, present: bool) -> KeyValue {
    let Codes { resource_type, pattern_type, operation, permission } = binding.codes();
    let key = AclKey {
        origin_mirror: origin.to_owned(),
        resource_type,
        resource_name: binding.resource_name.clone(),
        pattern_type,
        principal: binding.principal.clone(),
        host: binding.host.clone(),
        operation,
        permission_type: permission,
    };
    record(TYPE_ACL, &key, present.then(AclValue::default).as_ref())
}

pub(super) fn decode(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let key: AclKey = whole(key)?;
    let present = value::<AclValue>(record)?.is_some();
    let codes = Codes {
        resource_type: key.resource_type,
        pattern_type: key.pattern_type,
        operation: key.operation,
        permission: key.permission_type,
    };
    Ok(match AclBinding::from_codes(codes, &key.resource_name, &key.principal, &key.host) {
        Ok(binding) => StateRecord::Acl { origin: key.origin_mirror, binding, present },
        Err(_newer) => StateRecord::Foreign(record.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Catalog, MirrorFacts};
    use crate::statelog::record::{decode, encode_all, replayed};

    fn binding(name: &str, resource_type: i8) -> AclBinding {
        let codes = Codes { resource_type, pattern_type: 4, operation: 7, permission: 3 };
        AclBinding::from_codes(codes, name, "User:alice", "10.0.0.1").unwrap()
    }

    fn acl(origin: &str, name: &str, present: bool) -> StateRecord {
        StateRecord::Acl { origin: origin.into(), binding: binding(name, 8), present }
    }

    #[test]
    fn an_entry_and_its_removal_are_read_back_and_one_of_a_newer_kind_is_kept_as_it_is() {
        for fact in [acl("", "dr-", true), acl("dr", "dr-", false)] {
            let records = encode_all(std::slice::from_ref(&fact));
            assert_eq!(decode(&records[0]).unwrap(), [fact]);
        }
        let mut newer = encode("", &binding("x", 8), true);
        // Record type, then the origin's length: the kind is the fifth byte.
        assert_eq!(std::mem::replace(&mut newer.key[4], 99), 8);
        assert_eq!(decode(&newer).unwrap(), [StateRecord::Foreign(newer)]);
    }

    #[test]
    fn a_snapshot_holds_the_entries_of_every_origin_and_a_mirror_takes_its_own_along() {
        let mut catalog = Catalog::default();
        let dr = |facts| StateRecord::Mirror { mirror: "dr".into(), facts };
        catalog.apply(&acl("dr", "too-early", true));
        for fact in [dr(Some(MirrorFacts::default())), acl("dr", "a", true), acl("", "b", true), acl("", "c", true)] {
            catalog.apply(&fact);
        }
        catalog.apply(&acl("", "c", false));
        assert_eq!((catalog.acls().len(), catalog.acls().here().len()), (2, 1));
        let mut again = replayed(&catalog.records().collect::<Vec<_>>());
        assert_eq!(again, catalog);
        again.apply(&dr(None));
        assert_eq!((again.acls().len(), again.acls().of("dr")), (1, None));
    }
}
