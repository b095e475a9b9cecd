//! pure: orders (control plane to core) and events (core to control plane), as the 7 words of a ring message.
//!
//! Word 0 is the kind, the rest its fields, unused words are zero. Orders say what should be, not what to do next: a restarted
//! control plane sends them all again. Events are hints where to look; the board and the assignment files are the truth.

use super::layout::MESSAGE_WORDS;
use super::progress::FaultCode;
use core::fmt;

/// Words of a message.
pub type Words = [u64; MESSAGE_WORDS];

/// What the control plane tells a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The assignment file of a mirror was replaced; read it again. `mirror` is `progress::mirror_identity` of the name.
    AssignmentCurrent {
        /// Which mirror.
        mirror: u64,
        /// Version that the file has now, or a newer one.
        version: u64,
    },
    /// The assignment file of a mirror is gone: let go of all its partitions.
    AssignmentRemoved {
        /// Which mirror.
        mirror: u64,
    },
    /// Finish all logs and stop fetching; the process is about to be ended.
    Drain,
}

/// What a core tells the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// State, fault or assignment version of a slot changed (not: its offsets).
    Changed {
        /// Which slot.
        slot: u32,
    },
    /// A partition ran into a fault; its slot tells whether it stopped there.
    Fault {
        /// Which slot.
        slot: u32,
        /// What happened.
        code: FaultCode,
        /// First offset concerned, -1 unknown.
        from: i64,
        /// End (exclusive) of the offsets concerned, -1 unknown.
        to: i64,
    },
    /// Something is wrong with a mirror as a whole.
    MirrorFault {
        /// Which mirror.
        mirror: u64,
        /// What happened; `FaultCode::NONE`: over.
        code: FaultCode,
    },
    /// This core has taken over all of an assignment that concerns it.
    AssignmentApplied {
        /// Which mirror.
        mirror: u64,
        /// Which version.
        version: u64,
    },
    /// All logs of this core are finished, after [`Order::Drain`].
    Drained,
}

/// A message that no neighbour of this layout version sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadMessage {
    /// The rule that is broken.
    pub what: &'static str,
    /// Kind of the message, as found.
    pub kind: u64,
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a ring message of kind {} breaks the rule that {}", self.kind, self.what)
    }
}

impl core::error::Error for BadMessage {}

// Kinds of orders and of events differ, so that a message in the wrong ring is noticed.
const ASSIGNMENT_CURRENT: u64 = 1;
const ASSIGNMENT_REMOVED: u64 = 2;
const DRAIN: u64 = 3;
const CHANGED: u64 = 101;
const FAULT: u64 = 102;
const MIRROR_FAULT: u64 = 103;
const ASSIGNMENT_APPLIED: u64 = 104;
const DRAINED: u64 = 105;

impl Order {
    /// The words to send.
    #[must_use]
    pub fn to_words(&self) -> Words {
        match *self {
            Self::AssignmentCurrent { mirror, version } => words([ASSIGNMENT_CURRENT, mirror, version, 0, 0]),
            Self::AssignmentRemoved { mirror } => words([ASSIGNMENT_REMOVED, mirror, 0, 0, 0]),
            Self::Drain => words([DRAIN, 0, 0, 0, 0]),
        }
    }

    /// Reads received words.
    ///
    /// # Errors
    /// A kind that is no order, or fields outside of their bounds.
    pub fn from_words(words: &Words) -> Result<Self, BadMessage> {
        let (order, used) = match words[0] {
            ASSIGNMENT_CURRENT => (Self::AssignmentCurrent { mirror: words[1], version: words[2] }, 3),
            ASSIGNMENT_REMOVED => (Self::AssignmentRemoved { mirror: words[1] }, 2),
            DRAIN => (Self::Drain, 1),
            kind => return Err(BadMessage { what: "an order has a kind of order", kind }),
        };
        rest_is_zero(words, used).map(|()| order)
    }
}

impl Event {
    /// The words to send.
    #[must_use]
    pub fn to_words(&self) -> Words {
        match *self {
            Self::Changed { slot } => words([CHANGED, u64::from(slot), 0, 0, 0]),
            Self::Fault { slot, code, from, to } => {
                words([FAULT, u64::from(slot), u64::from(code.0), from.cast_unsigned(), to.cast_unsigned()])
            }
            Self::MirrorFault { mirror, code } => words([MIRROR_FAULT, mirror, u64::from(code.0), 0, 0]),
            Self::AssignmentApplied { mirror, version } => words([ASSIGNMENT_APPLIED, mirror, version, 0, 0]),
            Self::Drained => words([DRAINED, 0, 0, 0, 0]),
        }
    }

    /// Reads received words. Whether the board has such a slot is for the caller to check.
    ///
    /// # Errors
    /// A kind that is no event, or fields outside of their bounds.
    pub fn from_words(words: &Words) -> Result<Self, BadMessage> {
        let (event, used) = match words[0] {
            CHANGED => (Self::Changed { slot: slot(words)? }, 2),
            FAULT => {
                let (from, to) = (offset(words, 3)?, offset(words, 4)?);
                (Self::Fault { slot: slot(words)?, code: code(words)?, from, to }, 5)
            }
            MIRROR_FAULT => (Self::MirrorFault { mirror: words[1], code: code(words)? }, 3),
            ASSIGNMENT_APPLIED => (Self::AssignmentApplied { mirror: words[1], version: words[2] }, 3),
            DRAINED => (Self::Drained, 1),
            kind => return Err(BadMessage { what: "an event has a kind of event", kind }),
        };
        rest_is_zero(words, used).map(|()| event)
    }
}

fn words(used: [u64; 5]) -> Words {
    [used[0], used[1], used[2], used[3], used[4], 0, 0]
}

fn rest_is_zero(words: &Words, used: usize) -> Result<(), BadMessage> {
    if words[used..].iter().any(|word| *word != 0) {
        return Err(BadMessage { what: "unused words are zero", kind: words[0] });
    }
    Ok(())
}

fn slot(words: &Words) -> Result<u32, BadMessage> {
    let broken = BadMessage { what: "a slot number has 32 bits", kind: words[0] };
    // The number itself says nothing more than that it is too large.
    u32::try_from(words[1]).or(Err(broken))
}

fn code(words: &Words) -> Result<FaultCode, BadMessage> {
    let broken = BadMessage { what: "a fault code has 16 bits", kind: words[0] };
    u16::try_from(words[2]).map(FaultCode).or(Err(broken))
}

fn offset(words: &Words, at: usize) -> Result<i64, BadMessage> {
    match words[at].cast_signed() {
        value if value >= -1 => Ok(value),
        _ => Err(BadMessage { what: "offsets are -1 or more", kind: words[0] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [Order; 3] = [
        Order::AssignmentCurrent { mirror: 9, version: u64::MAX },
        Order::AssignmentRemoved { mirror: 9 },
        Order::Drain,
    ];
    const EVENTS: [Event; 5] = [
        Event::Changed { slot: u32::MAX },
        Event::Fault { slot: 3, code: FaultCode::GAP, from: -1, to: i64::MAX },
        Event::MirrorFault { mirror: 4, code: FaultCode::UNREACHABLE },
        Event::AssignmentApplied { mirror: 4, version: 7 },
        Event::Drained,
    ];

    #[test]
    fn what_is_sent_is_what_is_received() {
        for order in ORDERS {
            assert_eq!(Order::from_words(&order.to_words()), Ok(order));
        }
        for event in EVENTS {
            assert_eq!(Event::from_words(&event.to_words()), Ok(event));
        }
    }

    #[test]
    fn an_event_is_no_order_and_an_order_is_no_event() {
        assert!(EVENTS.iter().all(|event| Order::from_words(&event.to_words()).is_err()));
        assert!(ORDERS.iter().all(|order| Event::from_words(&order.to_words()).is_err()));
    }

    #[test]
    fn fields_out_of_range_and_stray_words_are_refused() {
        for (at, value) in [(1, 1 << 32), (2, 1 << 16), (3, (-2_i64).cast_unsigned()), (6, 1)] {
            let mut words = EVENTS[1].to_words();
            words[at] = value;
            assert!(Event::from_words(&words).is_err(), "word {at}");
        }
        assert!(Order::from_words(&[0; MESSAGE_WORDS]).is_err());
        assert!(Order::from_words(&[u64::MAX; MESSAGE_WORDS]).is_err());
    }
}
