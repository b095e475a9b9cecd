//! pure: the quotas of a mirror's source as a record.

use super::{TYPE_QUOTAS, record, value, whole};
use crate::mirror::catalog::StateRecord;
use crate::mirror::quotas::Quotas;
use crate::statelog::batch::KeyValue;
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::state_log::QuotasKey;
use twinlog_proto::reader::Reader;

pub(super) fn encode(mirror: &str, quotas: Option<&Quotas>) -> KeyValue {
    let key = QuotasKey { mirror_name: mirror.to_owned() };
    record(TYPE_QUOTAS, &key, quotas.map(Quotas::to_value).as_ref())
}

pub(super) fn decode(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let QuotasKey { mirror_name: mirror } = whole(key)?;
    Ok(StateRecord::Quotas { mirror, quotas: value(record)?.map(Quotas::from_value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::MirrorFacts;
    use crate::mirror::quotas::Quota;
    use crate::statelog::record::replayed;

    #[test]
    fn quotas_survive_replay_and_snapshot_and_go_with_the_mirror() {
        let entity = vec![("client-id".to_owned(), None), ("user".to_owned(), Some("alice".to_owned()))];
        let quotas = Quotas {
            amounts: [(Quota { entity, key: "producer_byte_rate".into() }, 1024.5)].into(),
            scram_users: ["bob".to_owned()].into(),
        };
        let mirror = |facts| StateRecord::Mirror { mirror: "m".into(), facts };
        let told = [
            mirror(Some(MirrorFacts::default())),
            StateRecord::Quotas { mirror: "m".into(), quotas: Some(quotas.clone()) },
        ];
        let catalog = replayed(&told);
        assert_eq!(*catalog.mirror("m").unwrap().quotas, quotas);
        assert_eq!(replayed(&catalog.records().collect::<Vec<_>>()), catalog);
        let anew = replayed(&[&told[..], &[mirror(None), told[0].clone()]].concat());
        assert_eq!(*anew.mirror("m").unwrap().quotas, Quotas::default());
    }
}
