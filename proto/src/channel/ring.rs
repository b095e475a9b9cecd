//! A ring with one producer and one consumer, over words that two processes share.
//!
//! Positions count messages since the region was made and live in the region, so that either side may be killed and resumed.
//! A message is there when the tail has passed it: a producer killed in the middle of one leaves nothing behind. Each entry
//! carries a stamp made of its position and words: what is no message of this position, or was written over, is noticed.
//!
//! What the neighbour wrote is checked at each look. [`Broken`] leaves the ring as it is; the side that finds it reports and
//! may look again. A new producer mends a broken ring with [`Producer::restart`], a new consumer with [`Consumer::skip_all`].
//! Two producers or two consumers at a time are not safe *for the data* (never for memory): the owner of the channel socket
//! lets one client in at a time.

use super::layout::{MESSAGE_WORDS, RING_ENTRY_WORDS, RING_HEAD_AT, RING_HEADER_WORDS, RING_TAIL_AT};
use super::message::Words;
use super::sync::{AtomicU64, Ordering};
use core::fmt;
use core::ops::Deref;

/// The neighbour wrote something that no working neighbour writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Which word.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// The smallest value it may have (modulo 2^64).
    pub low: u64,
    /// The largest value it may have (modulo 2^64).
    pub high: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, low, high } = self;
        write!(f, "{what} of a ring is {found:#x}, must be {low:#x} to {high:#x}")
    }
}

impl core::error::Error for Broken {}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushError {
    /// The consumer has not made room yet.
    Full,
    /// The consumer's position is impossible.
    Broken(Broken),
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the ring is full: the other plane does not take its messages"),
            Self::Broken(broken) => broken.fmt(f),
        }
    }
}

impl core::error::Error for PushError {}

/// The end that sends.
#[derive(Debug)]
pub struct Producer<W> {
    words: W,
    entries: u64,
    tail: u64,
    head_seen: u64,
}

impl<W: Deref<Target = [AtomicU64]>> Producer<W> {
    /// Goes on where the last producer of this ring stopped.
    ///
    /// # Errors
    /// Positions that cannot be; see [`Producer::restart`].
    ///
    /// # Panics
    /// When `words` is no ring area of the layout; the same for all constructors here.
    pub fn resume(words: W) -> Result<Self, Broken> {
        let entries = entries_of(&words);
        let tail = words[RING_TAIL_AT].load(Ordering::Acquire);
        let head = words[RING_HEAD_AT].load(Ordering::Acquire);
        check("the consumer's position", head, tail.wrapping_sub(entries), tail)?;
        Ok(Self { words, entries, tail, head_seen: head })
    }

    /// Starts anew behind the consumer's position, whatever the tail was: for a ring that [`Broken`] was reported of. Messages
    /// that were not taken are gone. A consumer that found the ring broken takes no message before this.
    pub fn restart(words: W) -> Self {
        let entries = entries_of(&words);
        let head = words[RING_HEAD_AT].load(Ordering::Acquire);
        words[RING_TAIL_AT].store(head, Ordering::Release);
        Self { words, entries, tail: head, head_seen: head }
    }

    /// Looks whether both positions are possible; our own is put right where it is not.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), Broken> {
        let own = self.words[RING_TAIL_AT].load(Ordering::Relaxed);
        if own != self.tail {
            self.words[RING_TAIL_AT].store(self.tail, Ordering::Release);
        }
        check("the producer's position", own, self.tail, self.tail)?;
        let head = self.words[RING_HEAD_AT].load(Ordering::Acquire);
        check("the consumer's position", head, self.head_seen, self.tail)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When there is no room, or the consumer is broken; the message was not sent.
    pub fn push(&mut self, message: &Words) -> Result<(), PushError> {
        if self.tail.wrapping_sub(self.head_seen) == self.entries {
            let head = self.words[RING_HEAD_AT].load(Ordering::Acquire);
            if let Err(broken) = check("the consumer's position", head, self.head_seen, self.tail) {
                // Who wrote that may have written over our position as well.
                self.words[RING_TAIL_AT].store(self.tail, Ordering::Release);
                return Err(PushError::Broken(broken));
            }
            self.head_seen = head;
            if self.tail.wrapping_sub(head) == self.entries {
                return Err(PushError::Full);
            }
        }
        let entry = entry(&self.words, self.entries, self.tail);
        for (to, from) in entry.iter().zip(message) {
            to.store(*from, Ordering::Relaxed);
        }
        entry[MESSAGE_WORDS].store(stamp(self.tail, message), Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
        // Release: who sees the new tail sees the entry.
        self.words[RING_TAIL_AT].store(self.tail, Ordering::Release);
        Ok(())
    }
}

/// The end that receives.
#[derive(Debug)]
pub struct Consumer<W> {
    words: W,
    entries: u64,
    head: u64,
    tail_seen: u64,
}

impl<W: Deref<Target = [AtomicU64]>> Consumer<W> {
    /// Goes on where the last consumer of this ring stopped.
    ///
    /// # Errors
    /// Positions that cannot be; see [`Consumer::skip_all`].
    pub fn resume(words: W) -> Result<Self, Broken> {
        let entries = entries_of(&words);
        let head = words[RING_HEAD_AT].load(Ordering::Acquire);
        let tail = words[RING_TAIL_AT].load(Ordering::Acquire);
        check("the producer's position", tail, head, head.wrapping_add(entries))?;
        Ok(Self { words, entries, head, tail_seen: head })
    }

    /// Starts behind everything sent so far, whatever the head was: for messages that are only hints, or a ring that
    /// [`Broken`] was reported of.
    pub fn skip_all(words: W) -> Self {
        let entries = entries_of(&words);
        let tail = words[RING_TAIL_AT].load(Ordering::Acquire);
        words[RING_HEAD_AT].store(tail, Ordering::Release);
        Self { words, entries, head: tail, tail_seen: tail }
    }

    /// Looks whether both positions are possible; our own is put right where it is not.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), Broken> {
        let own = self.words[RING_HEAD_AT].load(Ordering::Relaxed);
        if own != self.head {
            self.words[RING_HEAD_AT].store(self.head, Ordering::Release);
        }
        check("the consumer's position", own, self.head, self.head)?;
        let tail = self.words[RING_TAIL_AT].load(Ordering::Acquire);
        check("the producer's position", tail, self.head, self.head.wrapping_add(self.entries))
    }

    /// Takes the next message, if there is one.
    ///
    /// # Errors
    /// The producer's position or the next entry is impossible; nothing was taken, and the next call looks again.
    pub fn pop(&mut self) -> Result<Option<Words>, Broken> {
        if self.head == self.tail_seen {
            // Acquire: who sees the new tail sees the entries below it.
            let tail = self.words[RING_TAIL_AT].load(Ordering::Acquire);
            self.checked("the producer's position", tail, self.head, self.head.wrapping_add(self.entries))?;
            self.tail_seen = tail;
            if tail == self.head {
                return Ok(None);
            }
        }
        let entry = entry(&self.words, self.entries, self.head);
        let mut message = [0; MESSAGE_WORDS];
        for (to, from) in message.iter_mut().zip(entry) {
            *to = from.load(Ordering::Relaxed);
        }
        let (found, wanted) = (entry[MESSAGE_WORDS].load(Ordering::Relaxed), stamp(self.head, &message));
        self.checked("the stamp", found, wanted, wanted)?;
        self.head = self.head.wrapping_add(1);
        // Release: the entry was read before the producer may write it again.
        self.words[RING_HEAD_AT].store(self.head, Ordering::Release);
        Ok(Some(message))
    }

    fn checked(&mut self, what: &'static str, found: u64, low: u64, high: u64) -> Result<(), Broken> {
        let checked = check(what, found, low, high);
        if checked.is_err() {
            // Look at the tail again next time; and who wrote that may have written over our position as well.
            self.tail_seen = self.head;
            self.words[RING_HEAD_AT].store(self.head, Ordering::Release);
        }
        checked
    }
}

fn entries_of(words: &[AtomicU64]) -> u64 {
    assert!(words.len() > RING_HEADER_WORDS, "a ring has a header and entries");
    let entries = (words.len() - RING_HEADER_WORDS) / RING_ENTRY_WORDS;
    assert!(entries.is_power_of_two(), "the entries of a ring are a power of two");
    entries as u64
}

fn entry(words: &[AtomicU64], entries: u64, position: u64) -> &[AtomicU64] {
    let start = RING_HEADER_WORDS + (position & (entries - 1)) as usize * RING_ENTRY_WORDS;
    &words[start..start + RING_ENTRY_WORDS]
}

/// Positions may wrap, so the bounds are compared as distances from `low`.
fn check(what: &'static str, found: u64, low: u64, high: u64) -> Result<(), Broken> {
    if found.wrapping_sub(low) > high.wrapping_sub(low) {
        return Err(Broken { what, found, low, high });
    }
    Ok(())
}

const STAMP: u64 = 0xa5c3_96e1_7b2d_4f88;
const STAMP_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Depends on every bit; no protection from who computes it, which nothing in shared memory is.
fn stamp(position: u64, message: &Words) -> u64 {
    let mix = |mixed: u64, word: &u64| (mixed ^ word).wrapping_mul(STAMP_FACTOR).rotate_left(29);
    message.iter().fold(position ^ STAMP, mix)
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::layout::ring_words;
    use super::*;
    use loom::sync::Arc;

    /// Loom's atomics behind an `Arc`, as the mapping is behind one.
    struct Shared(Arc<Vec<AtomicU64>>);

    impl Deref for Shared {
        type Target = [AtomicU64];
        fn deref(&self) -> &[AtomicU64] {
            &self.0
        }
    }

    fn ring() -> (Shared, Shared) {
        let words = Arc::new((0..ring_words(2)).map(|_| AtomicU64::new(0)).collect());
        (Shared(Arc::clone(&words)), Shared(words))
    }

    /// Proves for every interleaving: each message comes out whole, once and in order, also when its entry is used again.
    #[test]
    fn no_message_is_lost_torn_or_seen_twice() {
        loom::model(|| {
            let (a, b) = ring();
            let sender = loom::thread::spawn(move || {
                let mut to = Producer::resume(a).unwrap();
                for n in 1..=3 {
                    while to.push(&[n; MESSAGE_WORDS]) == Err(PushError::Full) {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut from = Consumer::resume(b).unwrap();
            for n in 1..=3 {
                loop {
                    match from.pop().unwrap() {
                        Some(got) => break assert_eq!(got, [n; MESSAGE_WORDS]),
                        None => loom::thread::yield_now(),
                    }
                }
            }
            sender.join().unwrap();
        });
    }

    /// Proves for every interleaving: a consumer that is replaced goes on with the next message, and no end sees the other broken.
    #[test]
    fn a_replaced_consumer_goes_on_with_the_next_message() {
        loom::model(|| {
            let (a, b) = ring();
            let sender = loom::thread::spawn(move || {
                let mut to = Producer::resume(a).unwrap();
                to.push(&[1; MESSAGE_WORDS]).unwrap();
                to.push(&[2; MESSAGE_WORDS]).unwrap();
            });
            let first = Consumer::resume(&*b).unwrap().pop().unwrap();
            let second = Consumer::resume(&*b).unwrap().pop().unwrap();
            assert!(first.is_none_or(|got| got == [1; MESSAGE_WORDS]));
            let wanted = if first.is_some() { 2 } else { 1 };
            assert!(second.is_none_or(|got| got == [wanted; MESSAGE_WORDS]));
            sender.join().unwrap();
        });
    }
}
