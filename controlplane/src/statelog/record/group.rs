//! pure: offsets that we write for groups at a running destination, as records.

use super::{TYPE_GROUP_OFFSETS, record, value, whole};
use crate::mirror::catalog::StateRecord;
use crate::mirror::group_offsets::{ByPartition, Written};
use crate::statelog::batch::KeyValue;
use twinlog_proto::error::DecodeError;
use twinlog_proto::messages::state_log::{GroupOffsetsKey, GroupOffsetsPartition, GroupOffsetsValue};
use twinlog_proto::reader::Reader;

pub(super) fn encode(mirror: &str, group: &str, topic: &str, offsets: Option<&ByPartition>) -> KeyValue {
    let key =
        GroupOffsetsKey { mirror_name: mirror.to_owned(), group_id: group.to_owned(), topic_name: topic.to_owned() };
    let partition = |(index, written): (&i32, &Written)| GroupOffsetsPartition {
        partition_index: *index,
        offset: written.offset,
        before: written.before.unwrap_or(-1),
    };
    let value = offsets.map(|offsets| GroupOffsetsValue { partitions: offsets.iter().map(partition).collect() });
    record(TYPE_GROUP_OFFSETS, &key, value.as_ref())
}

pub(super) fn decode(key: Reader<'_>, record: &KeyValue) -> Result<StateRecord, DecodeError> {
    let GroupOffsetsKey { mirror_name: mirror, group_id: group, topic_name: topic } = whole(key)?;
    let written = |p: GroupOffsetsPartition| {
        let before = (p.before >= 0).then_some(p.before);
        (p.partition_index, Written { offset: p.offset, before })
    };
    let value = value::<GroupOffsetsValue>(record)?;
    let offsets = value.map(|value| value.partitions.into_iter().map(written).collect());
    Ok(StateRecord::GroupOffsets { mirror, group, topic, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Catalog, MirrorFacts};
    use crate::mirror::group_offsets;
    use crate::statelog::record::replayed;

    #[test]
    fn what_we_wrote_survives_replay_and_snapshot_and_goes_with_its_group_and_its_mirror() {
        let wrote = |topic: &str, offsets: Option<ByPartition>| StateRecord::GroupOffsets {
            mirror: "m".into(),
            group: "g".into(),
            topic: topic.into(),
            offsets,
        };
        let some = |offset, before| Some(ByPartition::from([(0, Written { offset, before }), (7, Written::at(0))]));
        let mirror = |facts| StateRecord::Mirror { mirror: "m".into(), facts };
        let known = |catalog: &Catalog, topic: &str| {
            group_offsets::get(&catalog.mirror("m").unwrap().group_offsets, "g", topic).cloned()
        };
        let created = mirror(Some(MirrorFacts::default()));
        let told =
            [created.clone(), wrote("t", some(5, None)), wrote("t", some(9, Some(5))), wrote("u", some(1, None))];
        let catalog = replayed(&told);
        assert_eq!(known(&catalog, "t"), some(9, Some(5)), "the newest");
        assert_eq!(replayed(&catalog.records().collect::<Vec<_>>()), catalog);
        let forgotten = replayed(&[&told[..], &[wrote("t", None), wrote("u", None)]].concat());
        assert!(forgotten.mirror("m").unwrap().group_offsets.is_empty());
        let anew = replayed(&[&told[..], &[mirror(None), created]].concat());
        assert_eq!(known(&anew, "t"), None, "a mirror that is created again wrote nothing");
    }
}
