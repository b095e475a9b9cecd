//! `twinlog-bench run`: both planes on the embedded source or a real one, measured, then compared byte by byte.
//!
//! ```text
//! start serve, twinlog up -> mirrors create, topics start -> bulk copy (board) -> paced phase (board) -> topics stop --wait
//!   -> comparison of the segment files -> stop
//! ```

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use twinlog_proto::channel::attach::AttachError;

pub mod paced;
pub mod place;
pub mod planes;
pub mod ratio;
pub mod report;
pub mod watch;

use place::Place;
use planes::Planes;
use report::{Bulk, Memory, Report};
use watch::{Board, Watched};

use crate::args::{Content, Run};
use crate::compare::{self, CompareError, Verdict, again};
use crate::limits::{STALL_MAX, STOP_MAX};
use crate::proc;
use crate::serve::{batches_each, shape};
use crate::source::batches::{Batches, ShapeError, seeded_uuid};
use crate::spawn::{Source, SpawnError, first_core};

const MIRROR: &str = "bench";
const BULK_POLL: Duration = Duration::from_micros(500);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
const BAR_CHARS: usize = 40;

/// A run that could not be carried out.
#[derive(Debug, Error)]
pub enum RunError {
    /// A program is missing or did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The board is out of reach.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No batch looks like this.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The comparison could not be made.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// A plane failed.
    #[error("{0}")]
    Planes(String),
    /// The source failed.
    #[error("the source failed: {0}; check --source and --topic, and that a broker listens there")]
    Source(io::Error),
    /// A file of the run cannot be written.
    #[error("cannot use {} for the run: {cause}; choose another folder with --dir", path.display())]
    Place {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A process cannot be looked at or told to stop.
    #[error("cannot watch or stop a process: {0}")]
    Process(io::Error),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    pub(crate) fn place(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Place { path, cause }
    }

    fn signal(cause: io::Error) -> Self {
        Self::Process(cause)
    }
}

/// What is mirrored.
struct Job {
    /// The embedded source; it ends with the job.
    embedded: Option<(Source, Batches, Content)>,
    address: String,
    partitions: Vec<Watched>,
    remotes: Vec<again::Remote>,
}

/// Measures one run and compares.
///
/// # Errors
/// When anything but the comparison goes wrong.
pub fn measure(args: &Run, with_pace: bool) -> Result<Report, RunError> {
    let mut job =
        if let Some(address) = &args.source { Job::real(address, &args.topic)? } else { Job::embedded(args)? };
    let shown = place::parent(args.dir.as_deref());
    let place = Place::create(args.dir.as_deref(), args.keep).map_err(RunError::place(&shown))?;
    let config = place.configure(args.flush_interval_ms).map_err(RunError::place(place.root()))?;
    tell(args, &format!("mirroring into {}", place.root().display()))?;
    let planes = Planes::start(&place, &config)?;
    planes.tell(&["mirrors", "create", MIRROR, "--source", &job.address])?;
    let mut board = Board::attach(&place.state(), &job.partitions)?;
    let bulk = bulk(args, &planes, &mut board, &job)?;
    let paced = match (&mut job.embedded, NonZeroU64::new(args.pace)) {
        (Some((source, batches, content)), Some(rate)) if with_pace => {
            let phase = (rate, args.pace_seconds, args.flush_interval_ms);
            Some(paced::measure(source, &mut board, batches, batches_each(content), phase, content.partitions)?)
        }
        _ => None,
    };
    let longest = format!("{}s", STOP_MAX.as_secs());
    planes.tell(&command("stop", &job.topics(), &["--wait", "--timeout", &longest]))?;
    let without = planes.without();
    planes.stop()?;
    let paced_batches = paced.as_ref().map_or(0, |paced| paced.batches);
    let verdict = job.compare(&place.data(), paced_batches)?;
    Ok(Report {
        profile: report::name(args.profile),
        source: job.describe(),
        folder: place.root().display().to_string(),
        kept: args.keep,
        bulk,
        paced,
        without,
        verdict,
    })
}

/// The arguments of `twinlog topics VERB` for the run's mirror.
fn command<'a>(verb: &'a str, topics: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["topics", verb, MIRROR];
    topics.iter().for_each(|topic| words.extend(["--topic", topic]));
    words.extend(more);
    words
}

fn bulk(args: &Run, planes: &Planes, board: &mut Board, job: &Job) -> Result<Bulk, RunError> {
    let cpu = |board: &Board| proc::cpu_seconds(board.pid()).map_err(RunError::Process);
    let cpu_before = cpu(board)?;
    let started = Instant::now();
    planes.tell(&command("start", &job.topics(), &[]))?;
    let mut first: Option<(Instant, u64)> = None;
    let (mut last_change, mut last_bytes, mut sampled) = (Instant::now(), 0, Instant::now());
    let mut memory = Memory::default();
    let bar = Bar::new(args, job);
    loop {
        check_interrupted()?;
        let (mut bytes, mut batches, mut arrived) = (0, 0, 0);
        for (at, watched) in job.partitions.iter().enumerate() {
            let Some(progress) = board.look(at)? else { continue };
            bytes += progress.bytes;
            batches += progress.batches;
            arrived += usize::from(progress.leo >= watched.end);
        }
        let now = Instant::now();
        if bytes > 0 {
            first.get_or_insert((now, bytes));
        }
        if bytes != last_bytes {
            (last_bytes, last_change) = (bytes, now);
        }
        let done = arrived == job.partitions.len();
        if done || now.duration_since(sampled) >= SAMPLE_EVERY {
            sampled = now;
            memory.note(proc::memory_bytes(board.pid()).map_err(RunError::Process)?, board.region_bytes());
            bar.show(bytes, arrived);
        }
        if done {
            bar.end();
            let (first_at, first_bytes) = first.unwrap_or((started, 0));
            let cpu_seconds = cpu(board)? - cpu_before;
            let timed = (now.duration_since(first_at).as_secs_f64(), bytes - first_bytes);
            return Ok(Bulk::new(bytes, batches, (now - started).as_secs_f64(), timed, cpu_seconds, memory));
        }
        if now.duration_since(last_change) > STALL_MAX {
            let said = planes.last_lines();
            return Err(RunError::Planes(format!("nothing was mirrored for {} s\n{said}", STALL_MAX.as_secs())));
        }
        thread::sleep(BULK_POLL);
    }
}

impl Job {
    fn embedded(args: &Run) -> Result<Self, RunError> {
        let content = args.content();
        let batches = Batches::new(shape(&content, 0))?;
        let source = Source::start(&content, first_core())?;
        let end = batches.base_offset(batches_each(&content));
        let topic_id = seeded_uuid(content.seed, &content.topic);
        let watched = |partition: u32| Watched {
            topic: content.topic.clone(),
            topic_id,
            partition: partition.cast_signed(),
            start: 0,
            end,
        };
        let partitions = (0..content.partitions).map(watched).collect();
        let address = source.address.to_string();
        Ok(Self { embedded: Some((source, batches, content)), address, partitions, remotes: Vec::new() })
    }

    fn real(address: &str, topics: &[String]) -> Result<Self, RunError> {
        let remotes = again::partitions(address, topics).map_err(RunError::Source)?;
        if remotes.is_empty() {
            return Err(RunError::Planes(format!("the source {address} has no topics to mirror")));
        }
        let watched = |remote: &again::Remote| Watched {
            topic: remote.topic.clone(),
            topic_id: remote.topic_id,
            partition: remote.partition,
            start: remote.start,
            end: remote.end,
        };
        let partitions = remotes.iter().map(watched).collect();
        Ok(Self { embedded: None, address: address.to_owned(), partitions, remotes })
    }

    fn topics(&self) -> Vec<&str> {
        let mut topics: Vec<&str> = self.partitions.iter().map(|each| each.topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    fn describe(&self) -> String {
        match &self.embedded {
            Some((_, _, content)) => format!(
                "embedded, {} partitions, {} batches of {} records, seed {}",
                content.partitions,
                crate::units::Bytes(content.batch_bytes),
                crate::units::Bytes(content.record_bytes),
                content.seed
            ),
            None => format!("{}, {} topics, {} partitions", self.address, self.topics().len(), self.partitions.len()),
        }
    }

    fn compare(&self, data: &Path, paced_batches: u64) -> Result<Verdict, RunError> {
        let mut verdict = Verdict::nothing();
        for (at, each) in self.partitions.iter().enumerate() {
            check_interrupted()?;
            let dir = data.join(format!("{}-{}", each.topic, each.partition));
            let found = match &self.embedded {
                Some((_, batches, content)) => {
                    let paced = share(paced_batches, content.partitions, at as u64);
                    compare::with_seed(&dir, batches, at as u32, batches_each(content) + paced)?
                }
                None => {
                    let mut source = again::Refetch::new(self.remotes[at].clone()).map_err(RunError::Source)?;
                    compare::with_source(&dir, &mut source, each.end)?
                }
            };
            verdict = verdict.and(found);
        }
        Ok(verdict)
    }
}

/// How many of `total` batches, dealt out in turn, partition number `at` of `partitions` gets.
fn share(total: u64, partitions: u32, at: u64) -> u64 {
    total / u64::from(partitions) + u64::from(at < total % u64::from(partitions))
}

/// Progress on a terminal; silent otherwise.
struct Bar {
    is_shown: bool,
    total_bytes: Option<u64>,
    partitions: usize,
}

impl Bar {
    fn new(args: &Run, job: &Job) -> Self {
        let total_bytes = job
            .embedded
            .as_ref()
            .map(|(_, batches, content)| batches_each(content) * u64::from(content.partitions) * batches.batch_bytes());
        Self { is_shown: !args.json && io::stderr().is_terminal(), total_bytes, partitions: job.partitions.len() }
    }

    fn show(&self, bytes: u64, arrived: usize) {
        if !self.is_shown {
            return;
        }
        let filled = match self.total_bytes {
            Some(total) => bytes as f64 / total.max(1) as f64,
            None => arrived as f64 / self.partitions.max(1) as f64,
        };
        let chars = ((filled * BAR_CHARS as f64) as usize).min(BAR_CHARS);
        let (full, empty) = ("#".repeat(chars), ".".repeat(BAR_CHARS - chars));
        // A terminal that is gone is no reason to stop.
        write!(io::stderr(), "\r[{full}{empty}] {:>9}", crate::units::Bytes(bytes).to_string()).unwrap_or_default();
    }

    fn end(&self) {
        if self.is_shown {
            write!(io::stderr(), "\r{:1$}\r", "", BAR_CHARS + 16).unwrap_or_default();
        }
    }
}

fn tell(args: &Run, line: &str) -> Result<(), RunError> {
    if args.json {
        return Ok(());
    }
    writeln!(io::stdout(), "{line}").map_err(RunError::Process)
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C and SIGTERM end a run with what it started, instead of leaving it behind.
pub fn watch_for_interrupts() {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
            let Ok(mut terminated) = terminated else { return };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
            INTERRUPTED.store(true, Ordering::Relaxed);
        });
    });
}

pub(crate) fn check_interrupted() -> Result<(), RunError> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_dealt_out_in_turn() {
        assert_eq!([0, 1, 2].map(|at| share(8, 3, at)), [3, 3, 2]);
        assert_eq!(share(0, 3, 0), 0);
    }

    #[test]
    fn a_command_names_every_topic() {
        let words = command("stop", &["a", "b"], &["--wait"]);
        assert_eq!(words, ["topics", "stop", "bench", "--topic", "a", "--topic", "b", "--wait"]);
    }
}
