//! The board: one slot of 16 words per partition, the newest value wins.
//!
//! A slot is a sequence lock. Its writer makes the sequence odd, writes the value, makes it even; a reader that saw an odd or a
//! changed sequence tries again, a bounded number of times, then says [`Seen::Busy`]: look again later. A slot has one writer,
//! the core that owns its partition; any number of readers, in any process, none of which can disturb the writer.

use super::layout::{SLOT_VALUE_WORDS, SLOT_WORDS};
use super::progress::{BadSlot, PartitionProgress};
use super::sync::{AtomicU64, Ordering, fence};
use core::fmt;
use core::ops::Deref;

/// What a look at a slot gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A whole value, as it was published.
    Value(PartitionProgress),
    /// The slot was being written at each try.
    Busy,
    /// No partition has the slot.
    Empty,
    /// A value that no working data plane publishes.
    Broken(BadSlot),
}

/// A slot number that the board does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchSlot {
    /// The number.
    pub slot: u32,
    /// Slots of the board.
    pub slots: u32,
}

impl fmt::Display for NoSuchSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, slots } = self;
        write!(f, "slot {slot} is beyond the {slots} slots of the board: restart the data plane with more slots")
    }
}

impl core::error::Error for NoSuchSlot {}

/// The writing end. One per core; each slot must be published by one core only.
#[derive(Debug)]
pub struct BoardWriter<W> {
    words: W,
}

impl<W: Deref<Target = [AtomicU64]>> BoardWriter<W> {
    /// A writer over the words of a board.
    pub fn new(words: W) -> Self {
        Self { words }
    }

    /// Slots of the board.
    pub fn slots(&self) -> u32 {
        slots_of(&self.words)
    }

    /// Shows `progress` in `slot`.
    ///
    /// # Errors
    /// When there is no such slot (slot numbers come from assignment files).
    pub fn publish(&self, slot: u32, progress: &PartitionProgress) -> Result<(), NoSuchSlot> {
        debug_assert!(progress.identity != 0, "identity 0 is an empty slot");
        debug_assert!(progress.flushed <= progress.leo, "what is flushed was written before");
        write(slot_words(&self.words, slot)?, &progress.to_words());
        Ok(())
    }

    /// Shows that no partition has `slot`.
    ///
    /// # Errors
    /// When there is no such slot.
    pub fn clear(&self, slot: u32) -> Result<(), NoSuchSlot> {
        write(slot_words(&self.words, slot)?, &[0; SLOT_VALUE_WORDS]);
        Ok(())
    }
}

/// The reading end.
#[derive(Debug)]
pub struct BoardReader<W> {
    words: W,
}

impl<W: Deref<Target = [AtomicU64]>> BoardReader<W> {
    /// A reader over the words of a board.
    pub fn new(words: W) -> Self {
        Self { words }
    }

    /// Slots of the board.
    pub fn slots(&self) -> u32 {
        slots_of(&self.words)
    }

    /// Looks at `slot`.
    ///
    /// # Errors
    /// When there is no such slot.
    pub fn read(&self, slot: u32) -> Result<Seen, NoSuchSlot> {
        let words = slot_words(&self.words, slot)?;
        let mut value = [0; SLOT_VALUE_WORDS];
        if !read(words, &mut value) {
            return Ok(Seen::Busy);
        }
        Ok(match PartitionProgress::from_words(&value) {
            Ok(Some(progress)) => Seen::Value(progress),
            Ok(None) => Seen::Empty,
            Err(bad) => Seen::Broken(bad),
        })
    }

    /// Looks at the slots from `first` on and gives those that are not empty.
    pub fn occupied(&self, first: u32) -> impl Iterator<Item = (u32, Seen)> {
        (first..self.slots()).filter_map(|slot| match self.read(slot) {
            Ok(Seen::Empty) | Err(_) => None,
            Ok(seen) => Some((slot, seen)),
        })
    }
}

fn slots_of(words: &[AtomicU64]) -> u32 {
    u32::try_from(words.len() / SLOT_WORDS).expect("the layout bounds the slots of a board")
}

fn slot_words(words: &[AtomicU64], slot: u32) -> Result<&[AtomicU64], NoSuchSlot> {
    let start = slot as usize * SLOT_WORDS;
    words.get(start..start + SLOT_WORDS).ok_or(NoSuchSlot { slot, slots: slots_of(words) })
}

/// Times that a reader looks before it calls a slot busy; a write takes some ten nanoseconds.
#[cfg(not(loom))]
const READ_TRIES: u32 = 64;
#[cfg(loom)]
const READ_TRIES: u32 = 2;

fn write(slot: &[AtomicU64], value: &[u64]) {
    let sequence = slot[0].load(Ordering::Relaxed);
    // Odd also when the word is odd already: nobody but this writer may have written it, and a reader must not be misled.
    let odd = sequence.wrapping_add(1) | 1;
    slot[0].store(odd, Ordering::Relaxed);
    // Whoever reads one of the words below through an acquire fence sees the odd sequence or a later one.
    fence(Ordering::Release);
    for (to, from) in slot[1..].iter().zip(value) {
        to.store(*from, Ordering::Relaxed);
    }
    slot[0].store(odd.wrapping_add(1), Ordering::Release);
}

/// Whether `value` holds one whole value of the slot now.
fn read(slot: &[AtomicU64], value: &mut [u64]) -> bool {
    for _ in 0..READ_TRIES {
        let before = slot[0].load(Ordering::Acquire);
        if before.is_multiple_of(2) {
            for (to, from) in value.iter_mut().zip(&slot[1..]) {
                *to = from.load(Ordering::Relaxed);
            }
            // Pairs with the writer's fence: a word of a later write makes that write's sequence visible below.
            fence(Ordering::Acquire);
            if slot[0].load(Ordering::Relaxed) == before {
                return true;
            }
        }
        core::hint::spin_loop();
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::progress::SlotState;
    use super::*;
    use core::sync::atomic::AtomicBool;

    fn words(slots: usize) -> Vec<AtomicU64> {
        (0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn progress(n: i64) -> PartitionProgress {
        PartitionProgress {
            leo: n,
            flushed: n,
            log_start: n,
            source_high_watermark: n,
            source_lso: n,
            lag_bytes: n,
            bytes: n.cast_unsigned(),
            ..PartitionProgress::unknown(77, SlotState::Mirroring)
        }
    }

    #[test]
    fn a_slot_shows_what_was_published_last_and_others_stay_empty() {
        let words = words(3);
        let (writer, reader) = (BoardWriter::new(&words[..]), BoardReader::new(&words[..]));
        writer.publish(1, &progress(4)).unwrap();
        writer.publish(1, &progress(5)).unwrap();
        assert_eq!(reader.read(0), Ok(Seen::Empty));
        assert_eq!(reader.read(1), Ok(Seen::Value(progress(5))));
        assert_eq!(reader.occupied(0).count(), 1);
        writer.clear(1).unwrap();
        assert_eq!(reader.read(1), Ok(Seen::Empty));
    }

    #[test]
    fn a_slot_beyond_the_board_is_refused_on_both_ends() {
        let words = words(3);
        let wrong = NoSuchSlot { slot: 3, slots: 3 };
        assert_eq!(BoardWriter::new(&words[..]).publish(3, &progress(1)), Err(wrong));
        assert_eq!(BoardReader::new(&words[..]).read(3), Err(wrong));
        assert!(BoardReader::new(&words[..]).read(u32::MAX).is_err());
    }

    #[test]
    fn a_slot_left_in_the_middle_of_a_write_is_busy_and_can_be_published_again() {
        let words = words(1);
        let (writer, reader) = (BoardWriter::new(&words[..]), BoardReader::new(&words[..]));
        words[0].store(7, Ordering::Relaxed);
        assert_eq!(reader.read(0), Ok(Seen::Busy));
        writer.publish(0, &progress(1)).unwrap();
        assert_eq!(reader.read(0), Ok(Seen::Value(progress(1))));
    }

    #[test]
    fn garbage_in_a_slot_is_reported() {
        let words = words(1);
        for word in &words[1..] {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        assert!(matches!(BoardReader::new(&words[..]).read(0), Ok(Seen::Broken(_))));
    }

    #[test]
    fn a_reader_never_sees_parts_of_two_values() {
        let words = words(1);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let writer = BoardWriter::new(&words[..]);
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    writer.publish(0, &progress(n)).unwrap();
                }
            });
            let reader = BoardReader::new(&words[..]);
            let (mut newest, mut values) = (0, 0);
            while values < 20_000 {
                if let Seen::Value(seen) = reader.read(0).unwrap() {
                    assert_eq!(seen, progress(seen.leo));
                    assert!(seen.leo >= newest, "a slot never goes back");
                    newest = seen.leo;
                    values += 1;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Proves for every interleaving and every reordering that the memory model allows: a reader gets a whole value or none.
    /// Three words stand for the sixteen: the code does not know the difference.
    #[test]
    fn a_reader_gets_a_whole_value_or_none() {
        loom::model(|| {
            let slot: Arc<Vec<_>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
            let writers = Arc::clone(&slot);
            let writer = loom::thread::spawn(move || {
                write(&writers, &[1, 1]);
                write(&writers, &[2, 2]);
            });
            let mut value = [9, 9];
            if read(&slot, &mut value) {
                assert!(value[0] == value[1] && value[0] <= 2, "{value:?}");
            }
            writer.join().unwrap();
            assert!(read(&slot, &mut value));
            assert_eq!(value, [2, 2]);
        });
    }
}
