//! pure: when a damaged region is made anew: at once, then after pauses that double, then seldom, so that whoever keeps writing
//! into it cannot keep the data plane busy.

use std::time::{Duration, Instant};

use crate::limits::{
    RENEWAL_FAILED_MS, RENEWAL_PAUSE_MS_MAX, RENEWAL_PAUSE_MS_MIN, RENEWALS_QUIET_MS, RENEWALS_ROW_MAX,
};

/// How often the region was made anew in a row, and when it is due.
#[derive(Debug, Default)]
pub struct Renewals {
    in_a_row: u32,
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Renewals {
    /// Damage was found, also the same as before: when the region is to be made anew.
    pub fn found(&mut self, now: Instant) -> Instant {
        if let Some(due) = self.due {
            return due;
        }
        let quiet = |last: Instant| now.saturating_duration_since(last).as_millis() >= u128::from(RENEWALS_QUIET_MS);
        if self.last.is_none_or(quiet) {
            self.in_a_row = 0;
        }
        let due = self.last.map_or(now, |last| now.max(last + pause(self.in_a_row)));
        self.due = Some(due);
        due
    }

    /// The region was made anew.
    pub fn renewed(&mut self, now: Instant) {
        (self.last, self.due) = (Some(now), None);
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// It could not be made.
    pub fn failed(&mut self, now: Instant) {
        self.due = Some(now + Duration::from_millis(RENEWAL_FAILED_MS));
    }

    /// Whether damage that was found is left as it is for long.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.due.is_some() && self.in_a_row >= RENEWALS_ROW_MAX
    }
}

fn pause(in_a_row: u32) -> Duration {
    let ms = match in_a_row {
        0 => 0,
        RENEWALS_ROW_MAX.. => RENEWALS_QUIET_MS,
        row => RENEWAL_PAUSE_MS_MIN.saturating_mul(1 << (row - 1).min(31)).min(RENEWAL_PAUSE_MS_MAX),
    };
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_damage_is_mended_at_once_and_each_further_one_later_until_it_is_given_up() {
        let (mut renewals, start) = (Renewals::default(), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        while !renewals.is_given_up() {
            let due = renewals.found(now);
            assert_eq!(renewals.found(due), due, "the same damage is due once");
            if !renewals.is_given_up() {
                pauses.push((due - now).as_secs());
                now = due;
                renewals.renewed(now);
            }
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60]);
        // Whoever writes for ever gets a new region seldom, and a look at it by a person is worth more.
        let quiet = Duration::from_millis(RENEWALS_QUIET_MS);
        let due = renewals.found(now);
        assert_eq!(due - now, quiet);
        renewals.renewed(due);
        assert_eq!(renewals.found(due + Duration::from_secs(5)), due + quiet);
        assert!(renewals.is_given_up());
    }

    #[test]
    fn a_region_that_lasted_is_made_anew_at_once_again() {
        let (mut renewals, mut now) = (Renewals::default(), Instant::now());
        for _ in 0..3 {
            now = renewals.found(now);
            renewals.renewed(now);
        }
        now += Duration::from_millis(RENEWALS_QUIET_MS);
        assert_eq!(renewals.found(now), now);
        renewals.failed(now);
        assert_eq!(renewals.found(now), now + Duration::from_millis(RENEWAL_FAILED_MS));
    }
}
