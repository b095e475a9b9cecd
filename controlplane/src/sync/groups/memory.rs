//! What is known of the offsets that we wrote at the destination: what a run saw itself, and before that what the state log says.

use crate::driver::Driver;
use crate::limits::{GROUP_OFFSETS_MAX, GROUP_OFFSETS_PER_STEP};
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::group_offsets::{self, ByGroup, ByPartition, Written};
use crate::sync::book::LastWritten;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is about to be remembered, by group and topic.
pub type Fresh = BTreeMap<(String, String), ByPartition>;

/// The memory of one mirror during one sync.
#[derive(Debug)]
pub struct Remembered<'a> {
    driver: &'a Driver,
    mirror: &'a str,
    durable: Arc<ByGroup>,
    seen: &'a mut LastWritten,
    room: usize,
    fresh: Fresh,
}

impl<'a> Remembered<'a> {
    /// What is known now.
    #[must_use]
    pub fn of(driver: &'a Driver, mirror: &'a str, seen: &'a mut LastWritten) -> Self {
        let durable = driver.read(|catalog, _| catalog.mirror(mirror).map(|m| Arc::clone(&m.group_offsets)));
        Self::with(driver, mirror, durable.unwrap_or_default(), seen)
    }

    /// Nothing, as of a destination that was never given anything.
    #[must_use]
    pub fn nothing(driver: &'a Driver, mirror: &'a str, seen: &'a mut LastWritten) -> Self {
        Self::with(driver, mirror, Arc::default(), seen)
    }

    fn with(driver: &'a Driver, mirror: &'a str, durable: Arc<ByGroup>, seen: &'a mut LastWritten) -> Self {
        let room = GROUP_OFFSETS_MAX.saturating_sub(group_offsets::count(&durable));
        Self { driver, mirror, durable, seen, room, fresh: Fresh::new() }
    }

    /// What we wrote last.
    #[must_use]
    pub fn last(&self, group: &str, topic: &str, index: i32) -> Option<Written> {
        let seen = self.seen.get(group).and_then(|topics| topics.get(&(topic.to_owned(), index)));
        seen.map(|offset| Written::at(*offset)).or_else(|| self.recorded(group, topic, index))
    }

    /// Notes what is to be recorded; `false` when there is no room for more.
    pub fn note(&mut self, group: &str, topic: &str, index: i32, what: Written) -> bool {
        let recorded = self.recorded(group, topic, index);
        if recorded.is_some_and(|known| known.offset == what.offset && what.before.is_none()) {
            return true;
        }
        if recorded.is_none() {
            if self.room == 0 {
                return false;
            }
            self.room -= 1;
        }
        self.fresh.entry((group.to_owned(), topic.to_owned())).or_default().insert(index, what);
        true
    }

    /// The destination has this, and by us.
    pub fn see(&mut self, group: &str, topic: &str, index: i32, offset: i64) {
        self.seen.entry(group.to_owned()).or_default().insert((topic.to_owned(), index), offset);
    }

    /// Makes durable what was noted.
    ///
    /// # Errors
    /// When it could not be; then nothing may be written at the destination.
    pub async fn record(&mut self) -> Result<(), String> {
        let mut events = Vec::new();
        let mut count = 0;
        for ((group, topic), fresh) in std::mem::take(&mut self.fresh) {
            let mut all = group_offsets::get(&self.durable, &group, &topic).cloned().unwrap_or_default();
            all.extend(fresh);
            count += all.len();
            events.push(self.event(group, topic, Some(all)));
            if count >= GROUP_OFFSETS_PER_STEP {
                self.change(std::mem::take(&mut events)).await?;
                count = 0;
            }
        }
        self.change(events).await
    }

    /// Forgets groups that the source does not have any more.
    ///
    /// # Errors
    /// When that could not be made durable.
    pub async fn forget(&mut self, exists: impl Fn(&str) -> bool) -> Result<(), String> {
        self.seen.retain(|group, _| exists(group));
        let mut events = Vec::new();
        for (group, topics) in self.durable.iter().filter(|(group, _)| !exists(group)) {
            events.extend(topics.keys().map(|topic| self.event(group.to_string(), topic.clone(), None)));
        }
        self.change(events).await
    }

    fn recorded(&self, group: &str, topic: &str, index: i32) -> Option<Written> {
        group_offsets::get(&self.durable, group, topic).and_then(|known| known.get(&index)).copied()
    }

    fn event(&self, group: String, topic: String, offsets: Option<ByPartition>) -> MirrorEvent {
        MirrorEvent::GroupOffsets { mirror: self.mirror.to_owned(), group, topic, offsets }
    }

    async fn change(&mut self, events: Vec<MirrorEvent>) -> Result<(), String> {
        if events.is_empty() {
            return Ok(());
        }
        let mirror = self.mirror.to_owned();
        let changed = self.driver.change(move |catalog: &Catalog, _| {
            // A mirror of this name that was created meanwhile knows nothing of these groups.
            (if catalog.mirror(&mirror).is_some() { events } else { Vec::new() }, ())
        });
        changed.await.map_err(|cause| cause.to_string())?;
        let durable = self.driver.read(|catalog, _| catalog.mirror(self.mirror).map(|m| Arc::clone(&m.group_offsets)));
        self.durable = durable.unwrap_or_default();
        Ok(())
    }
}
