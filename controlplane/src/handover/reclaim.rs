//! The way back from a broker that wrote: its directories are cut where mirroring ended and renamed back, and the topics are the
//! mirror's again. Each step may be repeated: whoever runs the same command again goes on where the journal ends.
//!
//! Everything is looked at and judged before anything is changed; the broker's log directories are locked from then to the end.

mod beyond;
mod broker_files;
mod clones;
mod keep;
mod look;
mod other_side;
mod peer;
pub mod progress;

use crate::clock::now_ms;
use crate::failure::Failure;
use crate::files;
use crate::handover::journal::{self, Journal, Topic};
use crate::handover::locks::Locks;
use crate::handover::past_epochs;
use crate::handover::preflight::Finding;
use crate::handover::promote::{Say, absolute};
use crate::handover::{control, owner, surgeon, target};
use crate::steps;
pub use keep::report_path;
use look::Look;
use progress::{Reclaim, Step, Taken};
use serde::Serialize;
use std::path::{Path, PathBuf};
use twinlog_proto::handover::plan::HandOverPlan;
use twinlog_proto::messages::record_hand_over::RecordHandOverRequest;
use twinlog_proto::storage::names;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// The mirror.
    pub mirror: String,
    /// The node's properties file.
    pub from: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// Where the control plane is.
    pub control: String,
    /// Topics by name; none for all.
    pub topics: Vec<String>,
    /// Where that is saved which is thrown away.
    pub save_aside: Option<PathBuf>,
    /// The control plane that took over from the node: the topics are cut where mirroring ended there.
    pub lmo_from: Option<String>,
    /// Throw away also partitions of which the other side never had anything.
    pub allow_empty: bool,
    /// The directories of the topics stay with the broker: what was mirrored is given up.
    pub from_scratch: bool,
    /// The directories of the topics stay with the broker, which may run: copies are taken.
    pub clone: bool,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// The mirror.
    pub mirror: String,
    /// The node's properties file.
    pub from: PathBuf,
    /// Whose the topics are.
    pub handed_over_to: String,
    /// By whose last mirrored offsets they are cut; `None`: by our own.
    pub lmo_from: Option<String>,
    /// Copies are taken: what lies behind the cut stays at the broker, and is not thrown away.
    pub clone: bool,
    /// What keeps the topics from being taken back.
    pub blockers: Vec<Finding>,
    /// What a person should know.
    pub warnings: Vec<Finding>,
    /// Every partition, with what would be thrown away.
    pub partitions: Vec<Taken>,
    /// Records that would be thrown away.
    pub records: i64,
    /// Bytes that would be thrown away.
    pub bytes: i64,
}

/// A reclaim under way.
#[derive(Debug)]
pub struct Reclaiming {
    order: Order,
    /// The journal of the hand-over that is ended.
    pub journal: Journal,
    locks: Locks,
}

/// What became of the beginning.
#[derive(Debug)]
pub enum Begun {
    /// It goes on.
    Under(Box<Reclaiming>),
    /// Something blocks, or it was only looked at; nothing has changed.
    Judged(Box<Preflight>),
}

impl Reclaiming {
    /// Goes on with one that has begun.
    ///
    /// # Errors
    /// When it is of another node, or a broker has the directories.
    pub fn resume(order: Order, journal: Journal) -> Result<Self, Failure> {
        let begun = journal.reclaim.as_ref();
        let log_dirs = begun.map(|begun| begun.log_dirs.clone()).unwrap_or_default();
        if let Some(begun) = begun.filter(|begun| absolute(&order.from).is_ok_and(|from| from != begun.from)) {
            return Err(Failure::new(
                format_args!("mirror {} is not taken back from {}", order.mirror, order.from.display()),
                format_args!("it is being taken back from {}", begun.from.display()),
                "end that first: run the same command with that file",
            ));
        }
        let locks = keep::lock(&log_dirs)?;
        Ok(Self { order, journal, locks })
    }

    /// Looks and judges; begins when nothing blocks, unless this is a `dry_run`. Without a `journal` the node is the mirror's former
    /// source, and another control plane says what of its topics stays.
    ///
    /// # Errors
    /// When something cannot be looked at, or the journal cannot be written.
    pub fn begin(order: Order, journal: Option<Journal>, dry_run: bool, say: Say<'_>) -> Result<Begun, Failure> {
        let node = look::node(&order)?;
        // Beside a broker that runs nothing is locked, and nothing of its own is changed.
        let own = node.directories().filter(|_| !order.clone);
        let log_dirs: Vec<PathBuf> = own.map(Path::to_owned).collect();
        let locks = keep::lock(&log_dirs)?;
        let mut blockers = Vec::new();
        let peer = match &order.lmo_from {
            Some(address) => Some(other_side::ask(&order, address, &node, &mut blockers)?),
            None => None,
        };
        let journal = match (journal, &peer) {
            (Some(journal), _) => journal,
            (None, Some(peer)) => other_side::journal(&order, peer, &node, &mut blockers)?,
            (None, None) => return Err(not_known(&order.mirror)),
        };
        let chosen = choose(&order, &journal)?;
        look::identity(&node, &journal, &mut blockers);
        let mut judged = Preflight {
            mirror: order.mirror.clone(),
            from: absolute(&order.from)?,
            handed_over_to: journal.handed_over_to.clone(),
            lmo_from: order.lmo_from.clone(),
            clone: order.clone,
            blockers,
            ..Preflight::default()
        };
        if order.from_scratch {
            return Self::give_up(order, journal, locks, judged, log_dirs, dry_run);
        }
        let cuts = peer.as_ref().map(|peer| &peer.cuts);
        let mut look =
            Look { order: &order, journal: &journal, node: &node, judged: &mut judged, cuts, planned: Vec::new() };
        look.all(&mut control::connect(&order.control)?, &chosen)?;
        let mut plan = HandOverPlan {
            mirror_name: order.mirror.clone(),
            undo: true,
            reclaim: true,
            dry_run: true,
            find_cut: peer.is_some(),
            partitions: look.planned,
            ..HandOverPlan::default()
        };
        if judged.blockers.is_empty() {
            say("reading what the broker left");
            beyond::read(&order, &locks, &mut judged, &mut plan)?;
            let own = plan.partitions.iter().flat_map(|planned| [&*planned.data_directory, &*planned.log_directory]);
            keep::space_aside(&order, own, &mut judged)?;
            if let Some(peer) = &peer {
                other_side::judge(&order, peer, &journal, &mut judged)?;
            }
        }
        if dry_run || !judged.blockers.is_empty() {
            return Ok(Begun::Judged(Box::new(judged)));
        }
        judged.warnings.iter().for_each(|warning| say(&format!("warning: {}; {}", warning.what, warning.remedy)));
        (plan.dry_run, plan.find_cut) = (false, false);
        let saved_aside = order.save_aside.as_deref().map(keep::make_aside).transpose()?;
        let stages = if order.clone { clones::stages(&order.mirror, &mut plan) } else { Vec::new() };
        plan.save_directory = saved_aside.as_deref().map(|dir| dir.display().to_string()).unwrap_or_default();
        surgeon::write_plan(&plan_path(&order), &plan)?;
        past_epochs::raise(&order.state, &order.mirror, &keep::epochs(&journal, &judged.partitions, &plan.partitions))?;
        let reclaim =
            Reclaim { saved_aside, stages, partitions: judged.partitions, ..begun(&order, judged.from, log_dirs)? };
        Self::under(order, journal, locks, reclaim)
    }

    /// Begins to take the names of topics back without their directories.
    fn give_up(
        order: Order,
        journal: Journal,
        locks: Locks,
        judged: Preflight,
        log_dirs: Vec<PathBuf>,
        dry_run: bool,
    ) -> Result<Begun, Failure> {
        if dry_run || !judged.blockers.is_empty() {
            return Ok(Begun::Judged(Box::new(judged)));
        }
        let reclaim = Reclaim { given_up: order.topics.clone(), ..begun(&order, judged.from, log_dirs)? };
        Self::under(order, journal, locks, reclaim)
    }

    /// Writes down that it has begun.
    fn under(order: Order, journal: Journal, locks: Locks, reclaim: Reclaim) -> Result<Begun, Failure> {
        let mut reclaiming = Self { order, journal, locks };
        reclaiming.journal.reclaim = Some(reclaim);
        journal::make_folder(&reclaiming.order.state)?;
        reclaiming.reach(Step::Begun)?;
        Ok(Begun::Under(Box::new(reclaiming)))
    }

    /// Takes all steps that are not done yet; gives what was done.
    ///
    /// # Errors
    /// What went wrong; the same command again goes on from there.
    pub fn finish(mut self, say: Say<'_>) -> Result<Reclaim, Failure> {
        while let Some(next) = self.reclaim()?.step.next() {
            match next {
                Step::Begun => {}
                Step::Cloned => self.take_copies(say)?,
                Step::Registered => self.register()?,
                Step::Unmarked => target::unmark_clean(&self.reclaim()?.log_dirs)?,
                Step::Moved => {
                    if !self.reclaim()?.partitions.is_empty() {
                        say("cutting the directories where mirroring ended, and moving them back");
                        surgeon::operate(&plan_path(&self.order), &self.locks)?;
                        self.give_to_owners()?;
                    }
                    self.mark_clean()?;
                }
                Step::Returned => {
                    clones::remove(&self.reclaim()?.stages)?;
                    self.give_back()?;
                }
            }
            self.reach(next)?;
        }
        let done = self.reclaim()?.clone();
        keep::report(&self.order, &done)?;
        let names = done.topics();
        self.journal.topics.retain(|topic| !names.contains(&topic.topic));
        self.journal.reclaim = None;
        if self.journal.topics.is_empty() {
            self.journal.remove(&self.order.state)?;
        } else {
            self.journal.save(&self.order.state)?;
        }
        Ok(done)
    }

    fn reclaim(&self) -> Result<&Reclaim, Failure> {
        self.journal.reclaim.as_ref().ok_or_else(|| {
            Failure::new("nothing is taken back", "the journal knows of no reclaim", "run the same command again")
        })
    }

    fn reach(&mut self, step: Step) -> Result<(), Failure> {
        step.passed_work();
        if let Some(reclaim) = &mut self.journal.reclaim {
            reclaim.step = step;
        }
        self.journal.save(&self.order.state)?;
        steps::passed_by_name(step.name());
        Ok(())
    }

    /// What root has cut and renamed belongs to whoever has the data directory.
    fn give_to_owners(&self) -> Result<(), Failure> {
        let reclaim = self.reclaim()?;
        let is_taken = |topic: &str, partition: i32| {
            reclaim.partitions.iter().any(|taken| taken.topic == topic && taken.partition == partition)
        };
        let mut all = Vec::new();
        for topic in &self.journal.topics {
            for partition in topic.partitions.iter().filter(|p| is_taken(&topic.topic, p.partition)) {
                all.push((partition.from.as_path(), names::partition_dir(&topic.topic, partition.partition)));
            }
        }
        owner::give_directories(&all)
    }

    /// What stays at the broker is as clean as it was.
    fn mark_clean(&self) -> Result<(), Failure> {
        for (dir, text) in &self.reclaim()?.clean_markers {
            files::replace(&dir.join(names::CLEAN_SHUTDOWN), text.as_bytes()).map_err(|cause| {
                Failure::new("the clean marker cannot be written", cause, "mend it, then run the same command again")
            })?;
        }
        self.reclaim()?.log_dirs.iter().try_for_each(|dir| owner::give_files(dir))
    }

    /// Has the control plane take up topics that it never had, as the node's. Nothing is changed before, so that a refusal ends it all.
    fn register(&self) -> Result<(), Failure> {
        if !self.journal.was_never_promoted() {
            return Ok(());
        }
        let request = other_side::request(&self.journal, &self.reclaim()?.partitions);
        let asked = control::ask_to_record(&self.order.control, &request, "the topics are not taken up");
        asked.or_else(|failure| self.journal.remove(&self.order.state).and(Err(failure)))
    }

    /// Has the control plane remember that the topics are the mirror's again, and where they end when another one said that.
    fn give_back(&self) -> Result<(), Failure> {
        let (order, reclaim) = (&self.order, self.reclaim()?);
        let failure = "the return is not recorded";
        if reclaim.lmo_from.is_some() {
            let request = other_side::request(&self.journal, &reclaim.partitions);
            return control::ask_to_record(
                &order.control,
                &RecordHandOverRequest { returned: true, ..request },
                failure,
            );
        }
        let to = (self.journal.handed_over_to.as_str(), true);
        control::record(&order.control, &order.mirror, control::named(reclaim.topics()), to, failure)
    }
}

/// Nobody handed the topics over, as far as this state directory knows.
pub fn not_known(mirror: &str) -> Failure {
    Failure::new(
        format_args!("mirror {mirror} is not taken back"),
        "no hand-over of it is known in this state directory",
        "`twinlog mirrors describe` shows who has its topics; give the --state of `twinlog up`, or for the mirror's former source \
         --lmo-from with the address of the control plane that took over",
    )
}

/// One that has begun, with nothing in it yet.
fn begun(order: &Order, from: PathBuf, log_dirs: Vec<PathBuf>) -> Result<Reclaim, Failure> {
    Ok(Reclaim {
        step: Step::Begun,
        begun_at_ms: now_ms(),
        from,
        lmo_from: order.lmo_from.clone(),
        asked: order.topics.clone(),
        clean_markers: keep::markers(&log_dirs)?,
        log_dirs,
        saved_aside: None,
        stages: Vec::new(),
        partitions: Vec::new(),
        given_up: Vec::new(),
    })
}

fn plan_path(order: &Order) -> PathBuf {
    order.state.join(journal::FOLDER).join(format!("{}.reclaim", order.mirror))
}

/// The topics that were asked for.
fn choose<'j>(order: &Order, journal: &'j Journal) -> Result<Vec<&'j Topic>, Failure> {
    if let Some(unknown) = order.topics.iter().find(|name| !journal.topics.iter().any(|topic| topic.topic == **name)) {
        return Err(Failure::new(
            format_args!("topic {unknown} is not taken back"),
            format_args!("it was not handed over to {}", journal.handed_over_to),
            "`twinlog mirrors describe` shows whose the topics are",
        ));
    }
    let is_chosen = |topic: &&Topic| order.topics.is_empty() || order.topics.contains(&topic.topic);
    Ok(journal.topics.iter().filter(is_chosen).collect())
}
