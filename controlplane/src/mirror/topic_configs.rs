//! pure: the settings that a mirrored topic is to have: what the source has, what an administrator set here, and what we last gave
//! to a running destination.

use crate::limits::{SETTING_CHARS_MAX, TOPIC_CONFIGS_MAX};
use std::collections::BTreeMap;
use twinlog_proto::messages::state_log::{InheritedConfigEntry, TopicConfigEntry, TopicConfigsValue};

/// Settings of a topic, by name.
pub type Values = BTreeMap<String, String>;

/// The settings that decide what becomes of a topic's records, sorted: what the source's brokers say of them counts for a topic that says
/// nothing itself, and another cluster's brokers may say otherwise.
pub const ABOUT_RECORDS: [&str; 17] = [
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
];

/// A value that holds for the source's topic without being among those that follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherited {
    /// The value.
    pub value: String,
    /// Where the source has it from, as the code of DescribeConfigs.
    pub origin: i8,
}

/// What a record of type 105 says about a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicConfigs {
    /// What the source has, after the filters.
    pub synced: Values,
    /// What was set here, which wins.
    pub overrides: Values,
    /// What we last gave to the destination.
    pub written: Values,
    /// What else holds at the source of [`ABOUT_RECORDS`]: by its brokers' defaults, or made on the topic and kept out by the standing list
    /// of what belongs to a cluster. Given to a broker that the topic is handed over to.
    pub inherited: BTreeMap<String, Inherited>,
}

impl TopicConfigs {
    /// The settings that the topic is to have.
    #[must_use]
    pub fn effective(&self) -> BTreeMap<&str, &str> {
        let all = self.synced.iter().chain(&self.overrides);
        all.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// As the value of a record.
    #[must_use]
    pub fn to_value(&self) -> TopicConfigsValue {
        let entries = |values: &Values| {
            let entry =
                |(name, value): (&String, &String)| TopicConfigEntry { name: name.clone(), value: value.clone() };
            values.iter().map(entry).collect()
        };
        TopicConfigsValue {
            synced: entries(&self.synced),
            overrides: entries(&self.overrides),
            written: entries(&self.written),
            inherited: self.inherited.iter().map(entry_of).collect(),
        }
    }

    /// From the value of a record.
    #[must_use]
    pub fn from_value(value: TopicConfigsValue) -> Self {
        let values = |entries: Vec<TopicConfigEntry>| entries.into_iter().map(|e| (e.name, e.value)).collect();
        let inherited = |e: InheritedConfigEntry| (e.name, Inherited { value: e.value, origin: e.origin });
        Self {
            synced: values(value.synced),
            overrides: values(value.overrides),
            written: values(value.written),
            inherited: value.inherited.into_iter().map(inherited).collect(),
        }
    }
}

fn entry_of((name, inherited): (&String, &Inherited)) -> InheritedConfigEntry {
    InheritedConfigEntry { name: name.clone(), value: inherited.value.clone(), origin: inherited.origin }
}

/// Whether a setting is short enough to be kept.
#[must_use]
pub fn fits(name: &str, value: &str) -> bool {
    !name.is_empty() && name.len() <= 249 && value.len() <= SETTING_CHARS_MAX
}

/// Whether one more setting fits to these.
#[must_use]
pub fn has_room(values: &Values, name: &str) -> bool {
    values.len() < TOPIC_CONFIGS_MAX || values.contains_key(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Catalog, Desired, MirrorFacts, StateRecord, TopicFacts, TopicSettings};
    use crate::statelog::record;
    use twinlog_proto::ids::Uuid;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_set_here_wins_and_a_record_keeps_all_of_them() {
        let configs = TopicConfigs {
            synced: values(&[("retention.ms", "1"), ("segment.ms", "2")]),
            overrides: values(&[("retention.ms", "9")]),
            written: values(&[("segment.ms", "3")]),
            inherited: BTreeMap::from([("segment.bytes".to_owned(), Inherited { value: "7".into(), origin: 4 })]),
        };
        assert_eq!(configs.effective(), BTreeMap::from([("retention.ms", "9"), ("segment.ms", "2")]));
        assert_eq!(TopicConfigs::from_value(configs.to_value()), configs);
    }

    #[test]
    fn settings_of_a_topic_survive_replay_and_snapshot_and_go_with_the_topic() {
        let configs = TopicConfigs { overrides: values(&[("retention.ms", "9")]), ..TopicConfigs::default() };
        let (mirror, topic) = ("m".to_owned(), "t".to_owned());
        let facts = TopicFacts {
            id: Uuid::ZERO,
            desired: Desired::Mirror,
            partition_count: 0,
            settings: TopicSettings::default(),
        };
        let told = [
            StateRecord::Mirror { mirror: mirror.clone(), facts: Some(MirrorFacts::default()) },
            StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts: Some(facts) },
            StateRecord::Configs { mirror: mirror.clone(), topic: topic.clone(), configs: Some(configs.clone()) },
        ];
        let replayed = |records: &[StateRecord]| {
            let mut catalog = Catalog::default();
            for found in record::encode_all(records) {
                record::decode(&found).unwrap().iter().for_each(|fact| catalog.apply(fact));
            }
            catalog
        };
        let mut catalog = replayed(&told);
        assert_eq!(catalog.topic("m", "t").unwrap().configs, Some(configs));
        let snapshot: Vec<StateRecord> = catalog.records().collect();
        assert_eq!(replayed(&snapshot), catalog);
        catalog.apply(&StateRecord::Configs { mirror, topic, configs: None });
        assert_eq!(catalog.topic("m", "t").unwrap().configs, None);
    }
}
