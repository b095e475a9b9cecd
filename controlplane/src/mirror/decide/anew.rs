//! pure: a topic that is begun anew by a person's order: what was mirrored of it is forgotten here and thrown away there.
//!
//! In two steps, so that a plane that dies in between does neither too little nor too much. First the order: the topic, its last
//! mirrored offsets and its states are forgotten in one commit, and every partition that may have files is told to discard them.
//! Then, once the board shows that they are gone, the wish to mirror. Until then nothing flows, so that a discard which is
//! carried out twice (a data plane that starts again reads the same assignment) never meets a new record.

use super::{Draft, NotTaken};
use crate::mirror::catalog::{Desired, Placement, Standing, StateRecord, Topic, TopicFacts};
use crate::mirror::event::{Detail, SourceTopic};
use crate::mirror::machine::Event;
use twinlog_proto::mirror_state::MirrorState;

impl Draft<'_> {
    /// Forgets what is known of the topic and begins with what the source says. Partitions that the source has no longer lose
    /// their files too.
    ///
    /// # Errors
    /// There is no such mirror, a broker has the topic, or the board has no slots for the partitions.
    pub(super) fn begin_anew(&mut self, mirror: &str, source: &SourceTopic) -> Result<(), NotTaken> {
        let known = self.startable(mirror, &source.name)?.topics.get(&source.name).cloned();
        let lives = |index: i32| known.as_deref().and_then(|topic: &Topic| topic.partitions.get(&index));
        let fresh: Vec<i32> = (0..source.partition_count)
            .filter(|index| lives(*index).is_none_or(|partition| partition.placement.is_none()))
            .collect();
        let fresh = self.places(fresh)?;
        let asked_version = self.next_version(mirror);
        let of_topic = |facts| StateRecord::Topic { mirror: mirror.to_owned(), topic: source.name.clone(), facts };
        self.record(of_topic(None));
        self.record(of_topic(Some(TopicFacts {
            id: source.id,
            desired: Desired::Mirror,
            partition_count: source.partition_count,
            settings: source.settings,
        })));
        if let Some(configs) = known.as_deref().and_then(|topic| topic.configs.clone()) {
            // What was made here is the topic's by name; what the source has comes with the next sync.
            let (mirror, topic) = (mirror.to_owned(), source.name.clone());
            self.record(StateRecord::Configs { mirror, topic, configs: Some(configs) });
        }
        let old = known.iter().flat_map(|topic| &topic.partitions).filter_map(|(index, partition)| {
            let placed = partition.placement.clone()?;
            let placement =
                Placement { attempt: placed.attempt.wrapping_add(1), asked_version, discard: true, ..placed };
            Some((*index, placement, partition.standing.clone()))
        });
        let new = fresh.into_iter().map(|(index, (slot, directory))| {
            let placement = Placement { slot, directory, attempt: 0, asked_version, discard: true };
            (index, placement, lives(index).map_or_else(Standing::default, |partition| partition.standing.clone()))
        });
        for (index, placement, before) in old.chain(new).collect::<Vec<_>>() {
            self.begin_partition((mirror, source), index, placement, &before)?;
        }
        Ok(())
    }

    fn begin_partition(
        &mut self,
        (mirror, source): (&str, &SourceTopic),
        partition: i32,
        placement: Placement,
        before: &Standing,
    ) -> Result<(), NotTaken> {
        let names = || (mirror.to_owned(), source.name.clone());
        let (mirror_name, topic) = names();
        self.record(StateRecord::Placement { mirror: mirror_name, topic, partition, placement: Some(placement) });
        // Writers of another node are fenced by these numbers, so they never go back.
        let (state_epoch, writer_epoch) = (before.state_epoch, before.writer_epoch);
        let standing = Standing { state_epoch, writer_epoch, ..Standing::default() };
        let (mirror_name, topic) = names();
        self.record(StateRecord::Standing { mirror: mirror_name, topic, topic_id: source.id, partition, standing });
        self.step(mirror, &source.name, partition, Event::Start, &Detail::None)
    }

    /// The files of a partition are gone: from now on it may be mirrored. One that the source has no longer is forgotten.
    pub(super) fn discarded(&mut self, mirror: &str, topic: &str, partition: i32) -> Result<(), NotTaken> {
        let facts = &self.catalog.topic(mirror, topic).ok_or(NotTaken::Absent)?.facts;
        let is_left_over = partition >= facts.partition_count && facts.partition_count > 0;
        let placed = self.catalog.partition(mirror, topic, partition).and_then(|known| known.placement.clone());
        let placed = placed.filter(|placed| placed.discard).ok_or(NotTaken::Absent)?;
        let record = |placement| {
            let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
            StateRecord::Placement { mirror, topic, partition, placement }
        };
        if is_left_over {
            self.touched.entry(mirror.to_owned()).or_default();
            // A free slot may be given away within the same group.
            self.placer = None;
            self.record(record(None));
            return Ok(());
        }
        self.record(record(Some(Placement { discard: false, ..placed })));
        self.step(mirror, topic, partition, Event::SlotDiscarded, &Detail::None)
    }

    /// Whether the step would end a partition whose files are still to be thrown away: whoever takes a stopped one over must
    /// never lose files to an older order.
    pub(super) fn would_end_too_early(&self, mirror: &str, topic: &str, partition: i32, to: MirrorState) -> bool {
        let placed = self.catalog.partition(mirror, topic, partition).and_then(|known| known.placement.as_ref());
        to == MirrorState::Stopped && placed.is_some_and(|placed| placed.discard)
    }
}
