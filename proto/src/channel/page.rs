//! A core's page: counters, gauges and delay histograms that anyone may read while the core runs.
//!
//! Each word has one writer, the core, which loads and stores it without a lock prefix. A reader gets numbers that were true at
//! some time of late, each for itself. Delays are counted in microseconds into buckets of 1/16 relative width.

use super::layout::{COUNTERS_WORDS, HISTOGRAM_BUCKETS, HISTOGRAM_WORDS, HISTOGRAMS, PAGE_WORDS};
use super::sync::{AtomicU64, Ordering};
use core::ops::Deref;

/// Whether a number only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows from 0 at the start of the data plane.
    Counter,
    /// Goes up and down.
    Gauge,
}

macro_rules! counters {
    ($($name:ident: $kind:ident $text:literal, $help:literal;)*) => {
        /// The numbers of a core's page.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $help] $name,)* }

        impl Counter {
            /// All of them, in the order of their words.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Name in metrics, without prefix.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it counts, for people.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }

            /// Counter or gauge.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }
        }
    };
}

counters! {
    Turns: Counter "turns", "Turns of the core's loop";
    FetchRequests: Counter "fetch_requests", "Fetch requests sent to the source";
    FetchResponses: Counter "fetch_responses", "Fetch responses received from the source";
    ReceivedBytes: Counter "received_bytes", "Bytes received from the source";
    Batches: Counter "batches", "Record batches mirrored";
    MirroredBytes: Counter "mirrored_bytes", "Bytes of record batches mirrored";
    RefetchedBytes: Counter "refetched_bytes", "Bytes received that had to be thrown away and fetched again";
    ChecksumFailures: Counter "checksum_failures", "Batches received whose checksum did not match";
    Writes: Counter "writes", "Writes to log files";
    WriteBytes: Counter "write_bytes", "Bytes written to log files, rewritten tail blocks included";
    StagedAppends: Counter "staged_appends", "Runs of batches that were copied into a staging buffer before the write";
    Fsyncs: Counter "fsyncs", "Syncs of files and directories";
    SegmentsRolled: Counter "segments_rolled", "Segments closed because a new one began";
    SegmentsDeleted: Counter "segments_deleted", "Segments deleted because the source's log start passed them";
    CutBytes: Counter "cut_bytes", "Bytes cut from local logs by recovery or alignment";
    BufferWaits: Counter "buffer_waits", "Times that a fetch waited for a free buffer";
    AppendWaits: Counter "append_waits", "Times that an append waited for an earlier write";
    Allocations: Counter "allocations", "Heap allocations made by the core's thread";
    Connects: Counter "connects", "Connections made to source brokers";
    ConnectFailures: Counter "connect_failures", "Connections that could not be made or were lost";
    LeaderMoves: Counter "leader_moves", "Partitions moved to another source broker";
    Fences: Counter "fences", "Times that a new leader epoch had to be learned";
    Gaps: Counter "gaps", "Ranges that the source deleted before they were mirrored";
    FaultsRetry: Counter "faults_retry", "Faults after which the same was tried again";
    FaultsPartition: Counter "faults_partition", "Faults that stopped a partition";
    FaultsCore: Counter "faults_core", "Faults that stopped a core";
    Recoveries: Counter "recoveries", "Logs opened that needed recovery";
    OrdersTaken: Counter "orders_taken", "Orders taken from the control plane";
    OrdersRefused: Counter "orders_refused", "Orders that no working control plane sends";
    RingsBroken: Counter "rings_broken", "Looks at a ring whose positions or stamps others had written over";
    BoardRepairs: Counter "board_repairs", "Slots, headers and pages of counters in the shared memory that others had written over and that were put right";
    EventsSent: Counter "events_sent", "Events sent to the control plane";
    EventsDropped: Counter "events_dropped", "Events dropped because the control plane did not take them";
    Partitions: Gauge "partitions", "Partitions of this core";
    Connections: Gauge "connections", "Open connections to source brokers";
    BuffersFree: Gauge "buffers_free", "Free receive buffers";
    UnflushedBytes: Gauge "unflushed_bytes", "Bytes mirrored that are not known to be on stable storage";
}

/// The delays that a core measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Delay {
    /// From a Fetch request sent to the first byte of its response.
    Fetch = 0,
    /// From the last byte of a batch received to the batch counted in the LEO.
    Visible = 1,
    /// From the last byte of a batch received to the batch on stable storage.
    Flushed = 2,
    /// From a write submitted to its completion.
    Write = 3,
}

impl Delay {
    /// All of them, in the order of their histograms.
    pub const ALL: [Self; HISTOGRAMS] = [Self::Fetch, Self::Visible, Self::Flushed, Self::Write];

    /// Name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Visible => "visible",
            Self::Flushed => "flushed",
            Self::Write => "write",
        }
    }
}

/// The writing end; the core that owns the page has the only one.
#[derive(Debug)]
pub struct PageWriter<W> {
    words: W,
}

impl<W: Deref<Target = [AtomicU64]>> PageWriter<W> {
    /// A writer over the words of a page.
    ///
    /// # Panics
    /// When `words` has another length than a page.
    pub fn new(words: W) -> Self {
        assert_eq!(words.len(), PAGE_WORDS, "a page has one length");
        Self { words }
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, more: u64) {
        bump(&self.words[counter as usize], more);
    }

    /// Sets a gauge, or a counter that is kept elsewhere.
    #[inline]
    pub fn set(&self, counter: Counter, value: u64) {
        self.words[counter as usize].store(value, Ordering::Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.words[counter as usize].load(Ordering::Relaxed)
    }

    /// Counts one delay of so many microseconds.
    #[inline]
    pub fn delay(&self, delay: Delay, micros: u64) {
        let words = histogram_words(&self.words, delay);
        bump(&words[SUM_AT], micros);
        if micros > words[LARGEST_AT].load(Ordering::Relaxed) {
            words[LARGEST_AT].store(micros, Ordering::Relaxed);
        }
        bump(&words[BUCKETS_AT + bucket(micros)], 1);
    }
}

/// The reading end.
#[derive(Debug)]
pub struct PageReader<W> {
    words: W,
}

impl<W: Deref<Target = [AtomicU64]>> PageReader<W> {
    /// A reader over the words of a page.
    ///
    /// # Panics
    /// When `words` has another length than a page.
    pub fn new(words: W) -> Self {
        assert_eq!(words.len(), PAGE_WORDS, "a page has one length");
        Self { words }
    }

    /// The value now.
    pub fn get(&self, counter: Counter) -> u64 {
        self.words[counter as usize].load(Ordering::Relaxed)
    }

    /// The delays counted so far.
    pub fn delays(&self, delay: Delay) -> Histogram {
        let words = histogram_words(&self.words, delay);
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Histogram {
            sum_micros: load(&words[SUM_AT]),
            largest_micros: load(&words[LARGEST_AT]),
            buckets: words[BUCKETS_AT..].iter().map(load).collect(),
        }
    }
}

/// Shows a page that its core keeps for itself in another one, which others can reach, and notices what they wrote there.
#[derive(Debug)]
pub struct PageShow<F, T> {
    from: F,
    to: T,
    shown: Vec<u64>,
}

impl<F: Deref<Target = [AtomicU64]>, T: Deref<Target = [AtomicU64]>> PageShow<F, T> {
    /// Shows `from` in `to`, both of [`PAGE_WORDS`]; `to` belongs to the core alone, and what it holds counts as shown.
    pub fn new(from: F, to: T) -> Self {
        let shown = to.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        Self { from, to, shown }
    }

    /// Shows the numbers as they are now; false when the page did not hold what was shown last. Some microseconds.
    pub fn show(&mut self) -> bool {
        let mut whole = true;
        for ((to, shown), from) in self.to.iter().zip(&mut self.shown).zip(self.from.iter()) {
            whole &= to.load(Ordering::Relaxed) == *shown;
            *shown = from.load(Ordering::Relaxed);
            to.store(*shown, Ordering::Relaxed);
        }
        whole
    }
}

/// A copy of a histogram. The largest delay counts from the start of the data plane, also after [`Histogram::since`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Sum of all delays.
    pub sum_micros: u64,
    /// The largest delay.
    pub largest_micros: u64,
    /// Delays per bucket; [`bucket_end_micros`] says where each ends.
    pub buckets: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { sum_micros: 0, largest_micros: 0, buckets: vec![0; HISTOGRAM_BUCKETS] }
    }
}

impl Histogram {
    /// Delays counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, more| sum.saturating_add(*more))
    }

    /// The delay that a share of `quantile` (0.0 to 1.0) of all delays does not exceed, in microseconds, at most 1/16 too large;
    /// `None` when nothing was counted.
    #[must_use]
    pub fn quantile_micros(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (quantile.clamp(0.0, 1.0) * count as f64).ceil().max(1.0) as u64;
        let mut passed = 0_u64;
        for (at, more) in self.buckets.iter().enumerate() {
            passed = passed.saturating_add(*more);
            if passed >= wanted {
                return Some(bucket_end_micros(at).min(self.largest_micros));
            }
        }
        None
    }

    /// What was counted since `earlier`, a copy of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let buckets = self.buckets.iter().zip(&earlier.buckets).map(|(now, then)| now.saturating_sub(*then)).collect();
        Self {
            sum_micros: self.sum_micros.saturating_sub(earlier.sum_micros),
            largest_micros: self.largest_micros,
            buckets,
        }
    }

    /// Adds another core's histogram to this one.
    pub fn merge(&mut self, other: &Self) {
        self.sum_micros = self.sum_micros.saturating_add(other.sum_micros);
        self.largest_micros = self.largest_micros.max(other.largest_micros);
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
    }
}

/// The bucket that counts a delay; the last one takes everything above, from about 32 hours on.
#[must_use]
pub fn bucket(micros: u64) -> usize {
    if micros < SUB_BUCKETS {
        return micros as usize;
    }
    let shift = micros.ilog2() - SUB_BITS;
    let within = (micros >> shift) - SUB_BUCKETS;
    ((u64::from(shift) + 1) * SUB_BUCKETS + within).min(HISTOGRAM_BUCKETS as u64 - 1) as usize
}

/// The largest delay that a bucket counts, in microseconds; `u64::MAX` for the last one.
#[must_use]
pub fn bucket_end_micros(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket;
    }
    if bucket >= HISTOGRAM_BUCKETS as u64 - 1 {
        return u64::MAX;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((SUB_BUCKETS + bucket % SUB_BUCKETS + 1) << shift) - 1
}

const SUB_BITS: u32 = 4;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
const SUM_AT: usize = 0;
const LARGEST_AT: usize = 1;
const BUCKETS_AT: usize = 2;
const _: () = assert!(Counter::ALL.len() <= COUNTERS_WORDS, "every counter has a word");

fn histogram_words(page: &[AtomicU64], delay: Delay) -> &[AtomicU64] {
    let start = COUNTERS_WORDS + delay as usize * HISTOGRAM_WORDS;
    &page[start..start + HISTOGRAM_WORDS]
}

#[inline]
fn bump(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap_and_are_narrow() {
        let mut start = 0;
        for at in 0..HISTOGRAM_BUCKETS - 1 {
            let end = bucket_end_micros(at);
            assert_eq!((bucket(start), bucket(end)), (at, at));
            assert!(end - start <= start / 16);
            start = end + 1;
        }
        assert!(start > 30 * 3_600_000_000, "the last bucket begins beyond any delay that matters");
        assert_eq!(bucket(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }

    #[test]
    fn a_reader_sees_counters_and_delays_of_the_writer() {
        let words: Vec<_> = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let (writer, reader) = (PageWriter::new(&words[..]), PageReader::new(&words[..]));
        writer.add(Counter::Turns, 3);
        writer.add(Counter::Turns, 4);
        writer.set(Counter::UnflushedBytes, 9);
        assert_eq!((reader.get(Counter::Turns), reader.get(Counter::UnflushedBytes)), (7, 9));
        let before = reader.delays(Delay::Flushed);
        assert_eq!(before.quantile_micros(0.5), None);
        for micros in 1..=1000 {
            writer.delay(Delay::Flushed, micros);
        }
        let delays = reader.delays(Delay::Flushed);
        assert_eq!((delays.count(), delays.sum_micros, delays.largest_micros), (1000, 500_500, 1000));
        assert!((500..=532).contains(&delays.quantile_micros(0.5).unwrap()));
        assert_eq!(delays.quantile_micros(1.0), Some(1000));
        assert_eq!(delays.since(&before).count(), 1000);
        assert_eq!(reader.delays(Delay::Write).count(), 0);
    }

    #[test]
    fn what_others_wrote_into_a_shown_page_is_noticed_once_and_gone() {
        let page = || (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (kept, shared) = (page(), page());
        let writer = PageWriter::new(&kept[..]);
        let mut show = PageShow::new(&kept[..], &shared[..]);
        writer.add(Counter::Turns, 3);
        assert!(show.show());
        let reader = PageReader::new(&shared[..]);
        assert_eq!(reader.get(Counter::Turns), 3);
        shared[Counter::Turns as usize].store(99, Ordering::Relaxed);
        writer.add(Counter::Turns, 1);
        assert!(!show.show() && show.show());
        assert_eq!(reader.get(Counter::Turns), 4);
    }

    #[test]
    fn names_of_counters_differ() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
    }
}
