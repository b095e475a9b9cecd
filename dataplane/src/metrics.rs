//! What one core counts, and the delays it measures; plain numbers in the core's page of the shared region.
//!
//! A [`Metrics`] belongs to one core's thread and is cloned freely within it. Adding costs a load and a store, no locked
//! instruction and no allocation; anyone may read the page meanwhile (`proto::channel::page::PageReader`).

use crate::allocator::thread_allocations;
use core::fmt;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use twinlog_proto::channel::layout::PAGE_WORDS;
use twinlog_proto::channel::page::PageWriter;
pub use twinlog_proto::channel::page::{Counter, Delay};
use twinlog_proto::channel::region::Window;

/// The counters, gauges and delay histograms of one core.
#[derive(Clone)]
pub struct Metrics {
    page: Rc<Page>,
}

/// Where a page lies.
enum Page {
    Shared(PageWriter<Window>),
    Own(PageWriter<Box<[AtomicU64]>>),
}

impl Metrics {
    /// Counts into a core's page of the region.
    #[must_use]
    pub fn shared(page: PageWriter<Window>) -> Self {
        Self { page: Rc::new(Page::Shared(page)) }
    }

    /// Counts into memory of its own: for tests and for the offline commands, which have no region.
    #[must_use]
    pub fn detached() -> Self {
        let words = (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { page: Rc::new(Page::Own(PageWriter::new(words))) }
    }

    /// Adds to a counter.
    #[inline]
    pub fn add(&self, counter: Counter, more: u64) {
        match &*self.page {
            Page::Shared(page) => page.add(counter, more),
            Page::Own(page) => page.add(counter, more),
        }
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, gauge: Counter, value: u64) {
        match &*self.page {
            Page::Shared(page) => page.set(gauge, value),
            Page::Own(page) => page.set(gauge, value),
        }
    }

    /// The value now.
    #[inline]
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        match &*self.page {
            Page::Shared(page) => page.get(counter),
            Page::Own(page) => page.get(counter),
        }
    }

    /// Counts one delay.
    #[inline]
    pub fn delay(&self, delay: Delay, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        match &*self.page {
            Page::Shared(page) => page.delay(delay, micros),
            Page::Own(page) => page.delay(delay, micros),
        }
    }

    /// Shows how many heap allocations the calling thread has made. Called by the core once per turn.
    #[inline]
    pub fn publish_allocations(&self) {
        self.set(Counter::Allocations, thread_allocations());
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for counter in Counter::ALL.iter().filter(|counter| self.get(**counter) != 0) {
            map.entry(&counter.name(), &self.get(*counter));
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_into_the_same_page() {
        let metrics = Metrics::detached();
        metrics.clone().add(Counter::Writes, 2);
        metrics.add(Counter::Writes, 3);
        assert_eq!(metrics.get(Counter::Writes), 5);
        assert_eq!(format!("{metrics:?}"), r#"{"writes": 5}"#);
    }
}
