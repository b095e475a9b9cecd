//! Which transaction an open one is, by the clocks of brokers, and that a marker in one partition decides it in the others.

use super::*;

fn here(bounds: Bounds) -> PartitionEnd {
    let trail = Trail { bounds: [(PRODUCER, bounds)].into(), ..Trail::default() };
    PartitionEnd { trail, ..end("orders", 90, vec![open(PRODUCER, EPOCH, 70)]) }
}

/// Another partition in which transactions of the producer ended: epochs of records and of the marker, commit, time.
fn elsewhere(ended: &[(i16, i16, bool, i64)]) -> PartitionEnd {
    let ended = ended.iter().map(|(epoch, marker_epoch, commit, at_ms)| Ended {
        producer_id: PRODUCER,
        epoch: *epoch,
        marker_epoch: *marker_epoch,
        commit: *commit,
        at_ms: *at_ms,
    });
    let trail = Trail { ended: ended.collect(), complete_after_ms: Some(FIRST_MS), ..Trail::default() };
    PartitionEnd { partition: 1, trail, ..end("orders", 90, Vec::new()) }
}

fn found(bounds: Bounds, ended: &[(i16, i16, bool, i64)], values: &[TransactionLogValue]) -> Resolution {
    let ends = vec![here(bounds), elsewhere(ended), end(TRANSACTION_STATE, 50, Vec::new())];
    let found = resolved(ends.clone(), &log_of(values));
    nothing_is_left_open(&ends, &found);
    found
}

/// A state of an older client's transaction that has both partitions.
fn of_both(of: TransactionState, start_ms: i64, at_ms: i64) -> TransactionLogValue {
    let both = TransactionTopic { topic: "orders".into(), partition_ids: vec![0, 1] };
    TransactionLogValue { transaction_partitions: Some(vec![both]), ..older(of, EPOCH, start_ms, at_ms) }
}

/// Transactions of an older client at 9,000 and at 9,100, long after the time that its records carry: they are of events of long ago.
const FIRST_MS: i64 = 9_000;
const SECOND_MS: i64 = 9_100;

fn previous_end(at_ms: i64) -> Bounds {
    Bounds { previous_end_ms: Some(at_ms), ..Bounds::default() }
}

#[test]
fn records_that_carry_old_times_are_of_the_transaction_after_the_last_marker() {
    let first = [
        of_both(Ongoing, FIRST_MS, FIRST_MS),
        of_both(PrepareCommit, FIRST_MS, FIRST_MS + 20),
        older(CompleteCommit, EPOCH, FIRST_MS, FIRST_MS + 22),
    ];
    let with = |values: &[TransactionLogValue]| [&first[..], values].concat();
    let ongoing = of_both(Ongoing, SECOND_MS, SECOND_MS);
    let second = [ongoing.clone(), of_both(PrepareAbort, SECOND_MS, SECOND_MS + 20)];
    let bounds = previous_end(FIRST_MS + 21);
    assert_eq!(decision(&found(bounds, &[], &with(&[ongoing]))), (false, EPOCH + 1, Why::Ongoing));
    assert_eq!(decision(&found(bounds, &[], &with(&second))), (false, EPOCH, Why::DecidedThen(PrepareAbort)));
    // Nothing of the second one was mirrored.
    assert_eq!(decision(&found(bounds, &[], &first)), (false, EPOCH + 1, Why::AfterLastDecision));
    // This partition's copy ends before the marker of the first one.
    let bounds = previous_end(FIRST_MS - 50);
    assert_eq!(decision(&found(bounds, &[], &with(&second))), (true, EPOCH, Why::DecidedThen(PrepareCommit)));
}

#[test]
fn a_stamp_of_a_broker_excludes_what_was_decided_before_and_what_began_behind_it() {
    let commit = of_both(PrepareCommit, FIRST_MS, FIRST_MS + 20);
    let by = |after_ms, before_ms| Bounds { previous_end_ms: None, after_ms, before_ms };
    for (bounds, why) in [
        (by(None, None), Why::DecidedThen(PrepareCommit)),
        (by(Some(FIRST_MS + 10), Some(FIRST_MS + 30)), Why::DecidedThen(PrepareCommit)),
        (by(Some(FIRST_MS + 21), None), Why::AfterLastDecision),
        (by(None, Some(FIRST_MS - 1)), Why::AfterLastDecision),
    ] {
        assert_eq!(found(bounds, &[], std::slice::from_ref(&commit)).transactions[0].why, why, "{bounds:?}");
    }
}

#[test]
fn with_a_marker_that_was_not_looked_at_times_of_records_must_fit_the_transaction() {
    let commit = of_both(PrepareCommit, FIRST_MS, FIRST_MS + 20);
    let mut ended_before = open(PRODUCER, EPOCH, 70);
    ended_before.coordinator_epoch = 3;
    for (timestamp, why) in [(FIRST_MS + 5, Why::DecidedThen(PrepareCommit)), (WRITTEN_MS, Why::AfterLastDecision)] {
        let producers = vec![ProducerEntry { timestamp, ..ended_before }];
        let ends = vec![end("orders", 90, producers), end(TRANSACTION_STATE, 50, Vec::new())];
        assert_eq!(resolved(ends, &log_of(std::slice::from_ref(&commit))).transactions[0].why, why);
    }
}

#[test]
fn a_completed_transaction_of_other_partitions_says_nothing_though_its_last_word_names_none() {
    let mut prepared = older(PrepareCommit, EPOCH, WRITTEN_MS - 9, WRITTEN_MS + 9);
    prepared.transaction_partitions = Some(vec![TransactionTopic { topic: "orders".into(), partition_ids: vec![5] }]);
    let complete = older(CompleteCommit, EPOCH, WRITTEN_MS - 9, WRITTEN_MS + 10);
    assert_eq!(decision(&with_states(&[prepared, complete])), (false, EPOCH + 1, Why::Unknown));
}

#[test]
fn a_marker_elsewhere_decides_where_each_end_raises_the_epoch() {
    let none = Bounds::default();
    for (ended, values, wanted) in [
        // The coordinator's topic lags, wholly or in part.
        ((EPOCH, EPOCH + 1, true), vec![], (true, EPOCH + 1, Why::MarkedElsewhere)),
        ((EPOCH, EPOCH + 1, true), vec![state(Ongoing, EPOCH)], (true, EPOCH + 1, Why::MarkedElsewhere)),
        ((EPOCH, EPOCH + 1, false), vec![state(Ongoing, EPOCH)], (false, EPOCH + 1, Why::MarkedElsewhere)),
        // What it said of this one was compacted away: the word is about a later one.
        ((EPOCH, EPOCH + 1, true), vec![state(CompleteAbort, EPOCH + 3)], (true, EPOCH + 1, Why::MarkedElsewhere)),
        // It knows this one.
        (
            (EPOCH, EPOCH + 1, true),
            vec![state(PrepareCommit, EPOCH + 1)],
            (true, EPOCH + 1, Why::Decided(PrepareCommit)),
        ),
        // The end of the one before, or of the one after.
        ((EPOCH - 1, EPOCH, true), vec![state(Ongoing, EPOCH)], (false, EPOCH + 1, Why::Ongoing)),
        ((EPOCH + 1, EPOCH + 2, true), vec![], (false, EPOCH + 1, Why::Unknown)),
    ] {
        let (epoch, marker_epoch, commit) = ended;
        let found = found(none, &[(epoch, marker_epoch, commit, 9_999)], &values);
        assert_eq!(decision(&found), wanted, "{ended:?} {values:#?}");
    }
}

#[test]
fn a_transactional_id_that_was_open_completes_as_the_marker_elsewhere_says() {
    let by = |ended, value| left(&found(Bounds::default(), &[ended], &[value]));
    assert_eq!(by((EPOCH, EPOCH + 1, true, 9), state(Ongoing, EPOCH)), Some((CompleteCommit, PRODUCER, EPOCH + 1)));
    assert_eq!(by((EPOCH, EPOCH + 1, false, 9), state(Ongoing, EPOCH)), Some((CompleteAbort, PRODUCER, EPOCH + 1)));
    let older = of_both(Ongoing, SECOND_MS, SECOND_MS);
    assert_eq!(by((EPOCH, EPOCH, true, SECOND_MS + 5), older.clone()), Some((CompleteCommit, PRODUCER, EPOCH)));
    assert_eq!(by((EPOCH, EPOCH, true, SECOND_MS - 5), older), Some((CompleteAbort, PRODUCER, EPOCH + 1)));
}

#[test]
fn an_older_clients_marker_counts_for_the_transaction_that_it_is_known_to_end() {
    let ongoing = of_both(Ongoing, SECOND_MS, SECOND_MS);
    let only_here = older(Ongoing, EPOCH, SECOND_MS, SECOND_MS);
    let (before, of_it, later) = (FIRST_MS + 21, SECOND_MS + 21, SECOND_MS + 90);
    let undecided = (false, EPOCH + 1, Why::Ongoing);
    let bounds = previous_end(before);
    for (ended, value, wanted) in [
        (vec![(true, of_it)], &ongoing, (true, EPOCH, Why::MarkedElsewhere)),
        (vec![(false, before), (true, of_it), (false, later)], &ongoing, (true, EPOCH, Why::MarkedElsewhere)),
        (vec![(true, before), (false, of_it), (true, later)], &ongoing, (false, EPOCH, Why::MarkedElsewhere)),
        // Of the one before.
        (vec![(true, before)], &ongoing, undecided),
        // That partition is none of its, so a marker there ends another one.
        (vec![(true, of_it)], &only_here, undecided),
    ] {
        let ended: Vec<_> = ended.into_iter().map(|(commit, at_ms)| (EPOCH, EPOCH, commit, at_ms)).collect();
        assert_eq!(decision(&found(bounds, &ended, std::slice::from_ref(value))), wanted, "{ended:?}");
    }
    // Ends before that one may not have been looked at.
    let mut far = elsewhere(&[(EPOCH, EPOCH, true, of_it)]);
    far.trail.complete_after_ms = Some(SECOND_MS + 1);
    let ends = vec![here(bounds), far, end(TRANSACTION_STATE, 50, Vec::new())];
    assert_eq!(decision(&resolved(ends, &log_of(&[ongoing]))), undecided);
    // Of a transaction that nothing is known of, which partitions it has is not known either.
    assert_eq!(decision(&found(bounds, &[(EPOCH, EPOCH, true, of_it)], &[])), (false, EPOCH + 1, Why::Unknown));
}
