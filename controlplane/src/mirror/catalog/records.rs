//! pure: the facts that build a mirror and its topics, in an order in which each finds what it is about.

use super::{Mirror, MirrorFacts, StateRecord, Topic};
use crate::mirror::quotas::Quotas;

impl Mirror {
    /// One that has nothing yet.
    #[must_use]
    pub fn new(facts: MirrorFacts) -> Self {
        let (topics, given_acls, group_offsets, quotas) = Default::default();
        Self { facts, topics, given_acls, group_offsets, quotas }
    }

    pub(super) fn records<'a>(&'a self, name: &'a str) -> impl Iterator<Item = StateRecord> + 'a {
        let own = StateRecord::Mirror { mirror: name.to_owned(), facts: Some(self.facts.clone()) };
        let topics = self.topics.iter().flat_map(move |(topic, facts)| facts.records(name, topic));
        let given = self.given_acls.iter().map(move |(binding, cluster_id)| StateRecord::AclGiven {
            mirror: name.to_owned(),
            binding: binding.clone(),
            to: Some(cluster_id.clone()),
        });
        let groups =
            self.group_offsets.iter().flat_map(|(group, topics)| topics.iter().map(move |topic| (group, topic)));
        let groups = groups.map(move |(group, (topic, offsets))| StateRecord::GroupOffsets {
            mirror: name.to_owned(),
            group: group.to_string(),
            topic: topic.clone(),
            offsets: Some(offsets.clone()),
        });
        let known = (*self.quotas != Quotas::default())
            .then(|| StateRecord::Quotas { mirror: name.to_owned(), quotas: Some(self.quotas.as_ref().clone()) });
        std::iter::once(own).chain(given).chain(groups).chain(known).chain(topics)
    }
}

impl Topic {
    pub(super) fn records<'a>(&'a self, mirror: &'a str, topic: &'a str) -> impl Iterator<Item = StateRecord> + 'a {
        let facts = Some(self.facts.clone());
        let own = StateRecord::Topic { mirror: mirror.to_owned(), topic: topic.to_owned(), facts };
        let partitions = self.partitions.iter().flat_map(move |(index, partition)| {
            let (mirror, topic, partition_index) = (mirror.to_owned(), topic.to_owned(), *index);
            let mut records = Vec::with_capacity(3);
            if partition.placement.is_some() {
                let (mirror, topic, placement) = (mirror.clone(), topic.clone(), partition.placement.clone());
                records.push(StateRecord::Placement { mirror, topic, partition: partition_index, placement });
            }
            if let Some(last) = partition.last_mirrored {
                let (mirror, topic) = (mirror.clone(), topic.clone());
                records.push(StateRecord::LastMirrored { mirror, topic, partition: partition_index, last });
            }
            let (topic_id, standing) = (self.facts.id, partition.standing.clone());
            records.push(StateRecord::Standing { mirror, topic, topic_id, partition: partition_index, standing });
            records
        });
        let configs = self.configs.iter().map(move |configs| {
            let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
            StateRecord::Configs { mirror, topic, configs: Some(configs.clone()) }
        });
        let handed_over = self.handed_over.iter().map(move |to| {
            let (mirror, topic) = (mirror.to_owned(), topic.to_owned());
            StateRecord::HandedOver { mirror, topic, to: Some(to.clone()) }
        });
        std::iter::once(own).chain(configs).chain(handed_over).chain(partitions)
    }
}
