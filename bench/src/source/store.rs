//! How much of each partition is fetchable now, and the wait for more.
//!
//! The batches themselves are computed ([`Batches`]); all that the store keeps is a count per partition. The pacer raises
//! the counts, connections wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use twinlog_proto::ids::Uuid;

use super::batches::Batches;

/// A topic.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Uuid,
}

/// The topics of the embedded source, all with as many partitions. A partition's *number* counts through all topics.
#[derive(Debug)]
pub struct Store {
    topics: Vec<Topic>,
    by_name: HashMap<String, u32>,
    by_id: HashMap<Uuid, u32>,
    partitions_each: u32,
    batches: Batches,
    /// Fetchable batches by the number of the partition; they only grow.
    released: Vec<AtomicU64>,
    /// Partitions of the topics that hold data, which come first.
    with_data: u32,
    version: Mutex<u64>,
    raised: Condvar,
}

impl Store {
    /// A topic of `partitions` partitions with `batches_each` fetchable batches in each.
    #[must_use]
    pub fn new(topic: String, topic_id: Uuid, batches: Batches, partitions: u32, batches_each: u64) -> Self {
        Self::of_topics(vec![Topic { name: topic, id: topic_id }], batches, partitions, (1, batches_each))
    }

    /// Topics of `partitions_each` partitions. The first `filled.0` topics have `filled.1` fetchable batches in each
    /// partition, the others none.
    #[must_use]
    pub fn of_topics(topics: Vec<Topic>, batches: Batches, partitions_each: u32, filled: (u32, u64)) -> Self {
        let with_data = filled.0.saturating_mul(partitions_each);
        let partitions = topics.len() as u32 * partitions_each;
        let released = (0..partitions).map(|number| AtomicU64::new(if number < with_data { filled.1 } else { 0 }));
        Self {
            by_name: topics.iter().zip(0..).map(|(topic, number)| (topic.name.clone(), number)).collect(),
            by_id: topics.iter().zip(0..).map(|(topic, number)| (topic.id, number)).collect(),
            partitions_each,
            batches,
            released: released.collect(),
            with_data: with_data.min(partitions),
            topics,
            version: Mutex::new(0),
            raised: Condvar::new(),
        }
    }

    /// All topics.
    #[must_use]
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// The topic that a partition belongs to, and the partition's index in it.
    ///
    /// # Panics
    /// When there is no such partition.
    #[must_use]
    pub fn place(&self, number: u32) -> (&Topic, i32) {
        let index = number % self.partitions_each;
        (&self.topics[(number / self.partitions_each) as usize], index.cast_signed())
    }

    /// The topic of this name.
    #[must_use]
    pub fn topic_named(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name).map(|&number| &self.topics[number as usize])
    }

    /// The topic of this id.
    #[must_use]
    pub fn topic_of(&self, id: Uuid) -> Option<&Topic> {
        self.by_id.get(&id).map(|&number| &self.topics[number as usize])
    }

    /// The number of partition `index` of the topic of this name.
    #[must_use]
    pub fn number_named(&self, name: &str, index: i32) -> Option<u32> {
        self.number(*self.by_name.get(name)?, index)
    }

    /// The number of partition `index` of the topic of this id.
    #[must_use]
    pub fn number_of(&self, id: Uuid, index: i32) -> Option<u32> {
        self.number(*self.by_id.get(&id)?, index)
    }

    fn number(&self, topic: u32, index: i32) -> Option<u32> {
        let index = u32::try_from(index).ok().filter(|&index| index < self.partitions_each)?;
        Some(topic * self.partitions_each + index)
    }

    /// Partitions of each topic.
    #[must_use]
    pub fn partitions_each(&self) -> u32 {
        self.partitions_each
    }

    /// Partitions of the topics that hold data: numbers 0 to this.
    #[must_use]
    pub fn with_data(&self) -> u32 {
        self.with_data
    }

    /// The content.
    #[must_use]
    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Number of partitions of all topics.
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
    fn partitions_are_numbered_through_all_topics_and_only_the_first_hold_data() {
        let shape = Shape { seed: 1, batch_bytes: 4096, record_bytes: 100, leader_epoch: 0 };
        let topics = (0..3).map(|n| Topic { name: format!("t{n}"), id: Uuid([n + 1; 16]) }).collect();
        let store = Store::of_topics(topics, Batches::new(shape).unwrap(), 4, (1, 7));
        assert_eq!((store.partitions(), store.with_data()), (12, 4));
        assert_eq!((store.number_named("t1", 2), store.number_of(Uuid([3; 16]), 0)), (Some(6), Some(8)));
        assert_eq!((store.place(6).0.name.as_str(), store.place(6).1), ("t1", 2));
        assert_eq!(
            (store.number_named("t1", 4), store.number_named("t1", -1), store.number_named("t9", 0)),
            (None, None, None)
        );
        assert_eq!((store.released(3), store.released(4), store.released(12)), (Some(7), Some(0), None));
    }

    #[test]
    fn a_wait_without_a_raise_ends_at_its_deadline() {
        let store = store();
        assert!(!store.wait_beyond(store.version(), Instant::now() + Duration::from_millis(5)));
    }
}
