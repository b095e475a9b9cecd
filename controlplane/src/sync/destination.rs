//! Which cluster the running destination is. Settings and offsets are remembered as given to one cluster; when another one answers at
//! `destination.bootstrap.servers`, they are forgotten before it is given anything: nothing there is ours yet. What the former has stays
//! there. Access rules are remembered with their cluster (`acls/plan.rs`).
//!
//! Called at the begin of a sync, under the lock of the mirror's memory, so that no other sync of the mirror is at work.

use crate::driver::Driver;
use crate::limits::{CLUSTER_ID_BYTES_MAX, SYNC_FORGET_PER_STEP};
use crate::mirror::catalog::Catalog;
use crate::mirror::event::MirrorEvent;
use crate::mirror::topic_configs::{TopicConfigs, Values};
use crate::source::report::Report;
use crate::sync::book::Memory;
use crate::sync::cluster::Cluster;
use tracing::info;
use twinlog_proto::error_code::ErrorCode;

/// What the destination is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// What is remembered as given was given to it.
    Same,
    /// Nothing was given to it. In a dry run the memory of the former destination is still there, and does not count.
    Other,
}

/// Asks the destination who it is, and forgets what another one was given; `None` when that failed, which the report says.
pub async fn meet(
    driver: &Driver,
    mirror: &str,
    cluster: &mut Cluster,
    memory: &mut Memory,
    dry_run: bool,
    report: &mut Report,
) -> Option<Known> {
    let told = match cluster.metadata(&[]).await {
        // One that no cluster has is as good as none.
        Ok(metadata) => metadata.cluster_id.filter(|id| id.len() <= CLUSTER_ID_BYTES_MAX).unwrap_or_default(),
        Err(cause) => {
            report.fail_at("the destination", &cause);
            return None;
        }
    };
    let noted = driver.read(|catalog, _| catalog.mirror(mirror).map(|m| m.facts.destination_cluster_id.clone()));
    let Some(noted) = noted else {
        report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone");
        return None;
    };
    if noted == told {
        return Some(Known::Same);
    }
    // Older versions noted no cluster: what they gave was given to the one that is there.
    let known = if noted.is_empty() { Known::Same } else { Known::Other };
    if dry_run {
        return Some(known);
    }
    if known == Known::Other {
        info!(mirror, now = told, before = noted, "another destination; what the one before was given stays there");
        memory.offsets.clear();
    }
    loop {
        let (mirror, told) = (mirror.to_owned(), told.clone());
        match driver.change(move |catalog, _| step(catalog, &mirror, &told, known)).await {
            Ok(true) => {}
            Ok(false) => return Some(known),
            Err(cause) => {
                report.fail(ErrorCode::KAFKA_STORAGE_ERROR, cause.to_string());
                return None;
            }
        }
    }
}

/// Some of what is to be forgotten, and in the last step who the destination is: a crash in between begins again. Tells whether there is more.
fn step(catalog: &Catalog, mirror: &str, cluster_id: &str, known: Known) -> (Vec<MirrorEvent>, bool) {
    let Some(facts) = catalog.mirror(mirror) else { return (Vec::new(), false) };
    let name = || mirror.to_owned();
    let mut some = Vec::new();
    if known == Known::Other {
        let groups =
            facts.group_offsets.iter().flat_map(|(group, topics)| topics.keys().map(move |topic| (group, topic)));
        let groups = groups.map(|(group, topic)| {
            let (group, topic) = (group.to_string(), topic.clone());
            MirrorEvent::GroupOffsets { mirror: name(), group, topic, offsets: None }
        });
        let given = facts.topics.iter().filter_map(|(topic, facts)| {
            let configs = facts.configs.as_ref().filter(|configs| !configs.written.is_empty())?;
            let configs = TopicConfigs { written: Values::new(), ..configs.clone() };
            Some(MirrorEvent::Configs { mirror: name(), topic: topic.clone(), configs })
        });
        some.extend(groups.chain(given).take(SYNC_FORGET_PER_STEP));
    }
    let more = some.len() == SYNC_FORGET_PER_STEP;
    if !more {
        some.push(MirrorEvent::Destination { mirror: name(), cluster_id: cluster_id.to_owned() });
    }
    (some, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Desired, MirrorFacts, StateRecord, TopicFacts};
    use crate::mirror::group_offsets::Written;
    use std::collections::BTreeMap;
    use twinlog_proto::ids::Uuid;

    /// Two topics, one of which has a setting that the destination was given; and offsets of some groups.
    fn world(groups: usize) -> Catalog {
        let mut catalog = Catalog::default();
        let facts = MirrorFacts { destination_cluster_id: "former".into(), ..MirrorFacts::default() };
        catalog.apply(&StateRecord::Mirror { mirror: "m".into(), facts: Some(facts) });
        for (topic, written) in [("given", Values::from([("retention.ms".into(), "1".into())])), ("not", Values::new())]
        {
            let (mirror, topic) = ("m".to_owned(), topic.to_owned());
            let (desired, partition_count, settings) = (Desired::Mirror, 1, Default::default());
            let facts = Some(TopicFacts { id: Uuid::ZERO, desired, partition_count, settings });
            catalog.apply(&StateRecord::Topic { mirror: mirror.clone(), topic: topic.clone(), facts });
            let synced = Values::from([("retention.ms".into(), "2".into())]);
            let configs = Some(TopicConfigs { synced, written, ..TopicConfigs::default() });
            catalog.apply(&StateRecord::Configs { mirror, topic, configs });
        }
        for group in 0..groups {
            let offsets = Some(BTreeMap::from([(0, Written::at(5))]));
            let (mirror, group, topic) = ("m".to_owned(), format!("g{group}"), "given".to_owned());
            catalog.apply(&StateRecord::GroupOffsets { mirror, group, topic, offsets });
        }
        catalog
    }

    #[test]
    fn what_a_former_destination_was_given_is_forgotten_and_what_the_source_has_is_not() {
        let (events, more) = step(&world(2), "m", "new", Known::Other);
        let kinds: Vec<&str> = events
            .iter()
            .map(|event| match event {
                MirrorEvent::GroupOffsets { offsets: None, .. } => "offsets",
                MirrorEvent::Configs { configs, topic, .. } if topic == "given" => {
                    assert!(configs.written.is_empty() && configs.synced.len() == 1, "{configs:?}");
                    "settings"
                }
                MirrorEvent::Destination { cluster_id, .. } if cluster_id == "new" => "noted",
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((kinds.as_slice(), more), (&["offsets", "offsets", "settings", "noted"][..], false));
    }

    #[test]
    fn the_new_destination_is_noted_with_the_last_of_what_is_forgotten() {
        let (events, more) = step(&world(SYNC_FORGET_PER_STEP + 1), "m", "new", Known::Other);
        assert_eq!((events.len(), more), (SYNC_FORGET_PER_STEP, true));
        assert!(!events.iter().any(|event| matches!(event, MirrorEvent::Destination { .. })), "a crash begins again");
    }

    #[test]
    fn a_destination_that_was_never_noted_keeps_what_it_was_given() {
        let (events, more) = step(&world(2), "m", "first", Known::Same);
        assert!(matches!(&events[..], [MirrorEvent::Destination { .. }]) && !more, "{events:?}");
        assert_eq!(step(&Catalog::default(), "m", "first", Known::Other), (Vec::new(), false), "a mirror that is gone");
    }
}
