//! One thread at a time: order, limits, and what a broken neighbour writes.

use super::super::layout::ring_words;
use super::*;

fn ring(entries: u32, position: u64) -> Vec<AtomicU64> {
    let words: Vec<_> = (0..ring_words(entries)).map(|_| AtomicU64::new(0)).collect();
    words[RING_TAIL_AT].store(position, Ordering::Relaxed);
    words[RING_HEAD_AT].store(position, Ordering::Relaxed);
    words
}

fn message(n: u64) -> Words {
    [n, 1, 2, 3, 4, 5, !n]
}

#[test]
fn messages_come_out_once_and_in_order_also_where_positions_wrap() {
    for position in [0, u64::MAX - 3] {
        let words = ring(4, position);
        let (mut to, mut from) = (Producer::resume(&words[..]).unwrap(), Consumer::resume(&words[..]).unwrap());
        for n in 0..20 {
            to.push(&message(2 * n)).unwrap();
            to.push(&message(2 * n + 1)).unwrap();
            assert_eq!(from.pop(), Ok(Some(message(2 * n))));
            assert_eq!(from.pop(), Ok(Some(message(2 * n + 1))));
            assert_eq!(from.pop(), Ok(None));
        }
    }
}

#[test]
fn a_full_ring_takes_nothing_and_loses_nothing() {
    let words = ring(2, 0);
    let (mut to, mut from) = (Producer::resume(&words[..]).unwrap(), Consumer::resume(&words[..]).unwrap());
    to.push(&message(0)).unwrap();
    to.push(&message(1)).unwrap();
    assert_eq!(to.push(&message(2)), Err(PushError::Full));
    assert_eq!(from.pop(), Ok(Some(message(0))));
    to.push(&message(2)).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(1))));
    assert_eq!(from.pop(), Ok(Some(message(2))));
}

#[test]
fn either_end_may_die_and_be_resumed() {
    let words = ring(4, 0);
    let mut from = Consumer::resume(&words[..]).unwrap();
    Producer::resume(&words[..]).unwrap().push(&message(0)).unwrap();
    let mut to = Producer::resume(&words[..]).unwrap();
    to.push(&message(1)).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(0))));
    let mut from = Consumer::resume(&words[..]).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(1))));
    assert_eq!(from.pop(), Ok(None));
}

#[test]
fn a_garbage_tail_is_reported_by_the_consumer_until_a_new_producer_mends_it() {
    let words = ring(4, 10);
    let mut from = Consumer::resume(&words[..]).unwrap();
    for garbage in [9, 15, u64::MAX, 0] {
        words[RING_TAIL_AT].store(garbage, Ordering::Release);
        let broken = from.pop().unwrap_err();
        assert_eq!((broken.found, broken.low, broken.high), (garbage, 10, 14));
        assert!(Consumer::resume(&words[..]).is_err() && Producer::resume(&words[..]).is_err());
    }
    let mut to = Producer::restart(&words[..]);
    assert_eq!(from.pop(), Ok(None));
    to.push(&message(7)).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(7))));
}

#[test]
fn a_plausible_tail_over_garbage_entries_is_reported_too() {
    let words = ring(4, 10);
    let mut from = Consumer::resume(&words[..]).unwrap();
    words[RING_TAIL_AT].store(12, Ordering::Release);
    assert_eq!(from.pop().unwrap_err().what, "the stamp");
    assert_eq!(from.pop().unwrap_err().what, "the stamp");
    let mut to = Producer::restart(&words[..]);
    to.push(&message(7)).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(7))));
}

#[test]
fn a_garbage_head_is_reported_by_the_producer_until_a_new_consumer_mends_it() {
    let words = ring(2, 0);
    let mut to = Producer::resume(&words[..]).unwrap();
    to.push(&message(0)).unwrap();
    to.push(&message(1)).unwrap();
    for garbage in [3, u64::MAX] {
        words[RING_HEAD_AT].store(garbage, Ordering::Release);
        words[RING_TAIL_AT].store(garbage, Ordering::Release);
        assert!(matches!(to.push(&message(2)), Err(PushError::Broken(broken)) if broken.found == garbage));
    }
    let mut from = Consumer::skip_all(&words[..]);
    to.push(&message(2)).unwrap();
    assert_eq!(from.pop(), Ok(Some(message(2))));
}

#[test]
fn two_threads_pass_many_messages_through_a_small_ring() {
    const MESSAGES: u64 = 20_000;
    let words = ring(8, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = Producer::resume(&words[..]).unwrap();
            for n in 0..MESSAGES {
                while to.push(&message(n)) == Err(PushError::Full) {
                    std::thread::yield_now();
                }
            }
        });
        let mut from = Consumer::resume(&words[..]).unwrap();
        for n in 0..MESSAGES {
            loop {
                match from.pop().unwrap() {
                    Some(got) => break assert_eq!(got, message(n)),
                    None => std::thread::yield_now(),
                }
            }
        }
    });
}

#[test]
fn words_of_a_message_that_were_written_over_are_noticed() {
    for at in 0..=MESSAGE_WORDS {
        let words = ring(4, 6);
        let (mut to, mut from) = (Producer::resume(&words[..]).unwrap(), Consumer::resume(&words[..]).unwrap());
        to.push(&message(1)).unwrap();
        let word = &entry(&words, 4, 6)[at];
        word.store(word.load(Ordering::Relaxed) ^ 1 << 40, Ordering::Relaxed);
        assert_eq!(from.pop().unwrap_err().what, "the stamp", "word {at}");
    }
}

#[test]
fn a_look_at_the_positions_finds_impossible_ones_and_mends_its_own_only() {
    let words = ring(4, 100);
    let (mut to, mut from) = (Producer::resume(&words[..]).unwrap(), Consumer::resume(&words[..]).unwrap());
    to.push(&message(1)).unwrap();
    assert_eq!((to.check(), from.check()), (Ok(()), Ok(())));
    words[RING_TAIL_AT].store(7, Ordering::Relaxed);
    assert_eq!(from.check().unwrap_err().what, "the producer's position");
    assert_eq!(to.check().unwrap_err().what, "the producer's position");
    assert_eq!((to.check(), from.check()), (Ok(()), Ok(())));
    words[RING_HEAD_AT].store(200, Ordering::Relaxed);
    assert_eq!(to.check().unwrap_err().what, "the consumer's position");
    assert_eq!(from.check().unwrap_err().what, "the consumer's position");
    assert_eq!(to.check(), Ok(()));
    assert_eq!(from.pop(), Ok(Some(message(1))), "nothing was lost");
}
