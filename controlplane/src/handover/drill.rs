//! Rehearsing a hand-over: copies of the partitions are handed over, by the steps of `promote`, to a broker that is asked, measured and
//! thrown away. The mirror goes on meanwhile and is told nothing.
//!
//! Everything of a drill lies in one folder (`room`), which goes with its broker whatever happens; a drill that was killed leaves it to
//! the next one.

mod broker;
mod copies;
pub mod interrupt;
mod node;
mod place;
mod produce;
pub mod report;
mod room;

pub use room::Cleaned;

use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::check;
use crate::handover::journal::{Journal, Step};
use crate::handover::preflight::Preflight;
use crate::handover::promote::{Begun, HandOver, Order, Rehearsal, Say};
use crate::handover::{control, journal, start, survey};
use report::{Parts, Report};
use room::Room;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The mirror.
    pub mirror: String,
    /// Topics by name; none for all.
    pub topics: Vec<String>,
    /// The state directory.
    pub state: PathBuf,
    /// Where the control plane is.
    pub control: String,
    /// How a broker is started, when not by Kafka's own script.
    pub start_command: Option<String>,
    /// The release to lay the node out for.
    pub release: Option<String>,
    /// Where the folder of the drill is made; beside the data directory when nobody says.
    pub dir: Option<PathBuf>,
    /// Link nothing, so that the folder may be on another file system.
    pub copy: bool,
    /// Leave the folder when it is over.
    pub keep: bool,
    /// How long the broker may take to serve.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// It was done.
    Done(Box<Report>),
    /// Something blocks.
    Blocked(Box<Preflight>),
}

/// Does all of it. `begun` is when the command began.
///
/// # Errors
/// What could not be done, or that it was interrupted. Nothing is left then either.
pub fn run(asked: &Asked, begun: Instant, say: Say<'_>) -> Result<Outcome, Failure> {
    if let Some(journal) = Journal::load(&asked.state, &asked.mirror)? {
        return Err(Failure::new(
            format_args!("mirror {} is not rehearsed with", asked.mirror),
            format_args!("its hand-over to {} has begun ({})", journal.handed_over_to, journal.step.name()),
            "end it with `twinlog promote`, or take the topics back with `twinlog reclaim`",
        ));
    }
    // What cannot be started is refused before anything is copied.
    start::command_line(asked.start_command.as_deref(), Path::new("/"))?;
    let assignment = survey::read_assignment(&asked.state, &asked.mirror)?;
    let site = place::choose(&assignment, asked)?;
    for cleaned in room::clean(&site.base, false)? {
        say(&cleaned.to_string());
    }
    interrupt::watch()?;
    let mut room = Room::make(&site, &asked.mirror)?;
    let outcome = rehearse(asked, &assignment, &mut room, begun, say);
    let ended = room.end(asked.keep && matches!(outcome, Ok(Outcome::Done(_))));
    match (interrupt::check(), ended) {
        (Err(interrupted), Ok(())) => Err(interrupted),
        (_, ended) => {
            let outcome = outcome?;
            ended?;
            Ok(outcome)
        }
    }
}

/// Ends what earlier drills left, and removes it, also what was left on purpose.
///
/// # Errors
/// When it cannot be removed.
pub fn clean_left(asked: &Asked) -> Result<Vec<Cleaned>, Failure> {
    let site = place::choose(&survey::read_assignment(&asked.state, &asked.mirror)?, asked)?;
    room::clean(&site.base, true)
}

fn rehearse(
    asked: &Asked,
    assignment: &twinlog_proto::assignment::Assignment,
    room: &mut Room,
    begun: Instant,
    say: Say<'_>,
) -> Result<Outcome, Failure> {
    let begun_at_ms = now_ms() - i64::try_from(begun.elapsed().as_millis()).unwrap_or(0);
    let (properties, address) = node::write(room)?;
    say("copying what is mirrored");
    let (copies, cloned) = copies::make(&mut control::connect(&asked.control)?, asked, assignment, room)?;
    interrupt::check()?;
    let clone = begun.elapsed();
    let order = Order {
        mirror: asked.mirror.clone(),
        to: properties.clone(),
        state: room.state(),
        control: asked.control.clone(),
        topics: asked.topics.clone(),
        timeout: asked.timeout,
        wait: false,
        no_forced: false,
        release: asked.release.clone(),
        cluster_id: None,
        rehearsal: Some(Rc::new(Rehearsal { state: asked.state.clone(), copies })),
    };
    // What it warns of stands in the report: nobody has to stop a producer for a drill.
    let mut hand_over = match HandOver::begin(order, &mut |_| {})? {
        Begun::Under(hand_over) => *hand_over,
        Begun::Blocked(judged) => return Ok(Outcome::Blocked(judged)),
    };
    hand_over.advance(Step::Promoted, say)?;
    interrupt::check()?;
    let finish = begun.elapsed();
    let log = journal::make_subfolder(&asked.state, report::FOLDER)?.join(format!("{}.log", asked.mirror));
    say(&format!("starting the broker; its output is in {}", log.display()));
    let command = start::command_line(asked.start_command.as_deref(), &properties)?;
    hand_over.journal.server = Some(room.start(&command, &log)?);
    let ready = room.await_serving(asked.timeout, &address, &log)?;
    if let Some(server) = &mut hand_over.journal.server {
        server.ready_ms = u64::try_from(ready.as_millis()).ok();
    }
    let served = begun.elapsed();
    let produced = produce::first(&address, &hand_over.journal, asked.timeout)?;
    let acknowledged = begun.elapsed();
    interrupt::check()?;
    say("checking what it serves");
    let checked = check::check(&hand_over.journal, hand_over.state(), &address)?;
    let parts = Parts::new(clone, finish, served, acknowledged, begun.elapsed());
    let told = report::Told { begun_at_ms, parts, cloned, produced, checked, folder: room.path().to_owned() };
    Ok(Outcome::Done(Box::new(Report::new(&hand_over.journal, hand_over.judged, told, asked.keep))))
}
