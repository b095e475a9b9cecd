//! Every value survives its words; broken words are refused.

use super::*;
use proptest::prelude::*;

fn any_progress() -> impl Strategy<Value = PartitionProgress> {
    let offsets = proptest::collection::vec(-1..=i64::MAX, 9);
    let small = (1..=u64::MAX, 0_u8..7, any::<u32>(), any::<u32>(), any::<bool>(), any::<u16>());
    (offsets, small, any::<(i32, i32, u64, u64)>()).prop_map(|(o, s, r)| PartitionProgress {
        identity: s.0,
        state: SlotState::from_code(s.1).unwrap(),
        assignment_version: s.2,
        attempt: s.3,
        leo: o[0].max(o[1]),
        flushed: o[0].min(o[1]),
        log_start: o[2],
        start_within_segment: s.4,
        source_high_watermark: o[3],
        source_lso: o[4],
        leader_epoch: r.0,
        last_epoch: r.1,
        lag_bytes: o[5],
        caught_up_at_ms: o[6],
        fault: FaultCode(s.5),
        fault_from: o[7],
        fault_to: o[8],
        batches: r.2,
        bytes: r.3,
    })
}

proptest! {
    #[test]
    fn what_is_published_is_what_is_read(progress in any_progress()) {
        prop_assert_eq!(PartitionProgress::from_words(&progress.to_words()), Ok(Some(progress)));
    }

    #[test]
    fn garbage_words_are_a_value_or_an_error_but_never_a_panic(words in any::<[u64; SLOT_VALUE_WORDS]>()) {
        if let Ok(Some(progress)) = PartitionProgress::from_words(&words) {
            prop_assert!(progress.flushed <= progress.leo);
        }
    }
}

#[test]
fn a_slot_without_identity_is_empty_and_a_wrong_state_is_reported() {
    assert_eq!(PartitionProgress::from_words(&[0; SLOT_VALUE_WORDS]), Ok(None));
    let mut words = PartitionProgress::unknown(7, SlotState::Paused).to_words();
    words[1] = 7;
    assert!(PartitionProgress::from_words(&words).is_err());
    let mut words = PartitionProgress::unknown(7, SlotState::Paused).to_words();
    words[3] = (-2_i64).cast_unsigned();
    assert!(PartitionProgress::from_words(&words).is_err());
}

#[test]
fn identities_differ_between_partitions_and_topics_and_stay_as_they_are() {
    let topic = Uuid([3; 16]);
    assert_ne!(identity(topic, 0), identity(topic, 1));
    assert_ne!(identity(topic, 0), identity(Uuid([4; 16]), 0));
    assert_ne!(identity(Uuid::ZERO, 0), 0);
    assert_ne!(mirror_identity("a"), mirror_identity("b"));
}

#[test]
fn lag_is_unknown_while_either_end_is() {
    let mut progress = PartitionProgress::unknown(7, SlotState::Mirroring);
    assert_eq!(progress.lag_records(), None);
    progress.leo = 5;
    progress.source_high_watermark = 9;
    assert_eq!(progress.lag_records(), Some(4));
    progress.source_high_watermark = 3;
    assert_eq!(progress.lag_records(), Some(0), "a stale high watermark is no negative lag");
}

#[test]
fn every_fault_has_a_name_of_its_own() {
    let mut names: Vec<_> = FaultCode::ALL.iter().map(|code| code.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FaultCode::ALL.len());
    assert_eq!(FaultCode(9999).name(), "unknown");
}
