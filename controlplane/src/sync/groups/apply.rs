//! Reads where groups stand at the source and commits it at a running destination, some groups at a time.

use crate::driver::Driver;
use crate::limits::SYNC_GROUPS_PER_STEP;
use crate::mirror::catalog::{Catalog, Desired};
use crate::mirror::group_offsets::Written;
use crate::mirror::settings::destination_servers;
use crate::plane::view::View;
use crate::source::report::{Action, Change, Report};
use crate::sync::book::{LastWritten, Memory};
use crate::sync::cluster::Cluster;
use crate::sync::destination::{Known, meet};
use crate::sync::filters::{self, Filter};
use crate::sync::groups::listing::{self, Form, Group};
use crate::sync::groups::memory::Remembered;
use crate::sync::groups::plan::{Bounds, Offsets, Verdict, decide};
use crate::sync::groups::{commit, offsets, share};
use std::collections::BTreeMap;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::mirror_state::MirrorState;

/// The partitions whose offsets are synced.
pub type Flowing = BTreeMap<String, BTreeMap<i32, Bounds>>;

const FULL: &str = "more offsets than are remembered; narrow mirror.groups.include";
const ACTIVE: &str = "the group is active at the destination";
/// Topics in one question for leader epochs.
const TOPICS_PER_QUESTION: usize = 1_000;

/// What one sync works with.
struct Work<'a> {
    source: &'a mut Cluster,
    destination: Cluster,
    flowing: Flowing,
    /// The destination's groups.
    there: BTreeMap<String, Group>,
    memory: Remembered<'a>,
    dry_run: bool,
}

/// Syncs the offsets of a mirror's groups.
pub async fn run(
    driver: &Driver,
    mirror: &str,
    source: &mut Cluster,
    memory: &mut Memory,
    dry_run: bool,
    report: &mut Report,
) {
    let Some(settings) = driver.read(|catalog, _| catalog.mirror(mirror).map(|m| m.facts.settings.clone())) else {
        return report.fail(ErrorCode::UNKNOWN_CLUSTER_MIRROR, "the mirror is gone");
    };
    let servers = destination_servers(&settings);
    if servers.is_empty() {
        report.note = Some("the destination is a standby: offsets come with the mirrored internal topics".to_owned());
        return;
    }
    let filter = match filters::groups(&settings) {
        Ok(filter) => filter,
        Err(bad) => return report.fail(ErrorCode::INVALID_CONFIG, bad.to_string()),
    };
    let flowing = driver.read(|catalog, view| flowing(catalog, view, mirror));
    if flowing.is_empty() {
        report.note = Some("no topic is mirrored now".to_owned());
        return;
    }
    let mut destination = Cluster::at(servers);
    let mut nothing = LastWritten::new();
    let memory = match meet(driver, mirror, &mut destination, memory, dry_run, report).await {
        Some(Known::Other) if dry_run => Remembered::nothing(driver, mirror, &mut nothing),
        Some(_) => Remembered::of(driver, mirror, &mut memory.offsets),
        None => return,
    };
    let mut work = Work { source, destination, flowing, there: BTreeMap::new(), memory, dry_run };
    if work.prepare(report).await.is_some() {
        work.sync(&filter, report).await;
    }
}

/// The partitions that are mirrored and neither paused nor stopped, as far as the board shows their logs.
fn flowing(catalog: &Catalog, view: &View<'_>, mirror: &str) -> Flowing {
    let mut flowing = Flowing::new();
    let Some(known) = catalog.mirror(mirror) else { return flowing };
    for (name, topic) in &known.topics {
        if topic.facts.desired != Desired::Mirror || name.starts_with("__") {
            continue;
        }
        for index in topic.partitions.keys() {
            let at_rest = matches!(
                view.state(topic, *index),
                MirrorState::Pausing | MirrorState::Paused | MirrorState::Stopping | MirrorState::Stopped
            );
            let Some(seen) = view.progress(topic, *index).filter(|seen| !at_rest && seen.leo >= 0) else { continue };
            let bounds = Bounds {
                log_start: seen.log_start.max(0),
                end: seen.leo,
                last_epoch: seen.last_epoch,
                epoch_there: -1,
            };
            flowing.entry(name.clone()).or_default().insert(*index, bounds);
        }
    }
    flowing
}

impl Work<'_> {
    /// Learns both clusters; `None` when that failed, which the report says.
    async fn prepare(&mut self, report: &mut Report) -> Option<()> {
        if let Err(cause) = self.source.metadata(&[]).await {
            report.fail_at("the source", &cause);
            return None;
        }
        if let Err(cause) = self.learn_epochs(report).await {
            report.fail_at("the destination", &cause);
            return None;
        }
        let (there, failures) = listing::groups(&mut self.destination, true).await;
        if let Some(cause) = failures.first() {
            // Whoever is active there would not be seen.
            report.fail_at("the groups of the destination are not known", cause);
            return None;
        }
        self.there = there;
        Some(())
    }

    /// Leaves out what the destination does not have, and notes the leader epochs of the rest.
    async fn learn_epochs(&mut self, report: &mut Report) -> Result<(), crate::source::SourceError> {
        let names: Vec<String> = self.flowing.keys().cloned().collect();
        let mut epochs: BTreeMap<(String, i32), i32> = BTreeMap::new();
        for some in names.chunks(TOPICS_PER_QUESTION) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            for topic in self.destination.metadata(&some).await?.topics {
                let Some(name) = topic.name.filter(|_| topic.error_code == 0) else { continue };
                for p in topic.partitions {
                    epochs.insert((name.clone(), p.partition_index), p.leader_epoch);
                }
            }
        }
        for (name, partitions) in &mut self.flowing {
            partitions.retain(|index, bounds| match epochs.get(&(name.clone(), *index)) {
                Some(epoch) => {
                    bounds.epoch_there = *epoch;
                    true
                }
                None => false,
            });
            if partitions.is_empty() {
                report.add(change("*", name, (None, None), Action::Keep, "the destination has no such topic"));
            }
        }
        self.flowing.retain(|_, partitions| !partitions.is_empty());
        Ok(())
    }

    async fn sync(&mut self, filter: &Filter, report: &mut Report) {
        let (groups, failures) = listing::groups(self.source, false).await;
        for cause in &failures {
            report.fail_at("the source", cause);
        }
        if failures.is_empty() && !self.dry_run {
            let forgotten = self.memory.forget(|group| groups.contains_key(group)).await;
            if let Err(why) = forgotten {
                return report.fail(ErrorCode::KAFKA_STORAGE_ERROR, why);
            }
        }
        let mut by_broker: BTreeMap<(bool, i32), Vec<String>> = BTreeMap::new();
        for (name, group) in groups.into_iter().filter(|(name, g)| g.form != Form::Other && filter.passes(name)) {
            by_broker.entry((group.form == Form::Share, group.coordinator)).or_default().push(name);
        }
        for ((share, broker), names) in by_broker {
            let form = if share { Form::Share } else { Form::Consumer };
            for some in names.chunks(SYNC_GROUPS_PER_STEP) {
                if let Err(cause) = self.step(form, broker, some, report).await {
                    report.fail_at("offsets", &cause);
                }
            }
        }
    }

    /// Some groups of one broker of the source, from question to commit.
    async fn step(
        &mut self,
        form: Form,
        broker: i32,
        names: &[String],
        report: &mut Report,
    ) -> Result<(), crate::source::SourceError> {
        let flowing = &self.flowing;
        let wanted = |topic: &str, partition: i32| flowing.get(topic).is_some_and(|p| p.contains_key(&partition));
        let at_source = match form {
            Form::Share => share::fetch(self.source, broker, names, &wanted).await?,
            Form::Consumer | Form::Other => offsets::fetch(self.source, broker, names, &wanted).await?,
        };
        let mut ours: BTreeMap<String, Offsets> = BTreeMap::new();
        for (group, found) in at_source {
            match found {
                Ok(offsets) if offsets.is_empty() => {}
                Ok(offsets) => drop(ours.insert(group, offsets)),
                Err(code) => report.add(refused(&group, &format!("the source: {code}"))),
            }
        }
        let mut by_coordinator: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for group in ours.keys() {
            if let Some(known) = self.there.get(group).filter(|known| known.form == form) {
                by_coordinator.entry(known.coordinator).or_default().push(group.clone());
            }
        }
        let mut theirs = offsets::Found::new();
        for (coordinator, groups) in by_coordinator {
            theirs.extend(match form {
                Form::Share => share::fetch(&mut self.destination, coordinator, &groups, &wanted).await?,
                Form::Consumer | Form::Other => {
                    offsets::fetch(&mut self.destination, coordinator, &groups, &wanted).await?
                }
            });
        }
        let mut commits = BTreeMap::new();
        for (group, offsets) in ours {
            let here = match theirs.remove(&group) {
                Some(Err(code)) => {
                    report.add(refused(&group, &format!("the destination: {code}")));
                    continue;
                }
                Some(Ok(here)) => here,
                None => Offsets::new(),
            };
            let due = self.decide(form, &group, &offsets, &here, report);
            if !due.is_empty() {
                commits.insert(group, due);
            }
        }
        if self.dry_run {
            return Ok(());
        }
        // Before it is committed: what a crash leaves half done is known to be ours.
        if let Err(why) = self.memory.record().await {
            report.fail(ErrorCode::KAFKA_STORAGE_ERROR, why);
        } else if !commits.is_empty() {
            self.commit(form, commits, report).await?;
        }
        Ok(())
    }

    /// What of a group is to be committed; what is not, and in a dry run everything, goes into the report.
    fn decide(&mut self, form: Form, group: &str, offsets: &Offsets, here: &Offsets, report: &mut Report) -> Offsets {
        let mut due = Offsets::new();
        let closed = self.there.get(group).and_then(|known| match known {
            Group { form: there, .. } if *there != form => Some("a group of another kind has this name there"),
            Group { active: true, .. } => Some(ACTIVE),
            Group { .. } => None,
        });
        for (topic, partitions) in offsets {
            for (index, committed) in partitions {
                let Some(bounds) = self.flowing.get(topic).and_then(|known| known.get(index)) else { continue };
                let now = here.get(topic).and_then(|known| known.get(index)).map(|known| known.offset);
                let last = self.memory.last(group, topic, *index);
                let key = format!("{topic}-{index}");
                match decide(committed, bounds, now, last) {
                    Verdict::Same => self.see(group, topic, *index, now),
                    Verdict::Keep(why) => {
                        report.add(change(group, &key, (now, Some(committed.offset)), Action::Keep, why));
                    }
                    Verdict::Write(target) => match closed {
                        Some(why) => report.add(change(group, &key, (now, Some(target.offset)), Action::Keep, why)),
                        None if self.dry_run => {
                            report.add(change(group, &key, (now, Some(target.offset)), Action::Set, ""));
                        }
                        None => {
                            let written = Written { offset: target.offset, before: now };
                            if self.memory.note(group, topic, *index, written) {
                                due.entry(topic.clone()).or_default().insert(*index, target);
                            } else {
                                report.add(change(group, &key, (now, Some(target.offset)), Action::Keep, FULL));
                            }
                        }
                    },
                }
            }
        }
        due
    }

    fn see(&mut self, group: &str, topic: &str, index: i32, offset: Option<i64>) {
        if let (Some(offset), false) = (offset, self.dry_run) {
            self.memory.see(group, topic, index, offset);
            self.memory.note(group, topic, index, Written::at(offset));
        }
    }

    async fn commit(
        &mut self,
        form: Form,
        commits: BTreeMap<String, Offsets>,
        report: &mut Report,
    ) -> Result<(), crate::source::SourceError> {
        let known = |group: &String| self.there.get(group).map(|there| there.coordinator);
        let mut coordinators: BTreeMap<String, i32> =
            commits.keys().filter_map(|group| Some((group.clone(), known(group)?))).collect();
        let unknown: Vec<String> = commits.keys().filter(|group| known(group).is_none()).cloned().collect();
        coordinators.extend(commit::find(&mut self.destination, &unknown).await?);
        let targets = commits.clone();
        let outcomes = match form {
            Form::Share => self.alter(&coordinators, commits).await,
            Form::Consumer | Form::Other => commit::all(&mut self.destination, &coordinators, commits).await,
        };
        for (group, outcome) in outcomes {
            let codes = match outcome {
                Ok(codes) => codes,
                Err(why) => {
                    report.add(refused(&group, &why));
                    continue;
                }
            };
            for (topic, partitions) in targets.get(&group).into_iter().flatten() {
                for (index, target) in partitions {
                    let key = format!("{topic}-{index}");
                    let to = (None, Some(target.offset));
                    match codes.get(&(topic.clone(), *index)).copied() {
                        Some(ErrorCode::NONE) => {
                            report.add(change(&group, &key, to, Action::Set, ""));
                            self.memory.see(&group, topic, *index, target.offset);
                        }
                        Some(code) if is_active(code) => report.add(change(&group, &key, to, Action::Keep, ACTIVE)),
                        Some(code) => {
                            let why = format!("the destination refuses it: {code}");
                            report.add(change(&group, &key, to, Action::Fail, &why));
                        }
                        None => report.add(change(&group, &key, to, Action::Fail, "the destination gave no answer")),
                    }
                }
            }
        }
        Ok(())
    }
}

impl Work<'_> {
    /// Sets start offsets of share groups, one group after the other.
    async fn alter(
        &mut self,
        coordinators: &BTreeMap<String, i32>,
        commits: BTreeMap<String, Offsets>,
    ) -> BTreeMap<String, commit::Outcome> {
        let mut outcomes = BTreeMap::new();
        for (group, offsets) in commits {
            let outcome = match coordinators.get(&group) {
                None => Err("the destination names no coordinator for it".to_owned()),
                Some(broker) => share::alter(&mut self.destination, *broker, &group, &offsets)
                    .await
                    .map_err(|cause| cause.to_string()),
            };
            outcomes.insert(group, outcome);
        }
        outcomes
    }
}

/// How a coordinator says that somebody is in the group.
fn is_active(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::NON_EMPTY_GROUP
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::STALE_MEMBER_EPOCH
    )
}

fn refused(group: &str, why: &str) -> Change {
    change(group, "*", (None, None), Action::Fail, why)
}

fn change(group: &str, key: &str, (from, to): (Option<i64>, Option<i64>), action: Action, reason: &str) -> Change {
    Change {
        resource: group.to_owned(),
        key: key.to_owned(),
        from: from.map(|offset| offset.to_string()),
        to: to.map(|offset| offset.to_string()),
        action,
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    }
}
