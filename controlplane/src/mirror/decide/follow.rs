//! pure: places for new partitions, what a draft makes of a topic that has changed at its source, and what is remembered besides.

use super::{Draft, NotTaken};
use crate::mirror::acls::MADE_HERE;
use crate::mirror::catalog::{Desired, Mirror, MirrorFacts, Placement, Standing, StateRecord, TopicFacts};
use crate::mirror::event::{Detail, SourceTopic};
use crate::mirror::internal;
use crate::mirror::machine::Event;
use crate::mirror::placement::Placer;
use twinlog_proto::security::acl::AclBinding;

/// Partitions with their slots and directories.
pub(super) type Places = Vec<(i32, (u32, String))>;

impl Draft<'_> {
    /// Takes over what the source says now: partitions that were added start, the others are left as they are.
    pub(super) fn follow(&mut self, mirror: &str, source: &SourceTopic) -> Result<(), NotTaken> {
        let known = self.catalog.topic(mirror, &source.name).ok_or(NotTaken::Absent)?;
        if known.facts.id != source.id || known.facts.desired == Desired::Stop {
            return Err(NotTaken::Absent);
        }
        let grows = known.facts.desired == Desired::Mirror && source.partition_count > known.facts.partition_count;
        let partition_count = if grows { source.partition_count } else { known.facts.partition_count };
        let facts = TopicFacts { partition_count, settings: source.settings, ..known.facts.clone() };
        let fresh: Vec<i32> = (0..partition_count).filter(|index| !known.partitions.contains_key(index)).collect();
        let places = self.places(fresh.clone())?;
        let asked_version = self.next_version(mirror);
        let (mirror, topic) = (mirror.to_owned(), source.name.clone());
        self.touched.entry(mirror.clone()).or_default();
        self.record(StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) });
        self.settle_in(&mirror, &topic, places, asked_version);
        for partition in fresh {
            self.step(&mirror, &topic, partition, Event::Start, &Detail::None)?;
        }
        Ok(())
    }

    /// Records what is remembered of a destination, as long as the mirror is there.
    pub(super) fn remember(&mut self, mirror: &str, record: StateRecord) -> Result<(), NotTaken> {
        self.catalog.mirror(mirror).ok_or(NotTaken::Absent)?;
        self.record(record);
        Ok(())
    }

    /// Records which cluster the running destination of a mirror is.
    ///
    /// # Errors
    /// There is no such mirror.
    pub(super) fn destination(&mut self, mirror: String, cluster_id: String) -> Result<(), NotTaken> {
        let facts = self.catalog.mirror(&mirror).ok_or(NotTaken::Absent)?.facts.clone();
        let facts = Some(MirrorFacts { destination_cluster_id: cluster_id, ..facts });
        self.record(StateRecord::Mirror { mirror, facts });
        Ok(())
    }

    /// Records an access rule that comes or goes, unless it stands so already.
    pub(super) fn acl(&mut self, origin: String, binding: AclBinding, present: bool) -> Result<(), NotTaken> {
        if origin != MADE_HERE && self.catalog.mirror(&origin).is_none() {
            return Err(NotTaken::Absent);
        }
        if self.catalog.acls().of(&origin).is_some_and(|acls| acls.contains(&binding)) != present {
            self.record(StateRecord::Acl { origin, binding, present });
        }
        Ok(())
    }

    /// With the last of a mirror's topics its internal ones stop too: nobody but a standby of these topics needs them, and a mirror
    /// can be deleted when all are stopped.
    pub(super) fn end_with_the_last(&mut self, mirror: &str, stopped: &str) -> Result<(), NotTaken> {
        let Some(known) = self.catalog.mirror(mirror).filter(|known| !internal::has_topics(known)) else {
            return Ok(());
        };
        let flows = |name: &&str| known.topics.get(*name).is_some_and(|topic| topic.facts.desired != Desired::Stop);
        let left: Vec<&str> = internal::FOLLOWED.into_iter().filter(|name| *name != stopped).filter(flows).collect();
        for topic in left {
            self.want(mirror, topic, Desired::Stop, Event::Stop)?;
        }
        Ok(())
    }

    /// The mirror, when `topic` may start: what a broker has is not ours to write to.
    pub(super) fn startable(&self, mirror: &str, topic: &str) -> Result<&Mirror, NotTaken> {
        let known = self.catalog.mirror(mirror).ok_or(NotTaken::Absent)?;
        match known.topics.get(topic).and_then(|topic| topic.handed_over.clone()) {
            Some(to) => Err(NotTaken::HandedOver(to)),
            None => Ok(known),
        }
    }

    /// Records who has the directories of a topic; what stands so already changes nothing.
    pub(super) fn hand_over(&mut self, mirror: String, topic: String, to: Option<String>) -> Result<(), NotTaken> {
        let known = self.catalog.topic(&mirror, &topic).ok_or(NotTaken::Absent)?;
        if known.handed_over != to {
            self.record(StateRecord::HandedOver { mirror, topic, to });
        }
        Ok(())
    }

    /// Records that another node wrote states of a partition at this leader epoch.
    pub(super) fn writer_epoch(
        &mut self,
        mirror: String,
        topic: String,
        partition: i32,
        epoch: i32,
    ) -> Result<(), NotTaken> {
        let topic_id = self.catalog.topic(&mirror, &topic).ok_or(NotTaken::Absent)?.facts.id;
        let known = self.catalog.partition(&mirror, &topic, partition).ok_or(NotTaken::Absent)?;
        let standing = Standing { writer_epoch: epoch.max(known.standing.writer_epoch), ..known.standing.clone() };
        self.record(StateRecord::Standing { mirror, topic, topic_id, partition, standing });
        Ok(())
    }

    /// Places for these partitions, or none for any of them.
    pub(super) fn places(&mut self, partitions: Vec<i32>) -> Result<Places, NotTaken> {
        let full = NotTaken::Full(self.room.slots_max);
        let placer = self.placer.get_or_insert_with(|| Placer::new(&self.catalog, &self.room.directories));
        if placer.room(self.room.slots_max) < partitions.len() {
            return Err(full);
        }
        let mut places = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let place = placer.place(self.room.slots_max).map_err(|_full| full.clone())?;
            places.push((partition, place));
        }
        Ok(places)
    }

    /// Records the places of new partitions.
    pub(super) fn settle_in(&mut self, mirror: &str, topic: &str, places: Places, asked_version: i64) {
        for (partition, (slot, directory)) in places {
            let placement = Some(Placement { slot, directory, attempt: 0, asked_version, discard: false });
            let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
            self.record(StateRecord::Placement { mirror, topic, partition, placement });
        }
    }
}
