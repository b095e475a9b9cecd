//! Taking an assignment over: settings, and the partitions of this core with what each is wanted to do.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use twinlog_proto::assignment::Desired;
use twinlog_proto::channel::message::Event;
use twinlog_proto::ids::is_legal_name;
use twinlog_proto::messages::assignment::{AssignedPartition, AssignedTopic, Assignment};

use super::crew::Crew;
use super::jobs;
use super::partition::{Partition, Place};
use super::plan::{Doing, Wish};
use super::settings::MirrorSettings;
use crate::disk::Disk;
use crate::log::LogRules;
use crate::wire::Transport;
use crate::wire::leaders::Endpoint;

impl<T: Transport, D: Disk> Crew<T, D> {
    /// Takes an assignment over: what it lists is driven to what it wants, what it no longer lists is let go.
    pub fn apply(self: &Rc<Self>, assignment: &Arc<Assignment>) {
        self.take_settings(assignment);
        self.state.borrow_mut().assignment = Some(Arc::clone(assignment));
        let mut listed = HashMap::new();
        for topic in &assignment.topics {
            // One name for all partitions of a topic: there may be many thousand.
            let name: Rc<str> = topic.name.as_str().into();
            for wanted in &topic.partitions {
                let ours = wanted.slot >= 0
                    && wanted.slot.cast_unsigned() % self.shared.settings.cores == self.shared.settings.number;
                if ours && let Some(partition) = self.place((&name, topic), wanted, assignment.assignment_version) {
                    listed.insert(partition.token, partition);
                }
            }
        }
        let all: Vec<_> = self.state.borrow().partitions.values().cloned().collect();
        for partition in all {
            if !listed.contains_key(&partition.token) {
                let wish = Wish { desired: Desired::Remove, ..partition.wish() };
                partition.set_wish(wish, assignment.assignment_version.cast_unsigned());
            } else if partition.have().doing == Doing::Mirroring {
                // What leaves needs no settings, of which a mirror that is gone has none.
                self.refuse_bad_settings(&partition);
            }
            self.drive(&partition);
        }
        let version = assignment.assignment_version.cast_unsigned();
        self.shared.outbox.borrow_mut().event(Event::AssignmentApplied { mirror: self.id, version });
    }

    fn take_settings(&self, assignment: &Assignment) {
        let get =
            |key: &str| assignment.settings.iter().find(|s| s.name == key).and_then(|setting| setting.value.as_deref());
        let mut state = self.state.borrow_mut();
        let (settings, bad) = match MirrorSettings::read(get) {
            Ok(settings) => (settings, None),
            Err(error) => (MirrorSettings::default(), Some(error.to_string())),
        };
        let bootstrap: Vec<_> = assignment.bootstrap_servers.iter().filter_map(|text| Endpoint::parse(text)).collect();
        let bad = bad.or_else(|| {
            bootstrap
                .is_empty()
                .then(|| format!("bootstrap.servers holds no HOST:PORT: {:?}", assignment.bootstrap_servers))
        });
        let moved = bootstrap != state.bootstrap
            || !state.settings.is_same_way(&settings)
            || (!state.cluster_id.is_empty() && state.cluster_id != assignment.source_cluster_id);
        state.cluster_id.clone_from(&assignment.source_cluster_id);
        state.bad_settings = bad;
        let asks_otherwise = *state.settings != settings;
        state.settings = Rc::new(settings);
        if moved {
            // Another way to the source: what was learned over the old one is forgotten, its connections end.
            state.bootstrap = bootstrap;
            state.moves += 1;
            state.brokers.forget();
            for port in std::mem::take(&mut state.ports).into_values() {
                port.close();
            }
            for partition in state.partitions.values() {
                partition.seat.borrow_mut().take();
            }
        } else if asks_otherwise {
            // The next request of each connection asks by them.
            for partition in state.partitions.values() {
                self.touch(partition);
            }
        }
        drop(state);
        self.refresh();
    }

    /// Finds or makes the partition; `None` when the assignment asks for something impossible.
    fn place(
        &self,
        (name, topic): (&Rc<str>, &AssignedTopic),
        wanted: &AssignedPartition,
        version: i64,
    ) -> Option<Rc<Partition<D>>> {
        let Some(desired) = Desired::from_code(wanted.desired) else {
            tracing::error!(topic = topic.name, wanted.index, wanted.desired, "the assignment wants an unknown state");
            return None;
        };
        let wish = Wish { desired, attempt: wanted.attempt, cut_to: wanted.cut_to };
        let version = version.cast_unsigned();
        let known = self.state.borrow().partitions.get(&(Rc::clone(name), wanted.index)).cloned();
        if let Some(known) = known {
            if known.wish().desired != Desired::Remove && is_same_place(&known, topic, wanted) {
                known.set_rules(rules_of(topic));
                known.set_wish(wish, version);
                return Some(known);
            }
            // Two logs on one directory would destroy it: first the old one is let go of, then this comes again.
            self.state.borrow_mut().again |= wish.desired != Desired::Remove;
            return None;
        }
        if wish.desired == Desired::Remove {
            return None;
        }
        if !is_legal_name(&topic.name) || wanted.index < 0 {
            tracing::error!(topic = topic.name, wanted.index, "the assignment names an impossible partition");
            return None;
        }
        let slots = self.shared.outbox.borrow().slots();
        let slot = wanted.slot.cast_unsigned();
        if slot >= slots {
            tracing::error!(topic = topic.name, wanted.index, "{}", jobs::no_such_slot(slot, slots));
            return None;
        }
        let place = Place {
            slot,
            topic: Rc::clone(name),
            topic_id: topic.topic_id,
            index: wanted.index,
            data_dir: PathBuf::from(&wanted.data_directory),
            rules: Cell::new(rules_of(topic)),
        };
        let key = (Rc::clone(&place.topic), place.index);
        let pause_ms = self.state.borrow().settings.fetch_pause_ms;
        let partition = self.shared.add(|token| Rc::new(Partition::new(token, place, wish, version, pause_ms)));
        self.state.borrow_mut().partitions.insert(key, Rc::clone(&partition));
        Some(partition)
    }
}

fn is_same_place<D: Disk>(known: &Partition<D>, topic: &AssignedTopic, wanted: &AssignedPartition) -> bool {
    let same_slot = known.place.slot == wanted.slot.cast_unsigned();
    let same_files = known.place.data_dir == Path::new(&wanted.data_directory);
    known.place.topic_id == topic.topic_id && same_slot && same_files
}

fn rules_of(topic: &AssignedTopic) -> LogRules {
    LogRules {
        segment_bytes: topic.segment_bytes,
        segment_ms: topic.segment_ms,
        segment_jitter_ms: topic.segment_jitter_ms,
        segment_index_bytes: topic.segment_index_bytes,
        index_interval_bytes: topic.index_interval_bytes,
        compacted: topic.compacted,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        ..LogRules::default()
    }
}
