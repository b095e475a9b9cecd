//! pure: what the source has and what is recorded of a topic's settings, to the record as it is to be and the changes.

use crate::mirror::topic_configs::{ABOUT_RECORDS, Inherited, TopicConfigs, Values, fits, has_room};
use crate::source::report::{Action, Change};
use crate::sync::filters::Filter;
use std::collections::{BTreeMap, BTreeSet};

/// Where a setting of a topic comes from when it was made on the topic, as the code of DescribeConfigs.
pub const FROM_TOPIC: i8 = 1;

/// What follows for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The record as it is to be.
    pub configs: TopicConfigs,
    /// What is different.
    pub changes: Vec<Change>,
}

/// What of the source's settings is to be followed, and what cannot be.
fn wanted(topic: &str, source: &Values, filter: &Filter) -> (Values, Vec<Change>) {
    let (mut wanted, mut refused) = (Values::new(), Vec::new());
    for (name, value) in source.iter().filter(|(name, _)| filter.passes(name)) {
        if fits(name, value) && has_room(&wanted, name) {
            wanted.insert(name.clone(), value.clone());
        } else {
            let reason = "it is longer, or there are more, than is kept of a topic's settings";
            refused.push(change(topic, &name.chars().take(249).collect::<String>(), None, None, Action::Fail, reason));
        }
    }
    (wanted, refused)
}

/// What a cluster says of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Made on the topic.
    pub own: Values,
    /// What else holds for it.
    pub others: BTreeMap<String, Inherited>,
}

/// What holds for the source's topic of what decides about records, and does not follow the source by itself.
fn inherited(source: &Told, synced: &Values, filter: &Filter) -> BTreeMap<String, Inherited> {
    let made = source.own.iter().map(|(name, value)| (name, Inherited { value: value.clone(), origin: FROM_TOPIC }));
    let others = source.others.iter().map(|(name, inherited)| (name, inherited.clone()));
    let counts = |name: &str, value: &str| {
        ABOUT_RECORDS.contains(&name)
            && !synced.contains_key(name)
            && filter.passes_unless_asked(name)
            && fits(name, value)
    };
    others
        .chain(made)
        .filter(|(name, inherited)| counts(name, &inherited.value))
        .map(|(name, inherited)| (name.clone(), inherited))
        .collect()
}

/// Brings the recorded settings in line with the source's; what was set here stays and is said.
#[must_use]
pub fn desired(topic: &str, source: &Told, filter: &Filter, known: &TopicConfigs) -> Planned {
    let (synced, mut changes) = wanted(topic, &source.own, filter);
    let inherited = inherited(source, &synced, filter);
    for (name, now) in &inherited {
        // What is seen for the first time is no change of anything.
        if let Some(before) = known.inherited.get(name).filter(|before| before.value != now.value) {
            let reason = "holds by the source's brokers; given to the topic when it is handed over";
            changes.push(change(topic, name, Some(&before.value), Some(&now.value), Action::Set, reason));
        }
    }
    for name in names(&synced, &known.synced) {
        let (from, to) = (known.synced.get(name), synced.get(name));
        if from != to {
            let action = if to.is_some() { Action::Set } else { Action::Remove };
            changes.push(change(topic, name, from, to, action, ""));
        }
    }
    for (name, value) in &known.overrides {
        if synced.get(name) != Some(value) {
            changes.push(change(topic, name, Some(value), synced.get(name), Action::Keep, "set here"));
        }
    }
    let configs = TopicConfigs { synced, inherited, ..known.clone() };
    Planned { configs, changes }
}

/// What is to be done at the destination about one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AtDestination {
    /// Settings to make, and to take away (`None`).
    pub alter: BTreeMap<String, Option<String>>,
    /// What we will have given to it then.
    pub written: Values,
    /// What is different.
    pub changes: Vec<Change>,
}

/// Brings the destination's own settings of a topic in line: only names that the topic is to have or that we gave before. A value that
/// is no longer the one that we gave was made there by somebody else, and is kept.
#[must_use]
pub fn destination(topic: &str, configs: &TopicConfigs, there: &Values) -> AtDestination {
    let wanted: Values = configs.effective().into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    let mut plan = AtDestination { written: configs.written.clone(), ..AtDestination::default() };
    let resource = format!("destination:{topic}");
    for name in names(&wanted, &configs.written) {
        let (want, have, last) = (wanted.get(name), there.get(name), configs.written.get(name));
        if want == have {
            match want {
                Some(value) => drop(plan.written.insert(name.clone(), value.clone())),
                None => drop(plan.written.remove(name)),
            }
        } else if last.is_some() && have != last {
            let reason = "changed at the destination since it was given";
            plan.changes.push(change(&resource, name, have, want, Action::Keep, reason));
        } else {
            let action = if want.is_some() { Action::Set } else { Action::Remove };
            plan.changes.push(change(&resource, name, have, want, action, ""));
            plan.alter.insert(name.clone(), want.cloned());
            match want {
                Some(value) => drop(plan.written.insert(name.clone(), value.clone())),
                None => drop(plan.written.remove(name)),
            }
        }
    }
    plan
}

fn names<'v>(one: &'v Values, other: &'v Values) -> BTreeSet<&'v String> {
    one.keys().chain(other.keys()).collect()
}

fn change(topic: &str, name: &str, from: Option<&String>, to: Option<&String>, action: Action, reason: &str) -> Change {
    Change {
        resource: topic.to_owned(),
        key: name.to_owned(),
        from: from.cloned(),
        to: to.cloned(),
        action,
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::settings::Settings;
    use crate::sync::filters;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn own(own: Values) -> Told {
        Told { own, ..Told::default() }
    }

    #[test]
    fn what_holds_by_the_sources_brokers_is_kept_with_its_origin_and_gives_way_to_the_topics_own() {
        let from = |value: &str, origin| Inherited { value: value.into(), origin };
        let others = |pairs: &[(&str, &str, i8)]| -> BTreeMap<String, Inherited> {
            pairs.iter().map(|(name, value, origin)| ((*name).to_owned(), from(value, *origin))).collect()
        };
        let brokers = others(&[("retention.ms", "10", 4), ("segment.ms", "5", 5), ("flush.ms", "1", 4)]);
        let mut source = Told { own: values(&[("message.timestamp.type", "LogAppendTime")]), others: brokers };
        let planned = desired("t", &source, &filter(), &TopicConfigs::default());
        let mut wanted = others(&[("retention.ms", "10", 4), ("segment.ms", "5", 5)]);
        wanted.insert("message.timestamp.type".into(), from("LogAppendTime", 1));
        assert_eq!((&planned.configs.inherited, planned.changes.len()), (&wanted, 0));
        assert!(planned.configs.synced.is_empty() && planned.configs.effective().is_empty(), "it is no override");
        // The topic gets a value of its own, and loses it again.
        source.others.remove("retention.ms");
        source.own.insert("retention.ms".into(), "10".into());
        let made = desired("t", &source, &filter(), &planned.configs);
        assert!(!made.configs.inherited.contains_key("retention.ms"), "{made:?}");
        assert_eq!(made.configs.synced, values(&[("retention.ms", "10")]));
        source.own.remove("retention.ms");
        source.others.insert("retention.ms".into(), from("20", 2));
        let lost = desired("t", &source, &filter(), &made.configs);
        assert_eq!((lost.configs.inherited["retention.ms"].origin, lost.configs.synced.len()), (2, 0));
        source.others.insert("retention.ms".into(), from("30", 2));
        assert_eq!(told(&desired("t", &source, &filter(), &lost.configs).changes)[0].2, Some("20"));
        let given = filters::properties(&[(filters::PROPERTIES_EXCLUDE.to_owned(), "message.*".to_owned())].into());
        let left_out = desired("t", &source, &given.unwrap(), &TopicConfigs::default());
        assert!(!left_out.configs.inherited.contains_key("message.timestamp.type"));
    }

    fn filter() -> Filter {
        filters::properties(&Settings::new()).unwrap()
    }

    fn told(changes: &[Change]) -> Vec<(&str, Action, Option<&str>, Option<&str>)> {
        changes.iter().map(|c| (c.key.as_str(), c.action, c.from.as_deref(), c.to.as_deref())).collect()
    }

    #[test]
    fn what_the_source_adds_changes_and_removes_is_followed_but_not_what_is_excluded() {
        let known = TopicConfigs { synced: values(&[("a", "1"), ("b", "1"), ("c", "1")]), ..Default::default() };
        let source = values(&[("b", "2"), ("c", "1"), ("d", "1"), ("min.insync.replicas", "2")]);
        let planned = desired("t", &own(source.clone()), &filter(), &known);
        assert_eq!(planned.configs.synced, values(&[("b", "2"), ("c", "1"), ("d", "1")]));
        let expected = [
            ("a", Action::Remove, Some("1"), None),
            ("b", Action::Set, Some("1"), Some("2")),
            ("d", Action::Set, None, Some("1")),
        ];
        assert_eq!(told(&planned.changes), expected);
        assert!(desired("t", &own(source.clone()), &filter(), &planned.configs).changes.is_empty(), "once is enough");
    }

    #[test]
    fn what_was_set_here_stays_and_is_said_while_it_differs() {
        let known = TopicConfigs {
            synced: values(&[("a", "1")]),
            overrides: values(&[("a", "9"), ("b", "3")]),
            ..Default::default()
        };
        let planned = desired("t", &own(values(&[("a", "2"), ("b", "3")])), &filter(), &known);
        assert_eq!(planned.configs.overrides, known.overrides);
        assert_eq!(planned.configs.effective()["a"], "9");
        let kept: Vec<_> = planned.changes.iter().filter(|c| c.action == Action::Keep).collect();
        assert_eq!((kept.len(), kept[0].key.as_str(), kept[0].to.as_deref()), (1, "a", Some("2")));
    }

    #[test]
    fn a_value_that_is_too_long_or_one_too_many_fails_alone() {
        let mut source = values(&[("a", "1")]);
        source.insert("long".into(), "x".repeat(40_000));
        let planned = desired("t", &own(source.clone()), &filter(), &TopicConfigs::default());
        assert_eq!(planned.configs.synced, values(&[("a", "1")]));
        let many: Values = (0..1_000).map(|n| (format!("n{n:04}"), "v".to_owned())).collect();
        let planned = desired("t", &own(many), &filter(), &TopicConfigs::default());
        let failed = planned.changes.iter().filter(|c| c.action == Action::Fail).count();
        assert_eq!(failed, 1_000 - crate::limits::TOPIC_CONFIGS_MAX);
    }

    #[test]
    fn the_destination_gets_what_differs_and_nothing_else_of_it_is_touched() {
        let configs = TopicConfigs {
            synced: values(&[("a", "1"), ("b", "2"), ("same", "5")]),
            overrides: values(&[("b", "9")]),
            written: values(&[("old", "3")]),
            ..TopicConfigs::default()
        };
        let plan = destination("t", &configs, &values(&[("a", "0"), ("old", "3"), ("same", "5"), ("theirs", "7")]));
        let alter = [("a", Some("1")), ("b", Some("9")), ("old", None)];
        let alter = alter.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        assert_eq!(plan.alter, BTreeMap::from(alter));
        assert_eq!(plan.written, values(&[("a", "1"), ("b", "9"), ("same", "5")]));
    }

    #[test]
    fn what_somebody_made_there_since_is_kept_until_it_is_what_the_source_has() {
        let configs = TopicConfigs {
            synced: values(&[("a", "2"), ("gone", "1")]),
            written: values(&[("a", "1"), ("gone", "1")]),
            ..TopicConfigs::default()
        };
        let plan = destination("t", &configs, &values(&[("a", "8")]));
        assert!(plan.alter.is_empty() && plan.written == configs.written, "{plan:?}");
        assert_eq!(told(&plan.changes).len(), 2);
        assert!(plan.changes.iter().all(|change| change.action == Action::Keep));
        let back = destination("t", &configs, &values(&[("a", "2"), ("gone", "1")]));
        assert!(back.alter.is_empty() && back.changes.is_empty());
        assert_eq!(back.written["a"], "2", "and is ours again");
    }
}
