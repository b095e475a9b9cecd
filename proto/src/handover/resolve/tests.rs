//! Every case of the decision table, and what must hold afterwards whatever the case.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::handover::batches;
use crate::records::plain;
use crate::storage::coordinator::transactions::{self, TransactionLogValue, TransactionTopic};
use crate::storage::producer_snapshot::NONE;
use crate::storage::producer_state::ProducerState;

mod evidence;
mod offsets;

use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};

const NOW_MS: i64 = 2_000_000;
/// The producer of most tests, its epoch, and when its newest records were written.
const PRODUCER: i64 = 1000;
const EPOCH: i16 = 7;
const WRITTEN_MS: i64 = 5000;
const TOPIC_ID: Uuid = Uuid([7; 16]);

fn open(producer_id: i64, epoch: i16, first_offset: i64) -> ProducerEntry {
    ProducerEntry {
        producer_id,
        epoch,
        last_sequence: 3,
        last_offset: first_offset + 1,
        offset_delta: 1,
        timestamp: WRITTEN_MS,
        coordinator_epoch: NONE,
        txn_first_offset: first_offset,
    }
}

fn end(topic: &str, end_offset: i64, producers: Vec<ProducerEntry>) -> PartitionEnd {
    PartitionEnd {
        topic: topic.into(),
        partition: 0,
        topic_id: TOPIC_ID,
        end_offset,
        leader_epoch: 5,
        producers,
        trail: Trail::default(),
    }
}

/// A state as `transaction.version` 2 writes it.
fn state(state: TransactionState, epoch: i16) -> TransactionLogValue {
    let partitions = vec![TransactionTopic { topic: "orders".into(), partition_ids: vec![0] }];
    let complete = matches!(state, CompleteCommit | CompleteAbort);
    TransactionLogValue {
        producer_id: PRODUCER,
        producer_epoch: epoch,
        transaction_timeout_ms: 60_000,
        transaction_status: state.code(),
        transaction_partitions: Some(if complete { Vec::new() } else { partitions }),
        transaction_last_update_timestamp_ms: WRITTEN_MS + 10,
        transaction_start_timestamp_ms: WRITTEN_MS - 10,
        previous_producer_id: PRODUCER,
        client_transaction_version: 2,
        ..Default::default()
    }
}

/// The same as an older client leaves it, with the time of its beginning and of the change.
fn older(of: TransactionState, epoch: i16, start_ms: i64, at_ms: i64) -> TransactionLogValue {
    TransactionLogValue {
        client_transaction_version: 0,
        transaction_start_timestamp_ms: start_ms,
        transaction_last_update_timestamp_ms: at_ms,
        ..state(of, epoch)
    }
}

fn batch(offset: i64, key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    plain::encode(&mut out, plain::header(offset, 1, 0, 1000), [(Some(key), value)]);
    out
}

/// The log of `__transaction_state-0`, one transactional id.
fn log_of(values: &[TransactionLogValue]) -> Vec<u8> {
    let key = transactions::encode_key("tx").unwrap();
    let batches = (0..)
        .zip(values)
        .map(|(offset, value)| batch(offset, &key, Some(&transactions::encode_value(1, value).unwrap())));
    batches.collect::<Vec<_>>().concat()
}

fn resolved(ends: Vec<PartitionEnd>, log: &[u8]) -> Resolution {
    let mut resolver = Resolver::new(ends).unwrap();
    assert_eq!(resolver.take(TRANSACTION_STATE, 0, log).unwrap(), log.len());
    resolver.resolve(NOW_MS).unwrap()
}

/// One open transaction in `orders-0`, and these states in the order in which they were written.
fn with_states(values: &[TransactionLogValue]) -> Resolution {
    let ends = vec![end("orders", 90, vec![open(PRODUCER, EPOCH, 70)]), end(TRANSACTION_STATE, 50, Vec::new())];
    let found = resolved(ends.clone(), &log_of(values));
    nothing_is_left_open(&ends, &found);
    found
}

/// Applies what is appended to the producers of each partition: afterwards everything is decided up to the end.
fn nothing_is_left_open(ends: &[PartitionEnd], found: &Resolution) {
    for end in ends {
        let snapshot = crate::storage::producer_snapshot::encode(&end.producers);
        let mut producers = ProducerState::load(&snapshot, None).unwrap();
        let mut next = end.end_offset;
        if let Some(appended) = found.appended.iter().find(|a| (&a.topic, a.partition) == (&end.topic, end.partition)) {
            let bytes = batches::encode(appended, NOW_MS);
            let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: bytes.len() });
            let mut rest = &bytes[..];
            loop {
                let fed = walker.feed(rest).unwrap();
                rest = &rest[fed.consumed..];
                match fed.event {
                    None => break,
                    Some(BatchEvent::Header(header)) => assert_eq!(header.base_offset, next, "no gap"),
                    Some(BatchEvent::Batch { header, marker }) => {
                        let before = producers.get(header.producer_id).map(|producer| producer.epoch);
                        assert!(before <= Some(header.producer_epoch) || before.is_none(), "epochs never fall");
                        producers.update(&header, marker);
                        next = header.next_offset();
                    }
                }
            }
            assert_eq!(next, appended.new_end());
        }
        assert_eq!(producers.last_stable_offset(next), next, "{}-{}", end.topic, end.partition);
        assert_eq!(producers.oddities(), 0);
    }
}

fn decision(found: &Resolution) -> (bool, i16, Why) {
    let marker = found.appended[0].markers.is_empty();
    let appended = &found.appended[usize::from(marker)];
    (found.transactions[0].commit, appended.markers[0].producer_epoch, found.transactions[0].why)
}

/// State, producer id and epoch that the last record of the transactional id leaves.
fn left(found: &Resolution) -> Option<(TransactionState, i64, i16)> {
    let last = found.appended.iter().find(|a| a.topic == TRANSACTION_STATE)?.records.last()?;
    let (_, value) = transactions::decode_value(&last.1).unwrap();
    assert_eq!(value.transaction_partitions, Some(Vec::new()), "a complete transaction names no partitions");
    assert_eq!(value.transaction_last_update_timestamp_ms, NOW_MS);
    Some((value.state(), value.producer_id, value.producer_epoch))
}

#[test]
fn what_the_coordinator_decided_is_completed_as_it_decided() {
    for (states, commit, by) in [
        (vec![(Ongoing, EPOCH), (PrepareCommit, EPOCH + 1)], true, PrepareCommit),
        (vec![(Ongoing, EPOCH), (PrepareAbort, EPOCH + 1)], false, PrepareAbort),
        // The decision alone: what came before was compacted away.
        (vec![(CompleteCommit, EPOCH + 1)], true, CompleteCommit),
        (vec![(CompleteAbort, EPOCH + 1)], false, CompleteAbort),
        // The coordinator went on, this partition's copy did not.
        (vec![(PrepareCommit, EPOCH + 1), (CompleteCommit, EPOCH + 1), (Ongoing, EPOCH + 1)], true, PrepareCommit),
        (vec![(PrepareCommit, EPOCH + 1), (PrepareAbort, EPOCH + 2)], true, PrepareCommit),
        (vec![(PrepareCommit, EPOCH + 1), (Empty, EPOCH + 2)], true, PrepareCommit),
    ] {
        let values: Vec<_> = states.iter().map(|(of, epoch)| state(*of, *epoch)).collect();
        assert_eq!(decision(&with_states(&values)), (commit, EPOCH + 1, Why::Decided(by)), "{states:?}");
    }
}

#[test]
fn what_the_coordinator_had_not_decided_is_aborted_and_the_producer_fenced() {
    for (states, why) in [
        (vec![(Ongoing, EPOCH)], Why::Ongoing),
        // A decision about the transaction before this one.
        (vec![(CompleteCommit, EPOCH)], Why::Unknown),
        (vec![(CompleteCommit, EPOCH), (Ongoing, EPOCH)], Why::Ongoing),
        (vec![(Empty, EPOCH)], Why::Unknown),
        (vec![], Why::Unknown),
    ] {
        let values: Vec<_> = states.iter().map(|(of, epoch)| state(*of, *epoch)).collect();
        assert_eq!(decision(&with_states(&values)), (false, EPOCH + 1, why), "{states:?}");
    }
}

#[test]
fn a_transactional_id_in_the_middle_of_a_transaction_is_completed_and_others_are_left_alone() {
    for (of, epoch, becomes) in [
        (Ongoing, EPOCH, Some((CompleteAbort, PRODUCER, EPOCH + 1))),
        (PrepareCommit, EPOCH + 1, Some((CompleteCommit, PRODUCER, EPOCH + 1))),
        (PrepareAbort, EPOCH + 1, Some((CompleteAbort, PRODUCER, EPOCH + 1))),
        (CompleteCommit, EPOCH + 1, None),
        (CompleteAbort, EPOCH + 1, None),
        (Empty, EPOCH, None),
    ] {
        let found = with_states(&[state(of, epoch)]);
        assert_eq!(left(&found), becomes, "{of:?}");
        assert_eq!(found.completed.first().map(|id| (id.to, id.producer_id, id.producer_epoch)), becomes);
    }
}

#[test]
fn a_producer_id_whose_epochs_are_used_up_is_followed_by_the_next_one() {
    let last = i16::MAX - 1;
    let ends = vec![end("orders", 90, vec![open(PRODUCER, last, 70)]), end(TRANSACTION_STATE, 50, Vec::new())];
    let prepared = TransactionLogValue { next_producer_id: 2000, ..state(PrepareCommit, i16::MAX) };
    let found = resolved(ends.clone(), &log_of(&[prepared]));
    nothing_is_left_open(&ends, &found);
    assert_eq!(decision(&found), (true, i16::MAX, Why::Decided(PrepareCommit)));
    assert_eq!(left(&found), Some((CompleteCommit, 2000, 0)));
    assert_eq!(found.highest_producer_id, 2000);
    let complete = TransactionLogValue { producer_id: 2000, ..state(CompleteCommit, 0) };
    let found = resolved(ends.clone(), &log_of(&[complete]));
    nothing_is_left_open(&ends, &found);
    assert_eq!((decision(&found), left(&found)), ((true, i16::MAX, Why::Decided(CompleteCommit)), None));
}

#[test]
fn older_clients_share_an_epoch_and_their_transactions_are_told_apart_by_time() {
    let then = WRITTEN_MS;
    for (values, wanted) in [
        // Decided after these records were written.
        (vec![older(PrepareCommit, EPOCH, then - 9, then + 1)], (true, EPOCH, Why::DecidedThen(PrepareCommit))),
        (vec![older(CompleteAbort, EPOCH, then - 9, then + 1)], (false, EPOCH, Why::DecidedThen(CompleteAbort))),
        // A coordinator that aborts by itself raises the epoch.
        (vec![older(PrepareAbort, EPOCH + 1, then - 9, then + 1)], (false, EPOCH + 1, Why::DecidedThen(PrepareAbort))),
        // Decided before: these records belong to a later transaction, of which nothing was mirrored.
        (vec![older(CompleteCommit, EPOCH, then - 9, then - 1)], (false, EPOCH + 1, Why::AfterLastDecision)),
        (
            vec![older(CompleteCommit, EPOCH, then - 9, then - 5), older(Ongoing, EPOCH, then - 3, then - 3)],
            (false, EPOCH + 1, Why::Ongoing),
        ),
        // The coordinator is two transactions ahead of this partition's copy.
        (
            vec![
                older(PrepareCommit, EPOCH, then - 9, then + 1),
                older(PrepareAbort, EPOCH, then + 2, then + 3),
                older(CompleteAbort, EPOCH, then + 2, then + 4),
            ],
            (true, EPOCH, Why::DecidedThen(PrepareCommit)),
        ),
        // The producer's clock is ahead: its records seem to be written after the decision, but the next transaction is known too.
        (
            vec![older(PrepareCommit, EPOCH, then - 9, then - 1), older(Ongoing, EPOCH, then + 2, then + 2)],
            (true, EPOCH, Why::DecidedThen(PrepareCommit)),
        ),
        // The producer's clock is behind.
        (vec![older(PrepareCommit, EPOCH, then + 5, then + 9)], (true, EPOCH, Why::DecidedThen(PrepareCommit))),
    ] {
        assert_eq!(decision(&with_states(&values)), wanted, "{values:#?}");
    }
}

#[test]
fn a_transaction_of_other_partitions_says_nothing_about_this_one() {
    let mut elsewhere = older(PrepareCommit, EPOCH, WRITTEN_MS - 9, WRITTEN_MS + 9);
    elsewhere.transaction_partitions = Some(vec![TransactionTopic { topic: "orders".into(), partition_ids: vec![1] }]);
    assert_eq!(decision(&with_states(&[elsewhere])), (false, EPOCH + 1, Why::Unknown));
}

#[test]
fn an_older_client_that_is_aborted_here_keeps_its_id_under_the_next_epoch() {
    let found = with_states(&[older(Ongoing, EPOCH, WRITTEN_MS - 9, WRITTEN_MS - 9)]);
    assert_eq!(left(&found), Some((CompleteAbort, PRODUCER, EPOCH + 1)));
    let found = with_states(&[older(PrepareCommit, EPOCH, WRITTEN_MS - 9, WRITTEN_MS + 9)]);
    assert_eq!(left(&found), Some((CompleteCommit, PRODUCER, EPOCH)));
}

#[test]
fn markers_follow_in_the_order_of_the_transactions_and_keep_the_coordinators_epoch() {
    let mut late = open(1001, 0, 80);
    late.coordinator_epoch = 4;
    let ends = vec![end("orders", 90, vec![late, open(PRODUCER, EPOCH, 70)]), end("plain", 10, Vec::new())];
    let found = resolved(ends.clone(), &[]);
    nothing_is_left_open(&ends, &found);
    assert_eq!(found.appended.len(), 1, "nothing is appended where nothing is open");
    let order: Vec<_> = found.appended[0].markers.iter().map(|m| (m.producer_id, m.coordinator_epoch)).collect();
    assert_eq!(order, [(PRODUCER, 0), (1001, 4)]);
    assert_eq!((found.appended[0].new_end(), found.highest_producer_id), (92, 1001));
}

#[test]
fn a_tombstone_forgets_the_transactional_id() {
    let key = transactions::encode_key("tx").unwrap();
    let log = [log_of(&[state(Ongoing, EPOCH)]), batch(1, &key, None)].concat();
    assert!(resolved(vec![end(TRANSACTION_STATE, 50, Vec::new())], &log).completed.is_empty());
}

#[test]
fn what_lies_above_the_end_is_not_read() {
    let ends = vec![end("orders", 90, vec![open(PRODUCER, EPOCH, 70)]), end(TRANSACTION_STATE, 1, Vec::new())];
    let found = resolved(ends, &log_of(&[state(Ongoing, EPOCH), state(PrepareCommit, EPOCH + 1)]));
    assert_eq!(found.transactions[0].why, Why::Ongoing);
}

#[test]
fn a_log_may_come_in_pieces_of_any_size() {
    let whole = log_of(&[state(Ongoing, EPOCH), state(PrepareCommit, EPOCH + 1)]);
    let ends = || vec![end("orders", 90, vec![open(PRODUCER, EPOCH, 70)]), end(TRANSACTION_STATE, 50, Vec::new())];
    for cut in 0..whole.len() {
        let mut resolver = Resolver::new(ends()).unwrap();
        let taken = resolver.take(TRANSACTION_STATE, 0, &whole[..cut]).unwrap();
        resolver.take(TRANSACTION_STATE, 0, &whole[taken..]).unwrap();
        assert_eq!(resolver.resolve(NOW_MS).unwrap(), resolved(ends(), &whole), "cut at {cut}");
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let mut resolver = Resolver::new(vec![end(TRANSACTION_STATE, 50, Vec::new())]).unwrap();
    let mut value = transactions::encode_value(1, &state(Ongoing, EPOCH)).unwrap();
    value[1] = 9;
    let key = transactions::encode_key("tx").unwrap();
    let refused = resolver.take(TRANSACTION_STATE, 0, &batch(4, &key, Some(&value))).unwrap_err().to_string();
    assert!(refused.contains("offset 4 of __transaction_state-0") && refused.contains("version 9"), "{refused}");
    let mut damaged = batch(4, &key, None);
    damaged[70] ^= 1;
    assert!(matches!(resolver.take(TRANSACTION_STATE, 0, &damaged), Err(ResolveError::Batch { .. })));
    let mut squeezed = Vec::new();
    plain::encode(&mut squeezed, plain::header(4, 1, 1, 1000), [(Some(&key[..]), None)]);
    let refused = resolver.take(TRANSACTION_STATE, 0, &squeezed).unwrap_err().to_string();
    assert!(refused.contains("gzip") && refused.contains("offsets.topic.compression.codec"), "{refused}");
}

proptest! {
    /// Whatever is open and whatever the coordinators wrote.
    #[test]
    fn nothing_is_open_afterwards(
        producers in vec((PRODUCER..PRODUCER + 3, 0_i16..4, 0_i64..80, any::<bool>()), 0..4),
        states in vec((0_i8..6, 0_i16..6, PRODUCER..PRODUCER + 3, 0_i16..3, 4990_i64..5010), 0..8),
    ) {
        let mut entries: BTreeMap<i64, ProducerEntry> = BTreeMap::new();
        for (id, epoch, first, is_open) in producers {
            entries.insert(id, ProducerEntry { txn_first_offset: if is_open { first } else { -1 }, ..open(id, epoch, first) });
        }
        let values: Vec<_> = states.into_iter().map(|(code, epoch, producer_id, version, at_ms)| TransactionLogValue {
            producer_id,
            client_transaction_version: version,
            transaction_start_timestamp_ms: at_ms,
            transaction_last_update_timestamp_ms: at_ms + 2,
            ..state(TransactionState::from_code(code).unwrap(), epoch)
        }).collect();
        let here = entries.into_values().collect();
        let ends = vec![end("orders", 90, here), end(TRANSACTION_STATE, 50, Vec::new())];
        let log = log_of(&values);
        let found = resolved(ends.clone(), &log);
        nothing_is_left_open(&ends, &found);
        // A second look, with what was appended, finds nothing to do for the coordinators.
        let more = found.appended.iter().filter(|a| a.topic == TRANSACTION_STATE).map(|a| batches::encode(a, NOW_MS));
        let again = resolved(vec![end(TRANSACTION_STATE, 90, Vec::new())], &[log, more.collect::<Vec<_>>().concat()].concat());
        prop_assert!(again.completed.is_empty(), "{:?}", again.completed);
    }
}
