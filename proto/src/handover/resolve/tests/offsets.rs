//! Offsets of groups: which are changed, and to what.

use super::*;
use crate::storage::coordinator::offsets::{self, OffsetCommitKey, OffsetCommitValue};

/// The log of `__consumer_offsets-0`.
#[derive(Default)]
struct Offsets(Vec<u8>, i64);

impl Offsets {
    fn commit(self, offset: i64) -> Self {
        self.append(plain::header(0, 1, 0, 1000), Some((4, offset, 3, TOPIC_ID)))
    }

    fn pending(self, producer_id: i64, offset: i64) -> Self {
        let header = BatchHeader { producer_id, producer_epoch: 0, ..plain::header(0, 1, 0x10, 1000) };
        self.append(header, Some((4, offset, 3, TOPIC_ID)))
    }

    fn append(mut self, header: BatchHeader, value: Option<(i16, i64, i32, Uuid)>) -> Self {
        let key = OffsetCommitKey { group: "g".into(), topic: "orders".into(), partition: 0 };
        let value = value.map(|(version, offset, leader_epoch, topic_id)| {
            let value =
                OffsetCommitValue { offset, leader_epoch, topic_id, metadata: "m".into(), ..Default::default() };
            offsets::encode_value(version, &value).unwrap()
        });
        let (key, header) = (offsets::encode_key(1, &key).unwrap(), BatchHeader { base_offset: self.1, ..header });
        plain::encode(&mut self.0, header, [(Some(&key[..]), value.as_deref())]);
        self.1 += 1;
        self
    }

    fn marker(mut self, producer_id: i64, commit: bool) -> Self {
        let marker = Marker { producer_id, producer_epoch: 0, commit, coordinator_epoch: 0 };
        let appended = Appended {
            topic: CONSUMER_OFFSETS.into(),
            partition: 0,
            end_offset: self.1,
            leader_epoch: 1,
            markers: vec![marker],
            records: Vec::new(),
        };
        self.0.extend(batches::encode(&appended, 1000));
        self.1 += 1;
        self
    }

    /// What the group is answered, if anything, with the topic's log ending at 90.
    fn committed(self) -> Option<(i64, i32)> {
        let found = self.resolved(&[end("orders", 90, Vec::new())], &[]).committed;
        assert!(found.len() <= 1, "{found:?}");
        found.first().map(|committed| (committed.offset, committed.leader_epoch))
    }

    /// What is changed, with the topic's log ending at 90 and `open` transactions in the partition of offsets.
    fn clamped(self, open: Vec<ProducerEntry>, state: &[u8]) -> Vec<ClampedOffset> {
        let ends = vec![
            end("orders", 90, Vec::new()),
            end(CONSUMER_OFFSETS, self.1, open),
            end(TRANSACTION_STATE, 50, Vec::new()),
        ];
        let found = self.resolved(&ends, state);
        nothing_is_left_open(&ends, &found);
        let written = found.appended.iter().filter(|a| a.topic == CONSUMER_OFFSETS).flat_map(|a| &a.records);
        let written: Vec<_> = written.map(|(_, value)| offsets::decode_value(value).unwrap()).collect();
        assert_eq!(written.len(), found.clamped.len());
        for ((version, value), clamped) in written.iter().zip(&found.clamped) {
            assert_eq!((value.offset, value.leader_epoch, value.metadata.as_str()), (clamped.to, -1, "m"));
            assert!(*version < 4 || value.topic_id == TOPIC_ID, "the id stays");
            let answered = found.committed.iter().map(|committed| (committed.offset, committed.leader_epoch));
            assert_eq!(answered.collect::<Vec<_>>(), [(clamped.to, -1)]);
        }
        found.clamped
    }

    /// `ends` lack the partition of offsets when nothing is open in it.
    fn resolved(&self, ends: &[PartitionEnd], state: &[u8]) -> Resolution {
        let mut ends = ends.to_vec();
        if ends.iter().all(|end| end.topic != CONSUMER_OFFSETS) {
            ends.push(end(CONSUMER_OFFSETS, self.1, Vec::new()));
        }
        let mut resolver = Resolver::new(ends).unwrap();
        resolver.take(TRANSACTION_STATE, 0, state).unwrap();
        assert_eq!(resolver.take(CONSUMER_OFFSETS, 0, &self.0).unwrap(), self.0.len());
        resolver.resolve(NOW_MS).unwrap()
    }
}

fn changes(clamped: &[ClampedOffset]) -> Vec<(i64, i64)> {
    clamped.iter().map(|each| (each.from, each.to)).collect()
}

#[test]
fn an_offset_beyond_the_end_is_lowered_to_it_and_no_other_is_touched() {
    assert_eq!(changes(&Offsets::default().commit(95).clamped(vec![], &[])), [(95, 90)]);
    assert_eq!(changes(&Offsets::default().commit(90).clamped(vec![], &[])), []);
    // The last one counts.
    assert_eq!(changes(&Offsets::default().commit(95).commit(80).clamped(vec![], &[])), []);
    assert_eq!(changes(&Offsets::default().commit(80).commit(95).clamped(vec![], &[])), [(95, 90)]);
    let removed = Offsets::default().commit(95).append(plain::header(0, 1, 0, 1000), None);
    assert_eq!(changes(&removed.clamped(vec![], &[])), []);
}

#[test]
fn a_leader_epoch_that_is_not_known_here_becomes_unknown() {
    let commit =
        |version, epoch| Offsets::default().append(plain::header(0, 1, 0, 1000), Some((version, 80, epoch, TOPIC_ID)));
    let clamped = commit(3, 6).clamped(vec![], &[]);
    assert_eq!((changes(&clamped), clamped[0].leader_epoch), (vec![(80, 80)], 6));
    assert_eq!(changes(&commit(3, 5).clamped(vec![], &[])), []);
    assert_eq!(changes(&commit(0, 6).clamped(vec![], &[])), [], "version 0 has no epoch");
}

#[test]
fn what_a_group_will_be_answered_is_what_its_coordinator_would_load() {
    let begun = || Offsets::default().commit(70).commit(80);
    assert_eq!(begun().committed(), Some((80, 3)));
    assert_eq!(begun().append(plain::header(0, 1, 0, 1000), None).committed(), None, "removed");
    assert_eq!(begun().pending(PRODUCER, 85).committed(), Some((80, 3)));
    assert_eq!(begun().pending(PRODUCER, 85).marker(PRODUCER, true).committed(), Some((85, 3)));
    assert_eq!(begun().pending(PRODUCER, 85).marker(PRODUCER, false).committed(), Some((80, 3)));
    assert_eq!(begun().commit(95).committed(), Some((90, -1)), "clamped");
    let other = begun().append(plain::header(0, 1, 0, 1000), Some((4, 81, 3, Uuid([9; 16]))));
    assert_eq!(other.committed(), None, "of another topic of the same name");
}

#[test]
fn an_offset_of_another_topic_of_the_same_name_stays() {
    let other = Offsets::default().append(plain::header(0, 1, 0, 1000), Some((4, 95, 3, Uuid([9; 16]))));
    assert_eq!(changes(&other.clamped(vec![], &[])), []);
}

#[test]
fn an_offset_in_a_transaction_counts_from_its_marker_on() {
    let begun = || Offsets::default().commit(80).pending(PRODUCER, 95);
    assert_eq!(changes(&begun().marker(PRODUCER, true).clamped(vec![], &[])), [(95, 90)]);
    assert_eq!(changes(&begun().marker(PRODUCER, false).clamped(vec![], &[])), []);
    // Committed without a transaction meanwhile: that one is newer in the log.
    assert_eq!(changes(&begun().commit(81).marker(PRODUCER, true).clamped(vec![], &[])), []);
    // A good one replaces a bad one.
    let bad = Offsets::default().commit(95).pending(PRODUCER, 80).marker(PRODUCER, true);
    assert_eq!(changes(&bad.clamped(vec![], &[])), []);
}

#[test]
fn an_offset_in_a_transaction_that_is_ended_here_counts_as_that_ends() {
    let open_here = || vec![open(PRODUCER, EPOCH, 1)];
    let begun = || Offsets::default().commit(80).pending(PRODUCER, 95);
    let committed = log_of(&[state(PrepareCommit, EPOCH + 1)]);
    assert_eq!(changes(&begun().clamped(open_here(), &committed)), [(95, 90)]);
    let ongoing = log_of(&[state(Ongoing, EPOCH)]);
    assert_eq!(changes(&begun().clamped(open_here(), &ongoing)), []);
}

#[test]
fn an_offset_may_be_that_of_the_end_with_the_markers() {
    let ends = vec![end("orders", 90, vec![open(PRODUCER, EPOCH, 70)]), end(CONSUMER_OFFSETS, 9, Vec::new())];
    let log = Offsets::default().commit(91).0;
    let mut resolver = Resolver::new(ends).unwrap();
    resolver.take(CONSUMER_OFFSETS, 0, &log).unwrap();
    let found = resolver.resolve(NOW_MS).unwrap();
    // The offset stays, but by its epoch a consumer would be sent back behind the marker.
    assert_eq!((changes(&found.clamped), found.clamped[0].leader_epoch), (vec![(91, 91)], 3));
}

#[test]
fn offsets_that_are_too_many_are_told_in_part_and_said_to_be_more() {
    let of = |groups: std::ops::Range<usize>| {
        let mut log = Offsets::default();
        for first in groups.clone().step_by(1000) {
            let last = groups.end.min(first + 1000);
            let records: Vec<_> = (first..last)
                .map(|group| {
                    let key = OffsetCommitKey { group: group.to_string(), topic: "orders".into(), partition: 0 };
                    let value = OffsetCommitValue { offset: 7, leader_epoch: 3, ..Default::default() };
                    (offsets::encode_key(1, &key).unwrap(), offsets::encode_value(3, &value).unwrap())
                })
                .collect();
            let header = plain::header(log.1, 1, 0, 1000);
            plain::encode(&mut log.0, header, records.iter().map(|(key, value)| (Some(&key[..]), Some(&value[..]))));
            log.1 += records.len() as i64;
        }
        let found = log.resolved(&[end("orders", 90, Vec::new())], &[]);
        (found.committed.len(), found.is_more_committed)
    };
    assert_eq!(of(0..200_000), (200_000, false));
    assert_eq!(of(0..200_001), (200_000, true));
}
