//! The process: directories, locks, channel, housekeeping, one thread per core, and the way down.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::checkpoints::Checkpoints;
use crate::config::Config;
use crate::control::channel::{Channel, SLOTS};
use crate::control::channel_server::ChannelServer;
use crate::core::loader::{self, Mail};
use crate::core::shared::CoreSettings;
use crate::core::{self, CoreNews, CorePlan};
use crate::fault::CoreCause;
use crate::housekeeping::Housekeeping;
use crate::instance_lock::InstanceLocks;

/// Why the process cannot start or go on: one line for people.
#[derive(Debug)]
pub struct Fatal {
    what: String,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Some(cause) if self.what.is_empty() => cause.fmt(f),
            Some(cause) => write!(f, "{}: {cause}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Fatal {}

fn fatal<E: Into<Box<dyn std::error::Error + Send + Sync>>>(what: impl Into<String>) -> impl FnOnce(E) -> Fatal {
    let what = what.into();
    move |cause| Fatal { what, cause: Some(cause.into()) }
}

/// Starts everything and runs until SIGTERM or SIGINT, or until a core cannot go on.
///
/// # Errors
/// Why it could not start, or what made a core stop.
pub fn run(config: &Config) -> Result<(), Fatal> {
    let processors = config.cores.processors().map_err(fatal(""))?;
    for folder in config.data.iter().chain([&config.state]) {
        make_folder(folder)?;
    }
    let open_files_max = raise_open_files();
    let locks = InstanceLocks::take(&config.state, &config.data).map_err(fatal(""))?;
    let checkpoints = Checkpoints::load(&config.data).map_err(fatal(""))?;
    let count = config.cores.count();
    let (channel, seats) = Channel::open(count as u32, SLOTS).map_err(fatal(""))?;
    let view = channel.own().view().clone();
    let (housekeeping, tracker) =
        Housekeeping::start(&view, checkpoints.clone()).map_err(fatal("the housekeeping thread cannot be started"))?;
    let server = ChannelServer::start(channel, &config.state).map_err(fatal(""))?;
    let mailboxes: Vec<_> = (0..count).map(|_| unbounded_channel()).collect();
    let senders: Vec<UnboundedSender<Mail>> = mailboxes.iter().map(|(sender, _)| sender.clone()).collect();
    let (_loader, askers) =
        loader::start(&config.state, senders.clone()).map_err(fatal("the assignments thread cannot be started"))?;
    let (news, heard) = unbounded_channel();
    let mut threads = Vec::with_capacity(count);
    let checkpoints = Arc::new(checkpoints);
    let parts = seats.into_iter().zip(askers).zip(mailboxes).zip(processors);
    for (number, (((seat, asker), (_, mail)), processor)) in parts.enumerate() {
        let plan = CorePlan {
            settings: CoreSettings {
                number: number as u32,
                cores: count as u32,
                flush_interval: config.flush_interval,
                flush_bytes: config.flush_bytes,
                connections_per_broker: config.connections_per_broker,
                segments_open_max: segments_open_max(open_files_max, count),
            },
            processor,
            pieces: config.pieces_per_core,
            direct_io: config.direct_io,
            seat,
            asker,
            mail,
            checkpoints: Arc::clone(&checkpoints),
            tracker: tracker.clone(),
            news: news.clone(),
        };
        threads.push(start_core(plan)?);
    }
    drop((news, tracker));
    let early = wait_for_the_end(heard, count)?;
    for sender in &senders {
        // A core that has ended needs no word.
        sender.send(Mail::Stop).ok();
    }
    let result = join(threads, early);
    housekeeping.stop().map_err(fatal("the last checkpoints are not written; the next start recovers"))?;
    server.stop();
    drop(locks);
    result
}

/// Raises the limit of open files as far as it may be; gives it.
fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where this is refused the old limit stays.
    let reached = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let files = reached.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    if files < OPEN_FILES_WANTED {
        tracing::warn!(
            "without: many open files; {files} may be open, so segments of busy partitions are closed and opened again \
             (LimitNOFILE, ulimit -Hn)"
        );
    }
    files
}

/// Segments that one core may have open: what is left of the limit after sockets, indexes, checkpoints and syncs.
fn segments_open_max(open_files_max: usize, cores: usize) -> usize {
    let left = open_files_max - (open_files_max / 2).min(OPEN_FILES_KEPT);
    (left / cores.max(1)).max(1)
}

fn make_folder(folder: &Path) -> Result<(), Fatal> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(FOLDER_MODE);
    builder.create(folder).map_err(fatal(format!(
        "the directory {} cannot be made or used (give one that this user may write to)",
        folder.display()
    )))
}

fn start_core(plan: CorePlan) -> Result<JoinHandle<Result<(), CoreCause>>, Fatal> {
    let (name, news) = (format!("core-{}", plan.settings.number), plan.news.clone());
    let run = move || {
        let result = core::run(plan);
        // The main thread hears of an ending that it did not ask for.
        news.send(CoreNews::Ended).ok();
        result
    };
    std::thread::Builder::new().name(name).spawn(run).map_err(fatal("the thread of a core cannot be started"))
}

/// Says that the data plane serves once all cores do, and waits for a signal; true when a core ended before one came.
fn wait_for_the_end(mut heard: UnboundedReceiver<CoreNews>, cores: usize) -> Result<bool, Fatal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(fatal("signals cannot be waited for"))?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(fatal("SIGTERM cannot be waited for"))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fatal("SIGINT cannot be waited for"))?;
        let mut serving = 0;
        loop {
            // Three sources, none of which may be lost: each look is short, and a signal is remembered between two.
            let look = Duration::from_millis(SIGNAL_LOOK_MS);
            match tokio::time::timeout(look, terminate.recv()).await {
                Ok(_signal) => {
                    tracing::info!("SIGTERM: finishing all logs");
                    return Ok(false);
                }
                Err(_nothing_yet) => {}
            }
            if tokio::time::timeout(Duration::ZERO, interrupt.recv()).await.is_ok() {
                tracing::info!("SIGINT: finishing all logs");
                return Ok(false);
            }
            while let Ok(news) = heard.try_recv() {
                match news {
                    CoreNews::Ended => return Ok(true),
                    CoreNews::Serves => serving += 1,
                }
                if serving == cores {
                    say_ready().map_err(fatal("stdout cannot be written"))?;
                }
            }
        }
    })
}

fn say_ready() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "ready slots={SLOTS} pid={}", std::process::id())?;
    out.flush()
}

fn join(threads: Vec<JoinHandle<Result<(), CoreCause>>>, early: bool) -> Result<(), Fatal> {
    let mut result = Ok(());
    for thread in threads {
        let ended = match thread.join() {
            Ok(Ok(())) => continue,
            Ok(Err(cause)) => Err(fatal("a core stopped")(cause)),
            Err(_panic) => Err(Fatal { what: "a core panicked; its message is above".to_owned(), cause: None }),
        };
        if result.is_ok() {
            result = ended;
        }
    }
    if early && result.is_ok() {
        result = Err(Fatal { what: "a core ended without being told to".to_owned(), cause: None });
    }
    result
}

/// Open files that are kept for everything but segments, or half of what there may be.
const OPEN_FILES_KEPT: usize = 1024;
/// With fewer open files than this we say so at the start.
const OPEN_FILES_WANTED: usize = 4096;
/// How often the main thread looks at its sources beside SIGTERM, in ms.
const SIGNAL_LOOK_MS: u64 = 20;
/// As a stock broker makes its folders; the umask may take rights away.
const FOLDER_MODE: u32 = 0o755;
