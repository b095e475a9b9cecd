//! The paced phase: batches become fetchable on a schedule, and the board says when each was visible and when flushed.
//!
//! Open loop: a batch's delay counts from the moment it was due, so a mirror that falls behind cannot hide it.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::RunError;
use super::watch::Board;
use crate::source::batches::Batches;
use crate::source::pace::{Schedule, now_ns};
use crate::spawn::Source;

/// Between two looks at the board.
const POLL: Duration = Duration::from_micros(50);
/// How long after the last batch was due everything must be flushed, beside the flush interval.
const GRACE_NS: u64 = 30_000_000_000;
const HIGHEST_US: u64 = 600_000_000;
const DIGITS: u8 = 3;

/// Delays in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Delays {
    /// Half of the batches were faster.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    #[serde(rename = "p99.9")]
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// What the paced phase measured.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Paced {
    /// Bytes per second.
    pub rate: u64,
    /// Batches.
    pub batches: u64,
    /// From fetchable at the source to counted in the LEO, ms.
    pub visible_ms: Delays,
    /// From fetchable at the source to stable storage, ms.
    pub flushed_ms: Delays,
    /// The data plane's flush interval.
    pub flush_interval_ms: u64,
    /// Time between two looks at the board: what the delays are too long by at most, when nothing holds the measurer up.
    pub resolution_us: u64,
}

/// Runs the phase and returns when its last batch is flushed.
///
/// # Errors
/// When the source or a plane fails, or batches do not arrive.
pub fn measure(
    source: &mut Source,
    board: &mut Board,
    batches: &Batches,
    batches_each: u64,
    (rate, seconds, flush_interval_ms): (NonZeroU64, f64, u64),
    partitions: u32,
) -> Result<Paced, RunError> {
    // The kernel otherwise adds 50 us to every sleep; without the right to change it the looks are just rarer.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000)).unwrap_or_default();
    let said = source.tell(&format!("pace {rate} {seconds}")).map_err(RunError::Source)?;
    let schedule =
        understand(&said).ok_or_else(|| RunError::Planes(format!("the source answered {said:?} to pace")))?;
    let mut counts = Counts {
        schedule,
        partitions: partitions.into(),
        batches_each,
        visible: Line::new(partitions)?,
        flushed: Line::new(partitions)?,
    };
    let deadline = schedule.due_ns(schedule.batches) + flush_interval_ms * 1_000_000 + GRACE_NS;
    while counts.flushed.arrived < schedule.batches {
        super::check_interrupted()?;
        for partition in 0..partitions {
            if let Some(progress) = board.look(partition as usize)? {
                let now = now_ns();
                counts.note(partition, batches.index_of(progress.leo), batches.index_of(progress.flushed), now)?;
            }
        }
        if now_ns() > deadline {
            let missing = schedule.batches - counts.flushed.arrived;
            return Err(RunError::Planes(format!("{missing} paced batches did not arrive within 30 s of their time")));
        }
        thread::sleep(POLL);
    }
    source.next_line().map_err(RunError::Source)?;
    Ok(Paced {
        rate: rate.get(),
        batches: schedule.batches,
        visible_ms: counts.visible.delays(),
        flushed_ms: counts.flushed.delays(),
        flush_interval_ms,
        resolution_us: POLL.as_micros() as u64,
    })
}

/// How far each partition is, and how long its batches took.
struct Counts {
    schedule: Schedule,
    partitions: u64,
    batches_each: u64,
    visible: Line,
    flushed: Line,
}

struct Line {
    next: Vec<u64>,
    arrived: u64,
    delays_us: Histogram<u64>,
}

impl Line {
    fn new(partitions: u32) -> Result<Self, RunError> {
        let delays_us = Histogram::new_with_bounds(1, HIGHEST_US, DIGITS)
            .map_err(|cause| RunError::Planes(format!("no histogram: {cause}")))?;
        Ok(Self { next: vec![0; partitions as usize], arrived: 0, delays_us })
    }

    fn delays(&self) -> Delays {
        let at = |quantile| self.delays_us.value_at_quantile(quantile) as f64 / 1000.0;
        Delays { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: self.delays_us.max() as f64 / 1000.0 }
    }
}

impl Counts {
    /// Notes that a partition's log ends after batch `visible` and is durable up to `flushed` (counted in batches from its start).
    fn note(&mut self, partition: u32, visible: u64, flushed: u64, now: u64) -> Result<(), RunError> {
        let (schedule, partitions, each) = (self.schedule, self.partitions, self.batches_each);
        for (line, end) in [(&mut self.visible, visible), (&mut self.flushed, flushed)] {
            let next = &mut line.next[partition as usize];
            while *next < end.saturating_sub(each) {
                // Paced batch n of this partition is batch n * P + partition of all; the first of this run may be a later one.
                let number = (*next * partitions + u64::from(partition)).checked_sub(schedule.first);
                *next += 1;
                let Some(number) = number.filter(|number| *number < schedule.batches) else { continue };
                line.arrived += 1;
                let delay_us = now.saturating_sub(schedule.due_ns(number)) / 1000;
                line.delays_us
                    .record(delay_us.clamp(1, HIGHEST_US))
                    .map_err(|cause| RunError::Planes(format!("no delay of {delay_us} us: {cause}")))?;
            }
        }
        Ok(())
    }
}

fn understand(said: &str) -> Option<Schedule> {
    let word = |name: &str| -> Option<u64> {
        said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?.parse().ok()
    };
    Some(Schedule {
        start_ns: word("start_ns")?,
        rate: NonZeroU64::new(word("rate")?)?,
        batch_bytes: word("batch_bytes")?,
        first: word("first")?,
        batches: word("batches")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_paced_batch_is_timed_once_from_its_own_due_time() {
        let said = "pace start_ns=1000000 rate=1000 batch_bytes=1 first=0 batches=6";
        let schedule = understand(said).unwrap();
        let mut counts = Counts {
            schedule,
            partitions: 2,
            batches_each: 10,
            visible: Line::new(2).unwrap(),
            flushed: Line::new(2).unwrap(),
        };
        // Batches of partition 1 are due 1, 3 and 5 ms after the start.
        counts.note(1, 12, 10, 1_000_000 + 4_000_000).unwrap();
        counts.note(1, 12, 11, 1_000_000 + 5_000_000).unwrap();
        assert_eq!((counts.visible.arrived, counts.flushed.arrived), (2, 1));
        let delays = counts.visible.delays();
        assert!((delays.max - 3.0).abs() < 0.01 && (delays.p50 - 1.0).abs() < 0.01, "{delays:?}");
        assert!((counts.flushed.delays().max - 4.0).abs() < 0.01);
    }

    #[test]
    fn another_answer_is_not_understood() {
        assert_eq!(understand("unknown command"), None);
    }
}
