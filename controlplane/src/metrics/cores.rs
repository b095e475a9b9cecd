//! pure: the counters and delays of the data plane's cores.

use super::text::{Kind, Page};
use crate::plane::attachment::CoreNumbers;
use twinlog_proto::channel::page::{Counter, Delay, Histogram, Kind as CounterKind, bucket, bucket_end_micros};

/// Two buckets for each doubling, from 16 us ...
const FIRST_MICROS: u64 = 16;
/// ... to about 17 s.
const LAST_MICROS: u64 = 16 << 20;
/// Buckets of a page that make one of ours.
const BUCKETS_IN_ONE: usize = 8;
/// What is told of the tail, at the full width of a page's buckets.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

pub(super) fn write(page: &mut Page, cores: &[CoreNumbers]) {
    for (at, counter) in Counter::ALL.iter().enumerate() {
        let (name, kind) = match counter.kind() {
            CounterKind::Counter => (format!("twinlog_core_{}_total", counter.name()), Kind::Counter),
            CounterKind::Gauge => (format!("twinlog_core_{}", counter.name()), Kind::Gauge),
        };
        let mut family = page.family(&name, kind, counter.help());
        for (core, numbers) in cores.iter().enumerate() {
            family.sample(&[("core", &core)], numbers.counters[at]);
        }
    }
    for (at, delay) in Delay::ALL.iter().enumerate() {
        let name = format!("twinlog_core_delay_{}_seconds", delay.name());
        let mut family = page.family(&name, Kind::Histogram, help(*delay));
        for (core, numbers) in cores.iter().enumerate() {
            let delays = &numbers.delays[at];
            let sum = delays.sum_micros as f64 / 1e6;
            family.histogram(&[("core", &core)], &cumulative(delays), sum, delays.count());
        }
    }
    let name = "twinlog_core_delay_quantile_seconds";
    let help = "Delays since the data plane started, at most 1/16 too large";
    let mut family = page.family(name, Kind::Gauge, help);
    for (at, delay) in Delay::ALL.iter().enumerate() {
        for (core, numbers) in cores.iter().enumerate() {
            for quantile in QUANTILES {
                let Some(micros) = numbers.delays[at].quantile_micros(quantile) else { continue };
                let labels: [(&str, &dyn std::fmt::Display); 3] =
                    [("core", &core), ("delay", &delay.name()), ("quantile", &quantile)];
                family.sample(&labels, micros as f64 / 1e6);
            }
        }
    }
}

fn help(delay: Delay) -> &'static str {
    match delay {
        Delay::Fetch => "From a Fetch request sent to the first byte of its response",
        Delay::Visible => "From the last byte of a batch received to the batch counted in the log end",
        Delay::Flushed => "From the last byte of a batch received to the batch on stable storage",
        Delay::Write => "From a write submitted to its completion",
    }
}

/// The ends of our buckets in seconds, and how many delays are not above each.
fn cumulative(delays: &Histogram) -> Vec<(f64, u64)> {
    let (first, last) = (bucket(FIRST_MICROS), bucket(LAST_MICROS));
    let ends = (first..=last).step_by(BUCKETS_IN_ONE).map(|start| start + BUCKETS_IN_ONE - 1);
    let (mut below, mut done) = (0, 0);
    ends.map(|end| {
        below += delays.buckets[done..=end].iter().sum::<u64>();
        done = end + 1;
        (bucket_end_micros(end) as f64 / 1e6, below)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_buckets_are_whole_buckets_of_a_page_and_lose_nothing() {
        let mut delays = Histogram::default();
        for micros in [3, 23, 24, 1_000, 16 << 20] {
            delays.buckets[bucket(micros)] += 1;
        }
        let buckets = cumulative(&delays);
        assert_eq!((buckets[0], buckets[1]), ((0.000_023, 2), (0.000_031, 3)));
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{buckets:?}");
        assert_eq!((buckets.len(), buckets.last().unwrap().1), (41, 5));
    }
}
