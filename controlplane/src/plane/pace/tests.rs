//! What a partition's pace is told to be, look by look.

use super::*;

const T: i64 = 1_000_000;

fn seen(leo: i64, high_watermark: i64, bytes: u64) -> PartitionProgress {
    PartitionProgress {
        leo,
        flushed: leo,
        source_high_watermark: high_watermark,
        bytes,
        ..PartitionProgress::unknown(9, SlotState::Mirroring)
    }
}

#[test]
fn an_idle_partition_has_no_lag_however_long_ago_its_slot_was_written() {
    let mut tracker = Tracker::default();
    let idle = PartitionProgress { caught_up_at_ms: T, ..seen(50, 50, 0) };
    assert_eq!(tracker.see(0, &idle, T + 3_600_000).lag_ms, Some(0));
    assert!(!tracker.is_moving(), "and nothing is kept for its way");
    assert_eq!(
        tracker.see(0, &idle, T + 7_200_000),
        Pace { bytes_per_second: Some(0), lag_ms: Some(0), ..Pace::default() }
    );
}

#[test]
fn a_partition_that_never_had_everything_is_behind_since_it_was_first_seen() {
    let mut tracker = Tracker::default();
    assert_eq!(tracker.see(0, &seen(-1, -1, 0), T).lag_ms, Some(0));
    assert_eq!(tracker.see(0, &seen(10, 500, 0), T + 4_000).lag_ms, Some(4_000));
    assert_eq!(Pace::of_board(&seen(10, 500, 0), T).lag_ms, None, "a single look does not know");
}

#[test]
fn a_restart_of_the_data_plane_forgets_nothing() {
    let mut tracker = Tracker::default();
    tracker.see(0, &PartitionProgress { caught_up_at_ms: T, ..seen(50, 60, 900) }, T + 1_000);
    let restarted = PartitionProgress { caught_up_at_ms: -1, ..seen(50, -1, 0) };
    assert_eq!(tracker.see(0, &restarted, T + 9_000).lag_ms, Some(9_000));
    assert_eq!(tracker.see(0, &seen(60, 60, 100), T + 9_500).lag_ms, Some(0));
    // Another partition in the slot is another story.
    let other = PartitionProgress { identity: 10, ..seen(0, 5, 0) };
    assert_eq!(tracker.see(0, &other, T + 20_000).lag_ms, Some(0));
}

#[test]
fn a_paused_or_failed_partition_and_one_whose_source_is_silent_grow_older_and_a_stopped_one_does_not() {
    for (state, fault) in [
        (SlotState::Paused, FaultCode::NONE),
        (SlotState::Failed, FaultCode::DISK_FULL),
        (SlotState::Mirroring, FaultCode::UNREACHABLE),
    ] {
        let mut tracker = Tracker::default();
        tracker.see(0, &seen(50, 50, 0), T);
        let rests = |caught_up_at_ms| PartitionProgress { state, fault, caught_up_at_ms, ..seen(50, 50, 0) };
        assert_eq!(tracker.see(0, &rests(T + 700), T + 1_000).lag_ms, Some(300), "{state:?}");
        // That its slot is written again is no word of the source.
        assert_eq!(tracker.see(0, &rests(T + 5_000), T + 6_000).lag_ms, Some(5_300), "{state:?}");
    }
    let mut tracker = Tracker::default();
    let stopped = PartitionProgress { state: SlotState::Stopped, ..seen(50, 60, 0) };
    assert_eq!(tracker.see(0, &stopped, T).lag_ms, None);
}

#[test]
fn a_catch_up_tells_how_far_it_is_and_when_it_ends() {
    let mut tracker = Tracker::default();
    let at = |second: i64| seen(100 * second, 10_000, 1_000 * second.cast_unsigned());
    let mut pace = Pace::default();
    for second in 0..=60 {
        pace = tracker.see(0, &at(second), T + 1_000 * second);
        let told = match pace.catch_up {
            CatchUp::None => 0,
            CatchUp::Closing { .. } => 5,
            other => panic!("{other:?} after {second} s"),
        };
        assert_eq!(told, if second < 5 { 0 } else { 5 }, "after {second} s");
    }
    assert_eq!(pace.catch_up, CatchUp::Closing { per_mille: 600, eta_ms: 40_000 });
    assert_eq!(pace.bytes_per_second, Some(1_000));
    assert!(tracker.is_moving());
    tracker.see(0, &seen(10_000, 10_000, 100_000), T + 100_000);
    for second in 101..=160 {
        pace = tracker.see(0, &seen(10_000, 10_000, 100_000), T + 1_000 * second);
    }
    assert_eq!(pace, Pace { lag_ms: Some(0), bytes_per_second: Some(0), catch_up: CatchUp::None });
    assert!(!tracker.is_moving(), "what has caught up and rests takes no room");
}

#[test]
fn a_source_that_is_as_fast_is_not_caught_up_with() {
    let mut tracker = Tracker::default();
    tracker.see(0, &seen(0, 1_000, 0), T);
    let pace = tracker.see(0, &seen(500, 1_500, 50), T + 10_000);
    assert_eq!(pace.catch_up, CatchUp::NotClosing { per_mille: 333 });
    assert_eq!(pace.bytes_per_second, Some(5));
}

#[test]
fn a_steady_stream_is_no_catch_up() {
    let mut tracker = Tracker::default();
    for step in 0..100 {
        let caught_up_at_ms = T + 1_000 * step - 20;
        let flows = PartitionProgress { caught_up_at_ms, ..seen(1_000 * step, 1_000 * step + 3, 0) };
        let pace = tracker.see(0, &flows, T + 1_000 * step);
        assert_eq!((pace.lag_ms, pace.catch_up), (Some(20), CatchUp::None));
    }
    // It falls behind: the way begins there, not where the stream began.
    let pace =
        tracker.see(0, &PartitionProgress { caught_up_at_ms: T + 98_980, ..seen(99_000, 199_000, 0) }, T + 109_000);
    assert!(matches!(pace.catch_up, CatchUp::NotClosing { per_mille: 0 }), "{pace:?}");
}

#[test]
fn after_a_silence_or_a_clock_that_went_back_a_measurement_begins_anew() {
    let mut tracker = Tracker::default();
    tracker.see(0, &seen(0, 10_000, 0), T);
    tracker.see(0, &seen(1_000, 10_000, 100), T + 10_000);
    let pace = tracker.see(0, &seen(2_000, 10_000, 200), T + 200_000);
    assert_eq!(pace.catch_up, CatchUp::Measuring { per_mille: 200 });
    let pace = tracker.see(0, &seen(2_000, 10_000, 200), T + 100_000);
    assert_eq!(pace.catch_up, CatchUp::Measuring { per_mille: 200 });
    assert_eq!(tracker.see(0, &seen(2_000, 10_000, 200), T - 5_000).lag_ms, Some(0), "never negative");
}
