//! pure: settings that hold for the source's topics without being made on them. A broker that a topic is handed over to may have other
//! defaults, by which it may delete in minutes what was mirrored: where they differ, the topic gets the source's value as its own.

use crate::mirror::topic_configs::Inherited;
use crate::sync::configs::plan::FROM_TOPIC;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// More replicas in sync than there are replicas: nobody who wants all acknowledgements could write.
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// A setting that a topic is given for its source's brokers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    /// The value that it is given.
    pub value: String,
    /// What holds at the source, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_source: Option<String>,
    /// What the destination's brokers would have said; `None` when that is not known.
    pub instead_of: Option<String>,
    /// Where the source has it from, in words.
    pub from: String,
}

/// What a topic is given besides `made`, which was made for it: `inherited` is what holds at the source, `defaults` what would hold at the
/// destination (of a node by its properties, of a running broker by DescribeConfigs), where it has so many `replicas`.
#[must_use]
pub fn carried(
    made: &BTreeMap<String, String>,
    inherited: &BTreeMap<String, Inherited>,
    defaults: &BTreeMap<String, String>,
    replicas: usize,
) -> BTreeMap<String, Carried> {
    let mut all = BTreeMap::new();
    for (name, Inherited { value, origin }) in inherited.iter().filter(|(name, _)| !made.contains_key(*name)) {
        let lowered = (name == MIN_IN_SYNC && value.parse::<usize>().is_ok_and(|wanted| wanted > replicas))
            .then(|| replicas.to_string());
        let given = lowered.clone().unwrap_or_else(|| value.clone());
        let default = defaults.get(name);
        if default.is_some_and(|default| is_same(default, &given)) && lowered.is_none() {
            continue;
        }
        let carried = Carried {
            value: given,
            at_source: lowered.map(|_| value.clone()),
            instead_of: default.cloned(),
            from: origin_in_words(*origin).to_owned(),
        };
        all.insert(name.clone(), carried);
    }
    all
}

/// A setting that many topics are given alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedSetting {
    /// Its name.
    pub name: String,
    /// What the topics are given.
    #[serde(flatten)]
    pub carried: Carried,
    /// How many topics.
    pub topics: usize,
}

impl CarriedSetting {
    /// In one sentence.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Carried { value, at_source, instead_of, from } = &self.carried;
        let instead = instead_of.as_ref().map_or_else(String::new, |other| format!(", where the node says {other}"));
        let lowered = at_source.as_ref().map_or_else(String::new, |at| format!(" {at}, lowered: there is one replica"));
        format!("{}={value} for {} topics, from {from}{lowered}{instead}", self.name, self.topics)
    }
}

/// What topics are given alike, each once.
#[must_use]
pub fn grouped(topics: impl Iterator<Item = BTreeMap<String, Carried>>) -> Vec<CarriedSetting> {
    let mut all: Vec<CarriedSetting> = Vec::new();
    for (name, carried) in topics.flatten() {
        match all.iter_mut().find(|one| one.name == name && one.carried == carried) {
            Some(one) => one.topics += 1,
            None => all.push(CarriedSetting { name, carried, topics: 1 }),
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The policies of a topic are a list, whose order does not matter.
fn is_same(one: &str, other: &str) -> bool {
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
        parts.sort();
        parts
    };
    one == other || parts(one) == parts(other)
}

fn origin_in_words(origin: i8) -> &'static str {
    // Stock brokers call some values of their files a default, such as those of log.retention.hours: no more is said than is known.
    if origin == FROM_TOPIC { "the source's topic" } else { "the source broker's default" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(pairs: &[(&str, &str, i8)]) -> BTreeMap<String, Inherited> {
        pairs
            .iter()
            .map(|(n, v, origin)| ((*n).to_owned(), Inherited { value: (*v).into(), origin: *origin }))
            .collect()
    }

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_what_differs_and_was_not_made_for_the_topic_is_carried_with_its_origin() {
        let at_source = inherited(&[
            ("retention.ms", "1", 4),
            ("segment.ms", "2", 5),
            ("segment.bytes", "3", 2),
            ("cleanup.policy", "compact,delete", 4),
            ("message.timestamp.type", "LogAppendTime", 1),
        ]);
        let defaults = values(&[("retention.ms", "9"), ("segment.ms", "2"), ("cleanup.policy", "delete, compact")]);
        let all = carried(&values(&[("segment.bytes", "8")]), &at_source, &defaults, 1);
        let told: Vec<_> =
            all.iter().map(|(name, c)| (name.as_str(), c.value.as_str(), c.instead_of.as_deref(), &*c.from)).collect();
        let expected = [
            ("message.timestamp.type", "LogAppendTime", None, "the source's topic"),
            ("retention.ms", "1", Some("9"), "the source broker's default"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn no_topic_wants_more_replicas_in_sync_than_it_has() {
        let of = |source: &str, node: &str| {
            carried(&values(&[]), &inherited(&[(MIN_IN_SYNC, source, 4)]), &values(&[(MIN_IN_SYNC, node)]), 1)
        };
        let lowered = &of("2", "1")[MIN_IN_SYNC];
        assert_eq!((lowered.value.as_str(), lowered.at_source.as_deref()), ("1", Some("2")));
        assert_eq!(of("1", "2")[MIN_IN_SYNC].value, "1");
        assert!(of("1", "1").is_empty());
    }
}
