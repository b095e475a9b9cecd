//! How much of each partition is fetchable now, and the wait for more.
//!
//! The batches themselves are computed ([`Batches`]); all that the store keeps is a count per partition. The pacer raises
//! the counts, connections wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use twinlog_proto::ids::Uuid;

use super::batches::Batches;

/// The one topic of the embedded source.
#[derive(Debug)]
pub struct Store {
    topic: String,
    topic_id: Uuid,
    batches: Batches,
    /// Fetchable batches by partition; they only grow.
    released: Vec<AtomicU64>,
    version: Mutex<u64>,
    raised: Condvar,
}

impl Store {
    /// A topic of `partitions` partitions with `batches_each` fetchable batches in each.
    #[must_use]
    pub fn new(topic: String, topic_id: Uuid, batches: Batches, partitions: u32, batches_each: u64) -> Self {
        let released = (0..partitions).map(|_| AtomicU64::new(batches_each)).collect();
        Self { topic, topic_id, batches, released, version: Mutex::new(0), raised: Condvar::new() }
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's id.
    #[must_use]
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The content.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.released.len()).unwrap_or(u32::MAX)
    }

    /// Fetchable batches of a partition; none when there is no such partition.
    #[must_use]
    pub fn released(&self, partition: u32) -> Option<u64> {
        // Acquire: pairs with the release in `raise`. Nothing else is published, but a count must not run ahead of its wake.
        self.released.get(partition as usize).map(|count| count.load(Ordering::Acquire))
    }

    /// The high watermark of a partition, which is also its end; none when there is no such partition.
    #[must_use]
    pub fn high_watermark(&self, partition: u32) -> Option<i64> {
        self.released(partition).map(|count| self.batches.base_offset(count))
    }

    /// Makes one more batch of each of `partitions` fetchable and wakes every waiting fetch at once.
    ///
    /// # Panics
    /// When a partition does not exist.
    pub fn raise(&self, partitions: impl Iterator<Item = u32>) {
        for partition in partitions {
            self.released[partition as usize].fetch_add(1, Ordering::Release);
        }
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.raised.notify_all();
    }

    /// How often something was raised: take it before reading the counts, give it to [`Store::wait_beyond`].
    #[must_use]
    pub fn version(&self) -> u64 {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something was raised after `seen` was taken; false when `deadline` came first.
    #[must_use]
    pub fn wait_beyond(&self, seen: u64, deadline: Instant) -> bool {
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        while *version == seen {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            version = self.raised.wait_timeout(version, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::source::batches::Shape;

    fn store() -> Store {
        let shape = Shape { seed: 1, batch_bytes: 4096, record_bytes: 100, leader_epoch: 0 };
        Store::new("t".into(), Uuid::ZERO, Batches::new(shape).unwrap(), 3, 2)
    }

    #[test]
    fn a_raise_moves_the_named_partitions_and_ends_a_wait() {
        let store = store();
        let seen = store.version();
        store.raise([0, 2].into_iter());
        assert_eq!([0, 1, 2, 3].map(|p| store.released(p)), [Some(3), Some(2), Some(3), None]);
        assert!(store.wait_beyond(seen, Instant::now() + Duration::from_secs(5)), "the raise came before the wait");
    }

    #[test]
    fn a_wait_without_a_raise_ends_at_its_deadline() {
        let store = store();
        assert!(!store.wait_beyond(store.version(), Instant::now() + Duration::from_millis(5)));
    }
}
