//! pure: why client connections were ended by this side, counted by cause for the metrics.

use std::cell::Cell;

/// A reason to end a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A frame length that is negative or above the limit.
    Length,
    /// Bytes that do not follow the layout of the request, or would take far more memory than they are.
    Malformed,
    /// A request kind or version that is not served.
    NotServed,
    /// The peer closed in the middle of a frame.
    HalfFrame,
    /// The frame did not arrive in time.
    SlowFrame,
    /// All bytes for frames in progress are in use.
    NoBudget,
    /// The answer was not taken in time, or too many answers wait to be taken.
    Unread,
    /// No request for long.
    Idle,
    /// It had waited longest when room was needed for another one.
    Evicted,
    /// All connections were in use.
    Full,
    /// One address had as many connections as it may.
    Address,
    /// The network, or our own answer.
    Broken,
}

impl Cause {
    /// All of them, in the order of the metrics.
    pub const ALL: [Self; 12] = [
        Self::Length,
        Self::Malformed,
        Self::NotServed,
        Self::HalfFrame,
        Self::SlowFrame,
        Self::NoBudget,
        Self::Unread,
        Self::Idle,
        Self::Evicted,
        Self::Full,
        Self::Address,
        Self::Broken,
    ];

    /// The label in the metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "frame_length",
            Self::Malformed => "malformed",
            Self::NotServed => "not_served",
            Self::HalfFrame => "half_frame",
            Self::SlowFrame => "slow_frame",
            Self::NoBudget => "no_budget",
            Self::Unread => "unread_answer",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::Full => "full",
            Self::Address => "address_limit",
            Self::Broken => "broken",
        }
    }
}

/// Connections ended, by cause.
#[derive(Debug, Default)]
pub struct Counters([Cell<u64>; Cause::ALL.len()]);

impl Counters {
    /// Counts one.
    pub fn count(&self, cause: Cause) {
        let counter = &self.0[cause as usize];
        counter.set(counter.get() + 1);
    }

    /// How many there were for this cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize].get()
    }

    /// All of them, with their labels.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        Cause::ALL.iter().map(|cause| (cause.name(), self.of(*cause))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_counter_and_a_label_of_its_own() {
        let counters = Counters::default();
        Cause::ALL.iter().for_each(|cause| counters.count(*cause));
        let all = counters.all();
        assert!(all.iter().all(|(_, count)| *count == 1), "{all:?}");
        assert_eq!(all.iter().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }
}
