//! pure: what of the shared memory was found damaged, as one word, for log lines, the handshake and health.
//!
//! Both planes find damage; the data plane makes the region anew and says of the last damage where it was.

use core::fmt;

/// A part of the region. Numbers of the parts cross the process border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Part {
    /// The header.
    Header = 1,
    /// Counters and delays of a core.
    Page = 2,
    /// Positions or stamps of a core's order ring.
    OrderRing = 3,
    /// Positions or stamps of a core's event ring.
    EventRing = 4,
    /// A message in a core's order ring that is no order.
    Order = 5,
    /// A message in a core's event ring that is no event.
    Event = 6,
    /// A slot of the board.
    Slot = 7,
}

/// A part that holds what no working plane writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Which part.
    pub part: Part,
    /// Which core or slot; 0 for the header.
    pub index: u32,
}

impl Damage {
    /// Damage of the header.
    pub const HEADER: Self = Self { part: Part::Header, index: 0 };

    /// Damage of `part` number `index`.
    #[must_use]
    pub fn of(part: Part, index: u32) -> Self {
        Self { part, index }
    }

    /// The word to send; never 0.
    #[must_use]
    pub fn to_word(self) -> u64 {
        u64::from(self.part as u32) << 32 | u64::from(self.index)
    }

    /// Reads a received word; `None` when it names no part.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        use Part::{Event, EventRing, Header, Order, OrderRing, Page, Slot};
        let (high, index) = (word >> 32, word as u32);
        let all = [Header, Page, OrderRing, EventRing, Order, Event, Slot];
        all.into_iter().find(|part| u64::from(*part as u32) == high).map(|part| Self { part, index })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.index;
        match self.part {
            Part::Header => f.write_str("the header"),
            Part::Page => write!(f, "the counters of core {index}"),
            Part::OrderRing => write!(f, "the order ring of core {index}"),
            Part::EventRing => write!(f, "the event ring of core {index}"),
            Part::Order => write!(f, "an order to core {index}"),
            Part::Event => write!(f, "an event of core {index}"),
            Part::Slot => write!(f, "slot {index} of the board"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_the_part_and_nothing_else_does() {
        for number in 0..10 {
            let word = number << 32 | 77;
            match Damage::from_word(word) {
                Some(damage) => assert_eq!((damage.to_word(), damage.index), (word, 77)),
                None => assert!(number == 0 || number > 7, "{number}"),
            }
        }
        assert_eq!(Damage::from_word(u64::MAX), None);
        assert_eq!(Damage::of(Part::Slot, 9).to_string(), "slot 9 of the board");
    }
}
