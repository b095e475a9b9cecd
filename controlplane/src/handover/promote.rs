//! The steps of a hand-over, each of which may be repeated: whoever runs the same command again goes on where the journal ends.
//!
//! Nothing of a mirror changes before the journal is there, and no directory moves before the control plane knows whose it will be.
//! The node's log directories are locked from the first step to the clean marker, so no broker starts in between.

mod undo;
mod wait;
pub(in crate::handover) mod work;

use crate::client::Client;
use crate::failure::Failure;
use crate::handover::facts::{Facts, Node};
use crate::handover::journal::{self, Acl, Journal, Step};
use crate::handover::locks::{LockError, Locks};
use crate::handover::preflight::{self, Mode, Preflight, Row, Wishes};
use crate::handover::survey::{self, Asked, Copies};
use crate::handover::{control, owner, start, target};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use twinlog_proto::storage::kraft::{FIRST_SNAPSHOT, METADATA_LOG};

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Order {
    /// The mirror.
    pub mirror: String,
    /// The node's properties file.
    pub to: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// Where the control plane is.
    pub control: String,
    /// Topics by name; none for all.
    pub topics: Vec<String>,
    /// How long the source and the stop are waited for.
    pub timeout: Duration,
    /// Wait for the source as long as it takes.
    pub wait: bool,
    /// Refuse what would lose records.
    pub no_forced: bool,
    /// The release to lay a new node out for.
    pub release: Option<String>,
    /// The cluster id that the node must have, or is to get.
    pub cluster_id: Option<String>,
    /// Set when copies are handed over and the mirror is left alone: then `state` is a folder of the rehearsal's own.
    pub rehearsal: Option<Rc<Rehearsal>>,
}

/// A hand-over that the mirror does not notice.
#[derive(Debug)]
pub struct Rehearsal {
    /// The state directory of the mirror.
    pub state: PathBuf,
    /// What is handed over.
    pub copies: Copies,
}

impl Order {
    /// The state directory of the mirror.
    fn mirror_state(&self) -> &Path {
        self.rehearsal.as_ref().map_or(&self.state, |rehearsal| &rehearsal.state)
    }
}

/// Tells a person what is being done.
pub type Say<'a> = &'a mut dyn FnMut(&str);

/// Looks and judges; changes nothing.
///
/// # Errors
/// When the control plane does not answer, or the node's properties cannot be read at all.
pub fn preflight(order: &Order) -> Result<Preflight, Failure> {
    let node = look_at_node(order)?;
    let facts = look(&mut control::connect(&order.control)?, order, &node)?;
    Ok(preflight::judge(&facts, &wishes(order)))
}

pub(in crate::handover) fn wishes(order: &Order) -> Wishes {
    Wishes { cluster_id: order.cluster_id.clone(), no_forced: order.no_forced }
}

fn look_at_node(order: &Order) -> Result<Node, Failure> {
    target::look(&order.to, order.release.as_deref(), &data_dirs(order)?)
}

/// The data directories of the mirror.
pub(in crate::handover) fn data_dirs(order: &Order) -> Result<Vec<PathBuf>, Failure> {
    let assignment = survey::read_assignment(order.mirror_state(), &order.mirror)?;
    let partitions = assignment.topics.iter().flat_map(|topic| &topic.partitions);
    let data: std::collections::BTreeSet<PathBuf> =
        partitions.map(|partition| PathBuf::from(&partition.data_directory)).collect();
    Ok(data.into_iter().collect())
}

pub(in crate::handover) fn look(client: &mut Client, order: &Order, node: &Node) -> Result<Facts, Failure> {
    let copies = order.rehearsal.as_ref().map(|rehearsal| &rehearsal.copies);
    let (mirror, topics, state) = (order.mirror.as_str(), order.topics.as_slice(), order.mirror_state());
    survey::survey(client, &Asked { mirror, topics, state, node, copies })
}

/// A hand-over under way.
#[derive(Debug)]
pub struct HandOver {
    order: Order,
    /// What was done so far.
    pub journal: Journal,
    /// The partitions as they were judged when it began; none when it goes on.
    pub judged: Vec<Row>,
    locks: Option<Locks>,
}

/// What became of the beginning.
#[derive(Debug)]
pub enum Begun {
    /// It goes on.
    Under(Box<HandOver>),
    /// Something blocks; nothing has changed.
    Blocked(Box<Preflight>),
}

impl HandOver {
    /// A hand-over to a broker that runs, of which nothing is locked: only its first steps, up to the stop, are those of any other.
    #[must_use]
    pub fn beside(order: Order, journal: Journal) -> Self {
        Self { order, journal, judged: Vec::new(), locks: None }
    }

    /// Goes on with a hand-over that has begun.
    ///
    /// # Errors
    /// When it went elsewhere, or a broker has the directories.
    pub fn resume(order: Order, journal: Journal) -> Result<Self, Failure> {
        if let Some(adoption) = &journal.adopt {
            return Err(Failure::new(
                format_args!("mirror {} is not handed over to {}", order.mirror, order.to.display()),
                format_args!("the broker at {} is taking topics of it ({})", adoption.address, adoption.step.name()),
                "end that first: run the same `twinlog promote` with --adopt again, or with --undo",
            ));
        }
        if journal.reclaim.is_some() {
            return Err(Failure::new(
                format_args!("mirror {} is not handed over", order.mirror),
                "its topics are being taken back from the broker",
                "end that first: run the same `twinlog reclaim` again",
            ));
        }
        let to = absolute(&order.to)?;
        if journal.to != to {
            return Err(Failure::new(
                format_args!("mirror {} is not handed over to {}", order.mirror, to.display()),
                format_args!("its hand-over to {} has begun ({})", journal.to.display(), journal.step.name()),
                format_args!(
                    "end that one with `twinlog promote {} --to {}`, or take it back with --undo",
                    order.mirror,
                    journal.to.display()
                ),
            ));
        }
        let mut hand_over = Self { order, journal, judged: Vec::new(), locks: None };
        if hand_over.journal.step < Step::Promoted || hand_over.journal.undoing {
            target::is_same(&hand_over.journal)?;
            hand_over.lock()?;
            hand_over.not_started_early()?;
        }
        Ok(hand_over)
    }

    /// A broker that is started before the node knows the topics calls their directories stray, and changes nothing in them.
    fn not_started_early(&self) -> Result<(), Failure> {
        if !(Step::Recorded..=Step::Promoted).contains(&self.journal.step) {
            return Ok(());
        }
        target::not_started(&self.journal, &self.order.state).map_err(|cause| {
            if !target::has_strays(&self.journal.log_dirs) {
                return cause;
            }
            let metadata = self.journal.metadata_log_dir.join(METADATA_LOG);
            Failure::new(
                format_args!("a broker was started on the hand-over of mirror {} before it was done", self.journal.mirror),
                cause,
                format_args!(
                    "stop it, and whatever starts it; rename each TOPIC-N.*-stray in its log directories to TOPIC-N, move the files of {} \
                     away except {FIRST_SNAPSHOT}, then run the same command again",
                    metadata.display()
                ),
            )
        })
    }

    /// Looks, judges, and begins when nothing blocks. `say` is told what the judgement warns of.
    ///
    /// # Errors
    /// As [`preflight`], and when the journal cannot be written.
    pub fn begin(order: Order, say: Say<'_>) -> Result<Begun, Failure> {
        let node = look_at_node(&order)?;
        let facts = look(&mut control::connect(&order.control)?, &order, &node)?;
        let judged = preflight::judge(&facts, &wishes(&order));
        if !judged.blockers.is_empty() {
            return Ok(Begun::Blocked(Box::new(judged)));
        }
        judged.warnings.iter().for_each(|warning| say(&format!("warning: {}; {}", warning.what, warning.remedy)));
        journal::make_folder(&order.state)?;
        let mut journal = Journal::begin(&order.mirror, judged.mode, facts.now_ms);
        journal.to = absolute(&order.to)?;
        journal.node_id = node.id;
        journal.unformatted.clone_from(&node.unformatted);
        journal.cluster_id = match node.cluster_id.clone().or_else(|| order.cluster_id.clone()) {
            Some(id) => id,
            None => target::new_cluster_id(),
        };
        journal.release.clone_from(&order.release);
        journal.anew = node.former.is_some();
        journal.log_dirs = node.log_dirs.iter().map(|dir| dir.path.clone()).collect();
        journal.metadata_log_dir.clone_from(&node.metadata_log_dir);
        journal.handed_over_to = journal::node_in_words(node.id, &journal.cluster_id, &journal.log_dirs);
        (journal.loss, journal.loss_unknown_partitions) = (judged.loss, judged.loss_unknown_partitions);
        journal.warnings = judged.warnings;
        journal.quotas.clone_from(&facts.quotas);
        journal.acls = facts.acls.iter().map(Acl::from).collect();
        // Names alone: offsets and places are written down when the topics are stopped.
        journal.topics = facts.topics.iter().map(|topic| work::named(topic, &node)).collect();
        let mut hand_over = Self { order, journal, judged: judged.partitions, locks: None };
        hand_over.lock()?;
        hand_over.journal.reach(&hand_over.order.state, Step::Begun)?;
        Ok(Begun::Under(Box::new(hand_over)))
    }

    /// Makes the log directories and locks them; no broker starts on them until the locks are let go of.
    fn lock(&mut self) -> Result<(), Failure> {
        let dirs = self.journal.locked_dirs();
        dirs.iter().try_for_each(|dir| target::make_dir(dir))?;
        let locks = Locks::take(&dirs).map_err(|cause| {
            Failure::new(
                "the node's log directories are not free",
                cause,
                "stop the broker that runs on them; a node that runs cannot be promoted into",
            )
        })?;
        self.locks = Some(locks);
        dirs.iter().try_for_each(|dir| owner::give_files(dir))
    }

    /// Takes all steps up to `last` that are not done yet.
    ///
    /// # Errors
    /// What went wrong; the same command again goes on from there.
    pub fn advance(&mut self, last: Step, say: Say<'_>) -> Result<(), Failure> {
        while let Some(next) = self.journal.step.next().filter(|next| *next <= last) {
            match next {
                Step::Begun | Step::Started | Step::Checked => break,
                Step::CaughtUp | Step::Stopped | Step::Recorded if self.order.rehearsal.is_some() => {}
                Step::CaughtUp => self.catch_up(say)?,
                Step::Stopped => self.stop(say)?,
                Step::Planned => self.plan(say)?,
                Step::Recorded => self.record(false)?,
                Step::LaidOut => target::lay_out(&self.journal, &self.order.state)?,
                Step::Moved => self.move_directories(say)?,
                Step::Identified => {
                    say("writing what the node is to know of the topics");
                    self.journal.bootstrap_records = Some(target::identify(&self.journal, &self.order.state)?);
                }
                Step::Promoted => self.mark_clean(say)?,
            }
            self.journal.reach(&self.order.state, next)?;
        }
        if self.journal.step >= Step::Promoted {
            self.locks = None;
        }
        Ok(())
    }

    /// The marker of a broker that was started already would hide from it that it has to recover.
    fn mark_clean(&self, say: Say<'_>) -> Result<(), Failure> {
        match target::not_started(&self.journal, &self.order.state) {
            Ok(()) => target::mark_clean(&self.journal.log_dirs),
            Err(told) => {
                say(&format!("no clean marker is written: {told}"));
                Ok(())
            }
        }
    }

    /// Whether another process has the node's log directories, or will have them in a moment.
    #[must_use]
    pub fn is_running(&self) -> bool {
        start::is_alive(&self.server_log())
            || (self.locks.is_none()
                && matches!(Locks::take(&self.journal.locked_dirs()), Err(LockError::Taken { .. })))
    }

    /// Where the output of a broker goes that the command starts.
    #[must_use]
    pub fn server_log(&self) -> PathBuf {
        self.order.state.join(journal::FOLDER).join(format!("{}-server.log", self.journal.mirror))
    }

    /// The state directory.
    #[must_use]
    pub fn state(&self) -> &Path {
        &self.order.state
    }

    fn names(&self) -> Vec<String> {
        self.journal.topics.iter().map(|topic| topic.topic.clone()).collect()
    }

    /// The source did not answer in time, so what is missing is lost.
    fn force(&mut self, say: Say<'_>) {
        self.journal.mode = Mode::Forced;
        say("forced: the source is not waited for any longer, and what is missing here is lost");
    }
}

/// The path from the root.
///
/// # Errors
/// When the working directory is gone.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|cause| {
        Failure::new(format_args!("{} cannot be found", path.display()), cause, "give an absolute path")
    })
}
