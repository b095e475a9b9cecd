//! Makes batches fetchable on a fixed schedule, whether or not anybody keeps up (open loop).
//!
//! Batch number k of all paced batches goes to partition number k mod P (of the P that hold data), so a measurer that knows the schedule can tell when any
//! batch was due. A pacer that wakes late releases everything that is due; the schedule itself never moves.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::store::Store;

/// When each of a run of batches becomes fetchable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// When the first is due: ns of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Bytes per second.
    pub rate: NonZeroU64,
    /// Bytes of a batch.
    pub batch_bytes: u64,
    /// Number of the first batch among all paced ones.
    pub first: u64,
    /// How many batches.
    pub batches: u64,
}

impl Schedule {
    /// A schedule of about `seconds` at `rate` bytes per second that starts at `start_ns`.
    #[must_use]
    pub fn new(start_ns: u64, rate: NonZeroU64, seconds: f64, batch_bytes: u64, first: u64) -> Self {
        let batches = (rate.get() as f64 * seconds / batch_bytes as f64).ceil() as u64;
        Self { start_ns, rate, batch_bytes, first, batches }
    }

    /// When batch `number` (of this run, from 0) is due.
    #[must_use]
    pub fn due_ns(&self, number: u64) -> u64 {
        let after = u128::from(number) * u128::from(self.batch_bytes) * 1_000_000_000 / u128::from(self.rate.get());
        self.start_ns.saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

/// Now, in ns of `CLOCK_MONOTONIC`, which all processes share.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock counts up from the boot of the machine.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Carries out a schedule on the calling thread and returns when the last batch is fetchable.
pub fn run(store: &Store, schedule: &Schedule) {
    let partitions = u64::from(store.with_data().max(1));
    let mut done = 0;
    while done < schedule.batches {
        let now = now_ns();
        let due = (done..schedule.batches).take_while(|number| schedule.due_ns(*number) <= now).count() as u64;
        if due > 0 {
            let numbers = schedule.first + done..schedule.first + done + due;
            store.raise(numbers.map(|number| (number % partitions) as u32));
            done += due;
        } else {
            thread::sleep(Duration::from_nanos(schedule.due_ns(done) - now));
        }
    }
}

#[cfg(test)]
mod tests {
    use twinlog_proto::ids::Uuid;

    use super::*;
    use crate::source::batches::{Batches, Shape};

    fn rate(bytes: u64) -> NonZeroU64 {
        NonZeroU64::new(bytes).unwrap()
    }

    #[test]
    fn due_times_follow_the_rate_from_the_start_on() {
        let schedule = Schedule::new(1_000, rate(1_000_000), 1.0, 1_000, 7);
        assert_eq!((schedule.batches, schedule.due_ns(0), schedule.due_ns(3)), (1_000, 1_000, 3_001_000));
    }

    #[test]
    fn a_run_releases_every_batch_in_turn_over_the_partitions() {
        let shape = Shape { seed: 1, batch_bytes: 1_000, record_bytes: 100, leader_epoch: 0 };
        let store = Store::new("t".into(), Uuid::ZERO, Batches::new(shape).unwrap(), 3, 10);
        run(&store, &Schedule::new(now_ns(), rate(1_000_000), 0.02, 1_000, 1));
        // 20 batches, the first of them for partition 1.
        assert_eq!([0, 1, 2].map(|partition| store.released(partition)), [Some(16), Some(17), Some(17)]);
    }
}
