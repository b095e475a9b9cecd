//! pure: a topic that the mirror never had and that comes with its directories, from the broker that was its source once.
//!
//! It is stopped and that broker's until its directories are where they are to lie, so nothing is made in their place meanwhile.

use super::{Draft, NotTaken};
use crate::mirror::catalog::{Desired, Placement, Standing, StateRecord, TopicFacts};
use crate::mirror::event::{SourceTopic, TakenUp};
use crate::mirror::placement::Placer;
use twinlog_proto::mirror_state::MirrorState;

impl Draft<'_> {
    /// Records it.
    ///
    /// # Errors
    /// There is no such mirror, it has the topic, or the board has no slots for the partitions.
    pub(super) fn take_up(
        &mut self,
        mirror: String,
        source: &SourceTopic,
        to: String,
        partitions: Vec<TakenUp>,
    ) -> Result<(), NotTaken> {
        self.catalog.mirror(&mirror).ok_or(NotTaken::Absent)?;
        if self.catalog.owner_of(&source.name).is_some() {
            return Err(NotTaken::Absent);
        }
        let full = NotTaken::Full(self.room.slots_max);
        let placer = self.placer.get_or_insert_with(|| Placer::new(&self.catalog, &self.room.directories));
        if placer.room(self.room.slots_max) < partitions.len() {
            return Err(full);
        }
        let mut placed = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let slot = placer.place_in(&partition.directory, self.room.slots_max).map_err(|_full| full.clone())?;
            placed.push((partition, slot));
        }
        let asked_version = self.next_version(&mirror);
        self.touched.entry(mirror.clone()).or_default();
        let names = || (mirror.clone(), source.name.clone());
        let facts = TopicFacts {
            id: source.id,
            desired: Desired::Stop,
            partition_count: i32::try_from(placed.len()).unwrap_or(i32::MAX),
            settings: source.settings,
        };
        let (mirror, topic) = names();
        self.record(StateRecord::Topic { mirror, topic, facts: Some(facts) });
        for (TakenUp { partition, directory, last }, slot) in placed {
            let placement = Some(Placement { slot, directory, attempt: 0, asked_version, discard: false });
            let (mirror, topic) = names();
            self.record(StateRecord::Placement { mirror, topic, partition, placement });
            let standing = Standing { state: MirrorState::Stopped, ..Standing::default() };
            let (mirror, topic) = names();
            self.record(StateRecord::Standing { mirror, topic, topic_id: source.id, partition, standing });
            let (mirror, topic) = names();
            self.record(StateRecord::LastMirrored { mirror, topic, partition, last });
        }
        let (mirror, topic) = names();
        self.record(StateRecord::HandedOver { mirror, topic, to: Some(to) });
        Ok(())
    }
}
