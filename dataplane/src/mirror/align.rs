//! pure: the source says that our log is no prefix of its own: where the two part, and what becomes of it.
//!
//! The source answers a fetch with the largest epoch `e` that it has at or below ours, and its end `o`. Locally we look for
//! the largest epoch `e'` at or below `e`. Is it the same, the logs agree up to the smaller of both ends; is it another, they
//! agree at most up to our end of `e'`, and the next fetch will tell more.

use twinlog_proto::messages::fetch::EpochEnd;

/// What is done about a divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The logs agree below this offset; everything from here on to our end is not the source's.
    Differs {
        /// The first offset that differs.
        from: i64,
        /// Our end.
        to: i64,
    },
    /// The answer asks for nothing: it lies at or above our end.
    Agrees,
}

/// Where our log and the source's part. `local` is our largest epoch at or below the source's answer with our end of it;
/// `None` when we have none that old.
#[must_use]
pub fn parting(source: EpochEnd, local: Option<(i32, i64)>, log_start: i64, next_offset: i64) -> Verdict {
    let from = match local {
        Some((epoch, end)) if epoch == source.epoch => end.min(source.end_offset),
        Some((_, end)) => end,
        None => log_start,
    };
    let from = from.max(log_start);
    if from >= next_offset { Verdict::Agrees } else { Verdict::Differs { from, to: next_offset } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(epoch: i32, end_offset: i64) -> EpochEnd {
        EpochEnd { epoch, end_offset }
    }

    #[test]
    fn under_the_same_epoch_the_smaller_end_decides() {
        assert_eq!(parting(source(4, 80), Some((4, 100)), 0, 100), Verdict::Differs { from: 80, to: 100 });
        assert_eq!(parting(source(4, 120), Some((4, 100)), 0, 110), Verdict::Differs { from: 100, to: 110 });
    }

    #[test]
    fn under_an_older_local_epoch_our_end_of_it_decides() {
        assert_eq!(parting(source(6, 90), Some((4, 70)), 0, 100), Verdict::Differs { from: 70, to: 100 });
    }

    #[test]
    fn without_an_epoch_that_old_nothing_of_ours_is_the_sources() {
        assert_eq!(parting(source(1, 10), None, 30, 100), Verdict::Differs { from: 30, to: 100 });
    }

    #[test]
    fn an_answer_at_our_end_changes_nothing_and_one_below_our_start_stops_at_it() {
        assert_eq!(parting(source(4, 200), Some((4, 100)), 0, 100), Verdict::Agrees);
        assert_eq!(parting(source(4, 5), Some((4, 100)), 30, 100), Verdict::Differs { from: 30, to: 100 });
    }
}
