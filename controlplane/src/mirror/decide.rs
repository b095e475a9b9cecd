//! pure: events to records and effects, against the catalog as it will be when the earlier ones of the group are durable.
//!
//! The driver makes a `Draft` from the durable catalog, lets it take the events of a group, makes its records durable, and
//! only then uses its catalog. A draft that is dropped never happened.

mod anew;
mod follow;
mod take_up;

use crate::limits::ERROR_CHARS_MAX;
use crate::mirror::catalog::{
    Catalog, Desired, LastMirrored, MirrorFacts, Partition, Placement, Standing, StateRecord, TopicFacts, TopicSettings,
};
use crate::mirror::effect::Effect;
use crate::mirror::event::{Detail, MirrorEvent, SourceTopic};
use crate::mirror::machine::{self, Event, Refused, To};
use crate::mirror::placement::Placer;
use std::collections::{BTreeMap, BTreeSet};
use twinlog_proto::ids::Uuid;
use twinlog_proto::mirror_state::MirrorState;

/// A partition by name.
pub type PartitionKey = (String, String, i32);

/// Where new partitions may go, and where versions begin.
#[derive(Debug, Clone)]
pub struct Room {
    /// The data directories.
    pub directories: Vec<String>,
    /// Slots of the board.
    pub slots_max: u32,
    /// Where the assignment versions of a new mirror begin: the next offset of the state log. Each version takes a record at
    /// least, so a mirror that is created again is above all versions that the data plane may still know of its name.
    pub version_floor: i64,
}

/// A group of changes in the making.
#[derive(Debug)]
pub struct Draft<'a> {
    catalog: Catalog,
    room: &'a Room,
    /// Made at the first start of the group, for it looks at every partition.
    placer: Option<Placer>,
    records: Vec<StateRecord>,
    touched: BTreeMap<String, BTreeSet<(String, i32)>>,
    removed: BTreeSet<String>,
    armed: BTreeMap<PartitionKey, i16>,
}

/// What a finished draft asks for.
#[derive(Debug, Default)]
pub struct Decided {
    /// The catalog once the records are durable.
    pub catalog: Catalog,
    /// To be made durable, in this order.
    pub records: Vec<StateRecord>,
    /// Mirrors whose assignment is to be written and announced.
    pub send: BTreeSet<String>,
    /// Mirrors whose assignment is to be taken away.
    pub removed: BTreeSet<String>,
    /// Partitions to be tried again later, with the number of failures so far.
    pub armed: BTreeMap<PartitionKey, i16>,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The machine says no.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// It is about something that is not there.
    #[error("there is no such mirror, topic or partition")]
    Absent,
    /// Its directories are not ours now.
    #[error("the topic is handed over to {0}; take it back with `twinlog reclaim`")]
    HandedOver(String),
    /// All slots of the board are in use.
    #[error("all {0} slots of the board are in use; restart the data plane with more slots")]
    Full(u32),
}

impl<'a> Draft<'a> {
    /// A draft on top of the durable catalog.
    #[must_use]
    pub fn new(catalog: &Catalog, room: &'a Room) -> Self {
        Self {
            catalog: catalog.clone(),
            room,
            placer: None,
            records: Vec::new(),
            touched: BTreeMap::new(),
            removed: BTreeSet::new(),
            armed: BTreeMap::new(),
        }
    }

    /// The catalog with everything that was taken so far.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Whether nothing was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Takes one event.
    ///
    /// # Errors
    /// When it has no place; nothing changes then.
    pub fn take(&mut self, event: MirrorEvent) -> Result<(), NotTaken> {
        match event {
            MirrorEvent::Created { mirror, facts } => {
                self.removed.remove(&mirror);
                let facts = MirrorFacts { assignment_version: self.room.version_floor, ..facts };
                self.record(StateRecord::Mirror { mirror, facts: Some(facts) });
                Ok(())
            }
            MirrorEvent::Deleted { mirror } => self.delete(mirror),
            MirrorEvent::Patterns { mirror, include, exclude } => {
                let mut facts = self.catalog.mirror(&mirror).ok_or(NotTaken::Absent)?.facts.clone();
                (facts.include, facts.exclude) = (include, exclude);
                self.record(StateRecord::Mirror { mirror, facts: Some(facts) });
                Ok(())
            }
            MirrorEvent::Settings { mirror, settings } => {
                let mut facts = self.catalog.mirror(&mirror).ok_or(NotTaken::Absent)?.facts.clone();
                let before = facts.settings.clone();
                facts.configure(settings);
                // What the control plane alone follows is no reason to tell the data plane anything.
                if !before.of_data_plane().eq(facts.settings.of_data_plane()) {
                    self.touched.entry(mirror.clone()).or_default();
                }
                self.record(StateRecord::Mirror { mirror, facts: Some(facts) });
                Ok(())
            }
            MirrorEvent::Started { mirror, topic } => self.start(&mirror, &topic),
            MirrorEvent::Anew { mirror, topic } => self.begin_anew(&mirror, &topic),
            MirrorEvent::Followed { mirror, topic } => self.follow(&mirror, &topic),
            MirrorEvent::StartedUnresolved { mirror, topic } => self.start_unresolved(&mirror, &topic),
            MirrorEvent::Wanted { mirror, topic, desired, event } => self.want(&mirror, &topic, desired, event),
            MirrorEvent::Partition { mirror, topic, partition, event, detail } => match event {
                Event::SlotDiscarded => self.discarded(&mirror, &topic, partition),
                event => self.step(&mirror, &topic, partition, event, &detail),
            },
            MirrorEvent::HandedOver { mirror, topic, to } => self.hand_over(mirror, topic, to),
            MirrorEvent::TakenUp { mirror, topic, to, partitions } => self.take_up(mirror, &topic, to, partitions),
            MirrorEvent::Acl { origin, binding, present } => self.acl(origin, binding, present),
            MirrorEvent::AclGiven { mirror, binding, to } => {
                self.remember(&mirror.clone(), StateRecord::AclGiven { mirror, binding, to })
            }
            MirrorEvent::Quotas { mirror, quotas } => {
                self.remember(&mirror.clone(), StateRecord::Quotas { mirror, quotas: Some(quotas) })
            }
            MirrorEvent::GroupOffsets { mirror, group, topic, offsets } => {
                self.remember(&mirror.clone(), StateRecord::GroupOffsets { mirror, group, topic, offsets })
            }
            MirrorEvent::Destination { mirror, cluster_id } => self.destination(mirror, cluster_id),
            MirrorEvent::Position { mirror, topic, partition, last } => {
                self.catalog.partition(&mirror, &topic, partition).ok_or(NotTaken::Absent)?;
                self.record(StateRecord::LastMirrored { mirror, topic, partition, last });
                Ok(())
            }
            MirrorEvent::WriterEpoch { mirror, topic, partition, epoch } => {
                self.writer_epoch(mirror, topic, partition, epoch)
            }
            MirrorEvent::Configs { mirror, topic, configs } => {
                self.catalog.topic(&mirror, &topic).ok_or(NotTaken::Absent)?;
                self.record(StateRecord::Configs { mirror, topic, configs: Some(configs) });
                Ok(())
            }
        }
    }

    /// Gives the touched mirrors their next assignment version and hands everything over.
    #[must_use]
    pub fn finish(mut self) -> Decided {
        let touched = std::mem::take(&mut self.touched);
        for (mirror, partitions) in &touched {
            let Some(known) = self.catalog.mirror(mirror) else { continue };
            let mut facts = known.facts.clone();
            facts.assignment_version = self.next_version(mirror);
            let version = facts.assignment_version;
            self.record(StateRecord::Mirror { mirror: mirror.clone(), facts: Some(facts) });
            for (topic, partition) in partitions {
                let known = self.catalog.partition(mirror, topic, *partition).and_then(|p| p.placement.clone());
                let Some(mut placement) = known.filter(|placed| placed.asked_version != version) else { continue };
                placement.asked_version = version;
                let (mirror, topic) = (mirror.clone(), topic.clone());
                self.record(StateRecord::Placement {
                    mirror,
                    topic,
                    partition: *partition,
                    placement: Some(placement),
                });
            }
        }
        let send = touched.into_keys().filter(|mirror| self.catalog.mirror(mirror).is_some()).collect();
        let Self { catalog, records, removed, armed, .. } = self;
        Decided { catalog, records, send, removed, armed }
    }

    fn record(&mut self, record: StateRecord) {
        self.catalog.apply(&record);
        self.records.push(record);
    }

    fn delete(&mut self, mirror: String) -> Result<(), NotTaken> {
        let known = self.catalog.mirror(&mirror).ok_or(NotTaken::Absent)?;
        for partition in known.topics.values().flat_map(|topic| topic.partitions.values()) {
            machine::step(partition.standing.state, Event::Remove)?;
        }
        self.touched.remove(&mirror);
        self.removed.insert(mirror.clone());
        self.placer = None;
        self.record(StateRecord::Mirror { mirror, facts: None });
        Ok(())
    }

    fn start(&mut self, mirror: &str, source: &SourceTopic) -> Result<(), NotTaken> {
        let known = self.startable(mirror, &source.name)?;
        let fresh: Vec<i32> = match known.topics.get(&source.name) {
            None => (0..source.partition_count).collect(),
            Some(topic) => (0..source.partition_count)
                .filter(|index| topic.partitions.get(index).is_none_or(|known| known.placement.is_none()))
                .collect(),
        };
        let places = self.places(fresh)?;
        let facts = TopicFacts {
            id: source.id,
            desired: Desired::Mirror,
            partition_count: source.partition_count,
            settings: source.settings,
        };
        let asked_version = self.next_version(mirror);
        let (mirror, topic) = (mirror.to_owned(), source.name.clone());
        self.record(StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) });
        self.settle_in(&mirror, &topic, places, asked_version);
        for partition in 0..source.partition_count {
            let state = self.standing(&mirror, &topic, partition).state;
            let event = match state {
                MirrorState::Initializing => Event::Resolved,
                // A start is also how a person asks for another attempt.
                MirrorState::Failed => Event::Retry,
                MirrorState::Unknown | MirrorState::Stopped => Event::Start,
                _ => continue,
            };
            self.step(&mirror, &topic, partition, event, &Detail::None)?;
        }
        Ok(())
    }

    /// Partition 0 exists in every topic, so it stands for a topic that nothing else is known of.
    fn start_unresolved(&mut self, mirror: &str, topic: &str) -> Result<(), NotTaken> {
        let known = self.startable(mirror, topic)?;
        let facts = known.topics.get(topic).map_or(
            TopicFacts {
                id: Uuid::ZERO,
                desired: Desired::Mirror,
                partition_count: 0,
                settings: TopicSettings::default(),
            },
            |known| TopicFacts { desired: Desired::Mirror, ..known.facts.clone() },
        );
        let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
        self.record(StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) });
        self.step(&mirror, &topic, 0, Event::StartUnresolved, &Detail::None)
    }

    fn want(&mut self, mirror: &str, topic: &str, desired: Desired, event: Event) -> Result<(), NotTaken> {
        let known = self.catalog.topic(mirror, topic).ok_or(NotTaken::Absent)?;
        let facts = TopicFacts { desired, ..known.facts.clone() };
        let takers: Vec<i32> = known
            .partitions
            .iter()
            .filter(|(_, partition)| machine::step(partition.standing.state, event).is_ok())
            .map(|(index, _)| *index)
            .collect();
        let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
        self.record(StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) });
        for partition in takers {
            self.step(&mirror, &topic, partition, event, &Detail::None)?;
        }
        if desired == Desired::Stop {
            self.end_with_the_last(&mirror, &topic)?;
        }
        Ok(())
    }

    /// The version that `finish` gives to a mirror that is touched.
    fn next_version(&self, mirror: &str) -> i64 {
        self.catalog.mirror(mirror).map_or(0, |known| known.facts.assignment_version) + 1
    }

    fn standing(&self, mirror: &str, topic: &str, partition: i32) -> Standing {
        self.catalog.partition(mirror, topic, partition).map_or_else(Standing::default, |p| p.standing.clone())
    }

    fn step(
        &mut self,
        mirror: &str,
        topic: &str,
        partition: i32,
        event: Event,
        detail: &Detail,
    ) -> Result<(), NotTaken> {
        let topic_id = self.catalog.topic(mirror, topic).ok_or(NotTaken::Absent)?.facts.id;
        let known = self.catalog.partition(mirror, topic, partition);
        let placement = known.and_then(|p: &Partition| p.placement.clone());
        let before = self.standing(mirror, topic, partition);
        let (to, effects) = machine::step(before.state, event)?;
        let after = next_standing(&before, to, event, detail);
        if self.would_end_too_early(mirror, topic, partition, after.state) {
            return Err(Refused { state: before.state, event }.into());
        }
        let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
        if let (true, Detail::Ended(Some(last))) = (effects.contains(&Effect::PersistLastMirrored), detail) {
            let (mirror, topic) = (mirror.clone(), topic.clone());
            self.record(StateRecord::LastMirrored { mirror, topic, partition, last: *last });
        }
        if effects.contains(&Effect::Send) {
            // What failed is tried again only at a higher attempt, also when it is a stop that is wanted.
            let tries_again = before.state == MirrorState::Failed;
            if let (Some(placement), true) = (&placement, tries_again) {
                let (attempt, asked_version) = (placement.attempt.wrapping_add(1), self.next_version(&mirror));
                let placement = Some(Placement { attempt, asked_version, ..placement.clone() });
                let (mirror, topic) = (mirror.clone(), topic.clone());
                self.record(StateRecord::Placement { mirror, topic, partition, placement });
            }
            self.touched.entry(mirror.clone()).or_default().insert((topic.clone(), partition));
        }
        if effects.contains(&Effect::Arm) && after.retry_attempt > 0 {
            self.armed.insert((mirror.clone(), topic.clone(), partition), after.retry_attempt);
        }
        let without_files = after.state == MirrorState::Stopping && placement.is_none();
        if effects.contains(&Effect::Persist) {
            let (mirror, topic) = (mirror.clone(), topic.clone());
            self.record(StateRecord::Standing { mirror, topic, topic_id, partition, standing: after });
        }
        if without_files {
            // The data plane never heard of it, so nobody else will say that it has stopped.
            return self.step(&mirror, &topic, partition, Event::SlotStopped, &Detail::Ended(None));
        }
        Ok(())
    }
}

fn next_standing(before: &Standing, to: To, event: Event, detail: &Detail) -> Standing {
    let state = match to {
        To::State(state) => state,
        To::Previous if before.previous == MirrorState::Unknown => MirrorState::Preparing,
        To::Previous => before.previous,
    };
    let mut after = Standing { state, state_epoch: before.state_epoch.wrapping_add(1), ..before.clone() };
    after.by_source &= state == MirrorState::Failed;
    match (event, detail) {
        (Event::Failed, detail) => {
            let (message, retryable, attempt) = match detail {
                Detail::Failure { message, retryable } => (message.as_str(), *retryable, None),
                Detail::Verdict(message) => (message.as_str(), false, None),
                Detail::Reported { message, retryable, attempt } => (message.as_str(), *retryable, *attempt),
                Detail::None | Detail::Ended(_) => ("it failed for a reason that was not told", true, None),
            };
            if before.state != MirrorState::Failed {
                after.previous = before.state;
            }
            after.retry_attempt = match (before.retry_attempt, attempt) {
                // What a retry cannot mend stays so.
                _ if !retryable => -1,
                (-1, _) => -1,
                (_, Some(counted)) => counted.max(1),
                (failures, None) => failures.saturating_add(1),
            };
            after.by_source |= matches!(detail, Detail::Verdict(_));
            after.message = Some(message.chars().take(ERROR_CHARS_MAX).collect());
        }
        (Event::Retry, _) => {
            after = Standing { previous: MirrorState::Unknown, retry_attempt: 0, message: None, ..after };
        }
        // The count lives on until records flow, so that a bounce between two states ends.
        (Event::RetryDue | Event::SlotMirroring | Event::SlotDiscarded, _) => after.previous = MirrorState::Unknown,
        (Event::SlotProgressed, _) => after = Standing { retry_attempt: 0, message: None, ..after },
        _ => {
            after = Standing { previous: MirrorState::Unknown, retry_attempt: 0, message: None, ..after };
        }
    }
    after
}

/// Where mirroring ended, from what the board shows of a stopped partition; `None` when there is no log.
#[must_use]
pub fn ended_at(leo: i64, last_epoch: i32) -> Option<LastMirrored> {
    (leo >= 0).then_some(LastMirrored { offset: leo, epoch: last_epoch })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
