//! pure: the settings that a mirrored topic is to have: what the source has, what an administrator set here, and what we last gave
//! to a running destination.

use crate::limits::{SETTING_CHARS_MAX, TOPIC_CONFIGS_MAX};
use std::collections::BTreeMap;
use twinlog_proto::messages::state_log::{TopicConfigEntry, TopicConfigsValue};

/// Settings of a topic, by name.
pub type Values = BTreeMap<String, String>;

/// What a record of type 105 says about a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicConfigs {
    /// What the source has, after the filters.
    pub synced: Values,
    /// What was set here, which wins.
    pub overrides: Values,
    /// What we last gave to the destination.
    pub written: Values,
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
        }
    }

    /// From the value of a record.
    #[must_use]
    pub fn from_value(value: TopicConfigsValue) -> Self {
        let values = |entries: Vec<TopicConfigEntry>| entries.into_iter().map(|e| (e.name, e.value)).collect();
        Self { synced: values(value.synced), overrides: values(value.overrides), written: values(value.written) }
    }
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
    fn what_is_set_here_wins_and_a_record_keeps_all_three() {
        let configs = TopicConfigs {
            synced: values(&[("retention.ms", "1"), ("segment.ms", "2")]),
            overrides: values(&[("retention.ms", "9")]),
            written: values(&[("segment.ms", "3")]),
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
