//! pure: what each fact changes in a catalog.

use super::{Catalog, KeyValue, MADE_HERE, Mirror, Partition, Standing, StateRecord, Topic, TopicFacts, group_offsets};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Catalog {
    /// Applies one fact. A fact about something that does not exist (any more) changes nothing.
    pub fn apply(&mut self, record: &StateRecord) {
        match record {
            StateRecord::Mirror { mirror, facts: None } => {
                self.mirrors.remove(mirror);
                if self.acls.of(mirror).is_some() {
                    Arc::make_mut(&mut self.acls).forget(mirror);
                }
            }
            StateRecord::Mirror { mirror, facts: Some(facts) } => match self.mirrors.get_mut(mirror) {
                Some(known) => Arc::make_mut(known).facts = facts.clone(),
                None => {
                    self.mirrors.insert(mirror.clone(), Arc::new(Mirror::new(facts.clone())));
                }
            },
            StateRecord::Topic { mirror, topic, facts } => self.apply_topic(mirror, topic, facts.as_ref()),
            StateRecord::Standing { mirror, topic, partition, standing, .. } => {
                self.with_partition(mirror, topic, *partition, |p| p.standing = standing.clone());
            }
            StateRecord::LastMirrored { mirror, topic, partition, last } => {
                self.with_partition(mirror, topic, *partition, |p| p.last_mirrored = Some(*last));
            }
            StateRecord::Placement { mirror, topic, partition, placement } => match placement {
                None => self.with_topic(mirror, topic, |topic| drop(topic.partitions.remove(partition))),
                Some(_) => self.with_partition(mirror, topic, *partition, |p| p.placement.clone_from(placement)),
            },
            StateRecord::Configs { mirror, topic, configs } => {
                self.with_topic(mirror, topic, |topic| topic.configs.clone_from(configs));
            }
            StateRecord::Quotas { mirror, quotas } => {
                let Some(mirror) = self.mirrors.get_mut(mirror) else { return };
                Arc::make_mut(mirror).quotas = Arc::new(quotas.clone().unwrap_or_default());
            }
            StateRecord::HandedOver { mirror, topic, to } => {
                self.with_topic(mirror, topic, |topic| topic.handed_over.clone_from(to));
            }
            StateRecord::AclGiven { mirror, binding, to } => {
                let Some(mirror) = self.mirrors.get_mut(mirror) else { return };
                let given = Arc::make_mut(&mut Arc::make_mut(mirror).given_acls);
                match to {
                    Some(cluster_id) => given.insert(binding.clone(), cluster_id.clone()),
                    None => given.remove(binding),
                };
            }
            StateRecord::GroupOffsets { mirror, group, topic, offsets } => {
                let Some(mirror) = self.mirrors.get_mut(mirror) else { return };
                let known = Arc::make_mut(&mut Arc::make_mut(mirror).group_offsets);
                group_offsets::set(known, group, topic, offsets.as_ref());
            }
            StateRecord::Acl { origin, binding, present } => {
                if origin == MADE_HERE || self.mirrors.contains_key(origin) {
                    Arc::make_mut(&mut self.acls).set(origin, binding, *present);
                }
            }
            StateRecord::Foreign(KeyValue { key, value: Some(value) }) => {
                self.foreign.insert(key.clone(), value.clone());
            }
            StateRecord::Foreign(KeyValue { key, value: None }) => {
                self.foreign.remove(key);
            }
        }
    }

    fn apply_topic(&mut self, mirror: &str, topic: &str, facts: Option<&TopicFacts>) {
        let Some(mirror) = self.mirrors.get_mut(mirror) else { return };
        let topics = &mut Arc::make_mut(mirror).topics;
        let Some(facts) = facts else {
            topics.remove(topic);
            return;
        };
        match topics.get_mut(topic) {
            Some(known) => Arc::make_mut(known).facts = facts.clone(),
            None => {
                let (facts, partitions) = (facts.clone(), BTreeMap::new());
                let fresh = Topic { facts, configs: None, handed_over: None, partitions };
                topics.insert(topic.to_owned(), Arc::new(fresh));
            }
        }
    }

    fn with_partition(&mut self, mirror: &str, topic: &str, partition: i32, change: impl FnOnce(&mut Partition)) {
        let fresh = || Partition { standing: Standing::default(), placement: None, last_mirrored: None };
        self.with_topic(mirror, topic, |topic| change(topic.partitions.entry(partition).or_insert_with(fresh)));
    }

    fn with_topic(&mut self, mirror: &str, topic: &str, change: impl FnOnce(&mut Topic)) {
        let Some(mirror) = self.mirrors.get_mut(mirror) else { return };
        let Some(topic) = Arc::make_mut(mirror).topics.get_mut(topic) else { return };
        change(Arc::make_mut(topic));
    }
}
