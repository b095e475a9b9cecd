//! pure: what we wrote for groups at a running destination, so that only that is ever moved.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What we wrote for one partition of a group. It is remembered before it is committed, so until that is known to have happened the
/// destination may have what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What we wrote, or were about to.
    pub offset: i64,
    /// What was there until then; `None` for nothing, and when `offset` was seen there.
    pub before: Option<i64>,
}

/// By partition of a topic.
pub type ByPartition = BTreeMap<i32, Written>;
/// By group and topic. A clone shares the groups.
pub type ByGroup = BTreeMap<Arc<str>, Arc<BTreeMap<String, ByPartition>>>;

impl Written {
    /// An offset that was seen there.
    #[must_use]
    pub fn at(offset: i64) -> Self {
        Self { offset, before: None }
    }

    /// Whether what the destination has is ours, or what we were about to replace.
    #[must_use]
    pub fn explains(self, here: i64) -> bool {
        self.offset == here || self.before == Some(here)
    }
}

/// What is remembered of a topic of a group.
#[must_use]
pub fn get<'a>(all: &'a ByGroup, group: &str, topic: &str) -> Option<&'a ByPartition> {
    all.get(group)?.get(topic)
}

/// Remembers, or forgets, a topic of a group.
pub fn set(all: &mut ByGroup, group: &str, topic: &str, offsets: Option<&ByPartition>) {
    match offsets {
        Some(offsets) => {
            if !all.contains_key(group) {
                all.insert(Arc::from(group), Arc::default());
            }
            let Some(topics) = all.get_mut(group) else { return };
            Arc::make_mut(topics).insert(topic.to_owned(), offsets.clone());
        }
        None => {
            let Some(topics) = all.get_mut(group) else { return };
            Arc::make_mut(topics).remove(topic);
            if topics.is_empty() {
                all.remove(group);
            }
        }
    }
}

/// How many offsets are remembered.
#[must_use]
pub fn count(all: &ByGroup) -> usize {
    all.values().flat_map(|topics| topics.values()).map(BTreeMap::len).sum()
}
