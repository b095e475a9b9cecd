//! pure: topics that were handed over to a broker, as records.

use super::{TYPE_HAND_OVER, record, value, whole};
use crate::mirror::catalog::StateRecord;
use crate::statelog::batch::KeyValue;
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::state_log::{HandOverKey, HandOverValue};
use twinlog_proto::reader::Reader;

pub(super) fn encode(mirror: &str, topic: &str, to: Option<&str>) -> KeyValue {
    let key = HandOverKey { mirror_name: mirror.to_owned(), topic_name: topic.to_owned() };
    record(TYPE_HAND_OVER, &key, to.map(|to| HandOverValue { handed_over_to: to.to_owned() }).as_ref())
}

pub(super) fn decode(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let HandOverKey { mirror_name: mirror, topic_name: topic } = whole(key)?;
    let to = value::<HandOverValue>(record)?.map(|value| value.handed_over_to);
    Ok(StateRecord::HandedOver { mirror, topic, to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Catalog, Desired, MirrorFacts, TopicFacts, TopicSettings};
    use crate::statelog::record::replayed;
    use twinlog_proto::ids::Uuid;

    #[test]
    fn who_has_a_topic_survives_replay_and_snapshot_and_goes_when_it_is_back_or_forgotten() {
        let (settings, id) = (TopicSettings::default(), Uuid([7; 16]));
        let facts = TopicFacts { id, desired: Desired::Stop, partition_count: 1, settings };
        let mirror = |facts| StateRecord::Mirror { mirror: "m".into(), facts };
        let topic = StateRecord::Topic { mirror: "m".into(), topic: "t".into(), facts: Some(facts) };
        let handed = |to: Option<&str>| StateRecord::HandedOver {
            mirror: "m".into(),
            topic: "t".into(),
            to: to.map(Into::into),
        };
        let told = [mirror(Some(MirrorFacts::default())), topic.clone(), handed(Some("node 1"))];
        let has = |catalog: &Catalog| catalog.topic("m", "t").unwrap().handed_over.clone();
        let catalog = replayed(&told);
        assert_eq!(has(&catalog).as_deref(), Some("node 1"));
        assert_eq!(replayed(&catalog.records().collect::<Vec<_>>()), catalog);
        assert_eq!(has(&replayed(&[&told[..], std::slice::from_ref(&topic)].concat())).as_deref(), Some("node 1"));
        assert_eq!(has(&replayed(&[&told[..], &[handed(None)]].concat())), None);
        let anew = replayed(&[&told[..], &[mirror(None), told[0].clone(), topic]].concat());
        assert_eq!(has(&anew), None, "a mirror that is created again handed nothing over");
    }
}
