//! Handing topics over to a broker that runs and goes on running: copies are made beside its log directory, restamped with leader epoch 0,
//! renamed into it, and taken by the broker when it is told to make topics of these names. The mirror's own files stay as they are.
//!
//! The same rules as for any hand-over: everything is judged before anything is changed, the last mirrored offsets are recorded first, the
//! control plane knows whose the topics are before a directory is renamed, and each step may be repeated.

mod back;
pub mod broker;
mod copies;
mod create;
mod groups;
mod ids;
pub mod judge;
pub mod progress;
mod registration;
pub mod report;
mod served;

use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::facts::{Facts, Node};
use crate::handover::journal::{self, Acl, Journal};
use crate::handover::preflight::{self, Finding, Preflight};
use crate::handover::promote::{self, HandOver, Say, absolute, work};
use crate::handover::{control, survey};
use crate::mirror::internal;
use crate::random;
use crate::steps;
pub use back::take_back;
use broker::Broker;
use judge::Destination;
use progress::{Adopted, Adoption, Step};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the internal topics are looked at that are waited for.
const POLL: Duration = Duration::from_millis(100);

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// What any hand-over is asked.
    pub promote: promote::Order,
    /// Where the broker is, as HOST:PORT.
    pub address: String,
    /// The log directory that takes the topics.
    pub log_dir: PathBuf,
    /// Where copies are made; `None` beside the log directory.
    pub stage: Option<PathBuf>,
}

/// An adoption under way.
#[derive(Debug)]
pub struct Adopting {
    order: Order,
    /// The journal.
    pub journal: Journal,
    /// What it says of the adoption.
    pub adoption: Adoption,
}

/// What became of the beginning.
#[derive(Debug)]
pub enum Begun {
    /// It goes on.
    Under(Box<Adopting>),
    /// Something blocks; nothing has changed.
    Blocked(Box<Preflight>),
}

/// What was looked at.
struct Looked {
    facts: Facts,
    broker: Broker,
    judged: Preflight,
}

/// Looks and judges; changes nothing.
///
/// # Errors
/// When the control plane or the broker does not answer.
pub fn preflight(order: &Order) -> Result<Preflight, Failure> {
    Ok(look(order)?.judged)
}

fn look(order: &Order) -> Result<Looked, Failure> {
    let data = promote::data_dirs(&order.promote)?;
    let stage = order.stage.as_deref();
    let (mut client, broker) = broker::look(&order.address, &order.log_dir, &data, stage, &order.promote.state)?;
    let mut facts = promote::look(&mut control::connect(&order.promote.control)?, &order.promote, &node(&broker))?;
    let left = std::mem::take(&mut facts.left).len();
    let own: Vec<String> = own(&facts).map(|topic| topic.name.clone()).collect();
    let mut destination = Destination {
        existing: broker::existing(&mut client, &own)?,
        leftovers: broker::leftovers(&order.log_dir, &own)?,
        refused: Vec::new(),
    };
    let new = own.iter().filter(|name| !destination.existing.contains(name));
    let known: BTreeMap<&str, _> = facts.topics.iter().map(|topic| (topic.name.as_str(), topic)).collect();
    for name in new {
        let Some(topic) = known.get(name.as_str()).filter(|topic| !topic.partitions.is_empty()) else { continue };
        let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let configs = work::named(topic, &node(&broker)).all_configs();
        let topic = broker::creatable(name, count, &configs, broker.node_id());
        destination.refused.extend(broker::judged(&mut client, vec![topic])?);
    }
    let mut judged = preflight::judge_with(&facts, &promote::wishes(&order.promote), |blockers, warnings| {
        judge::judge(&facts, left, &broker, &destination, blockers, warnings);
    });
    judged.to = format!("{} at {}", order.log_dir.display(), order.address);
    Ok(Looked { facts, broker, judged })
}

/// The topics that are handed over: the internal ones of the mirror are only read.
fn own(facts: &Facts) -> impl Iterator<Item = &crate::handover::facts::Topic> {
    facts.topics.iter().filter(|topic| !internal::is_internal_name(&topic.name))
}

/// The broker as a survey knows a node.
fn node(broker: &Broker) -> Node {
    Node {
        properties: PathBuf::from(&broker.address),
        id: broker.node_id(),
        cluster_id: broker.cluster_id.clone(),
        release: None,
        // They are not carried over, which is said.
        share_groups: true,
        unformatted: Vec::new(),
        log_dirs: vec![broker.log_dir.clone()],
        metadata_log_dir: broker.log_dir.path.clone(),
        is_metadata_locked: false,
        problems: Vec::new(),
        former: None,
        plaintext: Some(broker.address.clone()),
        // All that holds at the source is given to the topics, whatever the broker's own defaults are.
        topic_defaults: BTreeMap::new(),
    }
}

/// As the control plane and people are told.
fn handed_over_to(node_id: i32, cluster_id: &str, log_dir: &Path) -> String {
    format!("node {node_id} of cluster {cluster_id}, adopted in {}", log_dir.display())
}

impl Adopting {
    /// Goes on with one that has begun.
    ///
    /// # Errors
    /// When it goes to another broker, or is no adoption.
    pub fn resume(order: Order, mut journal: Journal) -> Result<Self, Failure> {
        let refused = |why: String, remedy: String| {
            let what = format!("mirror {} is not handed over to the broker at {}", order.promote.mirror, order.address);
            Err(Failure::new(what, why, remedy))
        };
        let Some(adoption) = journal.adopt.take() else {
            return refused(
                format!("its hand-over to {} has begun ({})", journal.handed_over_to, journal.step.name()),
                "end or take back that one first".to_owned(),
            );
        };
        if absolute(&order.log_dir)? != adoption.log_dir {
            return refused(
                format!("its topics are going into {}", adoption.log_dir.display()),
                format!("end that first: give --adopt {} --log-dir {}", adoption.address, adoption.log_dir.display()),
            );
        }
        // The broker may be reached elsewhere meanwhile.
        Ok(Self { adoption: Adoption { address: order.address.clone(), ..adoption }, order, journal })
    }

    /// Looks, judges, and begins when nothing blocks.
    ///
    /// # Errors
    /// As [`preflight`], and when the journal cannot be written.
    pub fn begin(mut order: Order, say: Say<'_>) -> Result<Begun, Failure> {
        order.log_dir = absolute(&order.log_dir)?;
        let Looked { facts, broker, judged } = look(&order)?;
        let stage_in = match &broker.stage_in {
            Ok(folder) if judged.blockers.is_empty() => absolute(folder)?,
            _ => return Ok(Begun::Blocked(Box::new(judged))),
        };
        judged.warnings.iter().for_each(|warning| say(&format!("warning: {}; {}", warning.what, warning.remedy)));
        let state = &order.promote.state;
        journal::make_folder(state)?;
        let mut journal = Journal::begin(&order.promote.mirror, judged.mode, facts.now_ms);
        journal.to.clone_from(&order.log_dir);
        journal.node_id = broker.node_id();
        journal.cluster_id = broker.cluster_id.clone().unwrap_or_default();
        journal.log_dirs = vec![order.log_dir.clone()];
        journal.metadata_log_dir.clone_from(&order.log_dir);
        journal.handed_over_to = handed_over_to(journal.node_id, &journal.cluster_id, &order.log_dir);
        (journal.loss, journal.loss_unknown_partitions) = (judged.loss, judged.loss_unknown_partitions);
        journal.warnings = judged.warnings;
        journal.acls = facts.acls.iter().map(Acl::from).collect();
        journal.topics = own(&facts).map(|topic| work::named(topic, &node(&broker))).collect();
        let adopted = |topic: &journal::Topic| Adopted {
            topic: topic.topic.clone(),
            highest_producer_id: -1,
            ..Adopted::default()
        };
        let adoption = Adoption {
            step: Step::Begun,
            address: order.address.clone(),
            log_dir: order.log_dir.clone(),
            several_dirs: broker.log_dirs.len() > 1,
            stage: stage_in.join(format!(".twinlog-adopt-{}-{}", order.promote.mirror, random::uuid())),
            has_authorizer: broker.has_authorizer(),
            topics: journal.topics.iter().map(adopted).collect(),
            producer_ids: None,
            offsets: Vec::new(),
            acls: 0,
            findings: Vec::new(),
            reached_at_ms: BTreeMap::new(),
        };
        let mut adopting = Self { order, journal, adoption };
        adopting.reach(Step::Begun)?;
        Ok(Begun::Under(Box::new(adopting)))
    }

    /// Takes all steps that are not done yet.
    ///
    /// # Errors
    /// What went wrong; the same command again goes on from there.
    pub fn advance(&mut self, say: Say<'_>) -> Result<(), Failure> {
        self.needs_copies_again(say)?;
        while let Some(next) = self.adoption.step.next() {
            match next {
                Step::Begun => {}
                Step::Stopped => self.stop(say)?,
                Step::Planned => self.plan(say)?,
                Step::Copied => self.copy(say)?,
                Step::Raised => self.raise(say)?,
                Step::Recorded => self.record(false)?,
                Step::Created => self.create(say)?,
                Step::Committed => self.commit(say)?,
                Step::Checked => say("checking what the broker serves"),
                Step::Settled => self.settle(say)?,
            }
            if next == Step::Checked {
                // What is wrong is told and asked again by the same command.
                return Ok(());
            }
            self.reach(next)?;
        }
        Ok(())
    }

    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.journal.adopt = Some(self.adoption.clone());
        self.journal.save(self.state())
    }

    /// Writes down that `step` is done.
    ///
    /// # Errors
    /// As the file system says.
    pub fn reach(&mut self, step: Step) -> Result<(), Failure> {
        step.passed_work();
        self.adoption.step = step;
        self.adoption.reached_at_ms.insert(step.name().to_owned(), now_ms());
        self.save()?;
        steps::passed_by_name(step.name());
        Ok(())
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.order.promote.state
    }

    fn stop(&mut self, say: Say<'_>) -> Result<(), Failure> {
        self.save()?;
        let mut hand_over = HandOver::beside(self.order.promote.clone(), self.journal.clone());
        hand_over.advance(journal::Step::Stopped, say)?;
        self.journal = hand_over.journal;
        if self.journal.mode == preflight::Mode::Planned { self.await_internal(say) } else { Ok(()) }
    }

    /// What the source's coordinators decided before the stop is to be known: their topics go on being mirrored.
    fn await_internal(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let order = &self.order.promote;
        let mut client = control::connect(&order.control)?;
        let deadline = Instant::now() + order.timeout;
        loop {
            let described = survey::describe(&mut client, &order.mirror, &[])?;
            let internal = described.topics.iter().filter(|topic| internal::is_internal_name(&topic.topic_name));
            let moving = |state: &str| !matches!(state, "STOPPED" | "PAUSED" | "FAILED");
            let mut partitions =
                internal.flat_map(|topic| topic.partitions.iter().map(move |p| (&topic.topic_name, p)));
            let Some((topic, behind)) = partitions.find(|(_, p)| moving(&p.state) && p.lag != 0) else { return Ok(()) };
            if Instant::now() >= deadline && !order.wait {
                let what = format!(
                    "{topic}-{} is behind: the latest offsets of groups and ends of transactions may be missing",
                    behind.partition_index
                );
                say(&format!("warning: {what}"));
                self.adoption.findings.push(Finding::new(what, "look at the offsets of groups at the broker"));
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    fn raise(&mut self, say: Say<'_>) -> Result<(), Failure> {
        let highest = self.adoption.topics.iter().map(|topic| topic.highest_producer_id).max().unwrap_or(-1);
        say(&format!("raising the broker's producer ids above {highest}"));
        let (_, found) = broker::look(&self.adoption.address, &self.adoption.log_dir, &[], None, self.state())?;
        self.adoption.producer_ids = Some(ids::raise(&found, highest)?);
        Ok(())
    }

    /// Has the control plane remember whose the topics are.
    fn record(&self, returned: bool) -> Result<(), Failure> {
        let (order, to) = (&self.order.promote, (self.journal.handed_over_to.as_str(), returned));
        let topics = match returned {
            true => control::named(self.journal.topics.iter().map(|topic| topic.topic.clone())),
            false => control::ended(&self.journal.topics),
        };
        control::record(&order.control, &order.mirror, topics, to, "the hand-over is not recorded")
    }

    fn commit(&mut self, say: Say<'_>) -> Result<(), Failure> {
        say("committing offsets of groups");
        groups::commit(&mut self.adoption)?;
        self.save()?;
        let mut client = broker::connect(&self.adoption.address)?;
        groups::have_transaction_coordinator(&mut client, &mut self.adoption)?;
        groups::make_acls(&mut client, &mut self.adoption, &self.journal.acls)
    }

    /// Nothing is left to do: the folder for copies and the journal go.
    ///
    /// # Errors
    /// As the file system says.
    pub fn end(&self) -> Result<(), Failure> {
        // What was copied was renamed; a lock file is left.
        fs::remove_dir_all(&self.adoption.stage).ok();
        self.journal.remove(self.state())
    }
}
