//! One core: a pinned thread that owns its partitions, sockets, files, buffers, ring pair and board slots.
//!
//! Four small tasks beside the pumps: orders and mail change what is wanted, completions move log ends onto the board, the tick
//! looks after deadlines and flushes.

pub mod loader;
pub mod pin;
pub mod runtime;
pub mod shared;
pub mod work;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use twinlog_proto::channel::message::{Event, Order};
use twinlog_proto::channel::progress::{FaultCode, mirror_identity};
use twinlog_proto::messages::assignment::Assignment;

use self::loader::{Asker, Mail};
use self::runtime::spawn;
use self::shared::{CoreSettings, Shared};
use crate::buffers::Pool;
use crate::checkpoints::Checkpoints;
use crate::control::channel::{CoreEnds, Seat};
use crate::control::inbox::Inbox;
use crate::disk::uring::UringDisk;
use crate::disk::writers::Writers;
use crate::fault::CoreCause;
use crate::housekeeping::Tracker;
use crate::limits::{ORDERS_LOOK_MS, STAGES_PER_CORE, STOP_JOBS_MS_MAX, TICK_MS, WRITES_IN_FLIGHT_PER_CORE};
use crate::log::LogHome;
use crate::metrics::Counter;
use crate::mirror::crew::Crew;
use crate::mirror::jobs;
use crate::wire::uring::Tcp;

/// What a core is started with.
#[derive(Debug)]
pub struct CorePlan {
    /// The configuration.
    pub settings: CoreSettings,
    /// The processor to run on.
    pub processor: Option<usize>,
    /// Receive buffers.
    pub pieces: usize,
    /// Writes go past the page cache.
    pub direct_io: bool,
    /// Its place at the channel.
    pub seat: Seat,
    /// Its way to assignments.
    pub asker: Asker,
    /// Assignments, and the word to stop.
    pub mail: UnboundedReceiver<Mail>,
    /// What the checkpoint files said.
    pub checkpoints: Arc<Checkpoints>,
    /// Writes the checkpoint files.
    pub tracker: Tracker,
    /// Where it says how it stands.
    pub news: UnboundedSender<CoreNews>,
}

/// What a core tells the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreNews {
    /// It works.
    Serves,
    /// Its thread is about to end.
    Ended,
}

/// Runs the core on the calling thread until it is told to stop.
///
/// # Errors
/// Why it could not start or go on.
pub fn run(plan: CorePlan) -> Result<(), CoreCause> {
    let number = plan.settings.number;
    match plan.processor {
        Some(processor) if pin::pin(processor) => {}
        Some(processor) => {
            tracing::warn!(
                core = number,
                processor,
                "without: a pinned core; the system refuses this processor to this process"
            );
        }
        None => tracing::warn!(core = number, "without: a pinned core; there are fewer processors than cores"),
    }
    let ring = "a core cannot have an io_uring (kernel 5.19 or newer, io_uring_disabled = 0, enough locked memory)";
    runtime::run(serve(plan)).map_err(|source| CoreCause { what: ring.to_owned(), source })?
}

type Crews = RefCell<HashMap<u64, Rc<Crew<Tcp, UringDisk>>>>;

/// The core's own state: what orders and mail change.
struct Core {
    shared: Rc<Shared<UringDisk>>,
    crews: Crews,
    asker: Asker,
    stop: Notify,
    /// Everything is finished or about to be: nothing new is begun.
    finished: Cell<bool>,
}

async fn serve(plan: CorePlan) -> Result<(), CoreCause> {
    let CorePlan { settings, pieces, direct_io, seat, asker, mail, checkpoints, tracker, news, .. } = plan;
    let memory = |source| CoreCause { what: format!("no memory for {pieces} MiB of receive buffers"), source };
    let pool = Pool::new(pieces, STAGES_PER_CORE).map_err(memory)?;
    tell_what_is_missing(settings.number, &pool);
    let disk = Rc::new(if direct_io { UringDisk::new() } else { UringDisk::buffered() });
    let writers = Writers::start(Rc::clone(&disk), WRITES_IN_FLIGHT_PER_CORE);
    let CoreEnds { inbox, outbox, metrics } = seat.take();
    let home = LogHome { disk, pool, writers };
    let shared = Rc::new(Shared::new(settings, home, (outbox, metrics), (checkpoints, tracker)));
    let core = Rc::new(Core {
        shared: Rc::clone(&shared),
        crews: RefCell::new(HashMap::new()),
        asker,
        stop: Notify::new(),
        finished: Cell::new(false),
    });
    spawn(completions(Rc::clone(&shared)));
    spawn(tick(Rc::clone(&shared)));
    let bell = "a core cannot wait for its doorbell";
    let orders = Orders::new(inbox).map_err(|source| CoreCause { what: bell.to_owned(), source })?;
    spawn(orders.run(Rc::clone(&core)));
    spawn(letters(Rc::clone(&core), mail));
    core.asker.all();
    // The main thread outlives its cores.
    news.send(CoreNews::Serves).ok();
    let failed = Rc::new(RefCell::new(None));
    {
        let (core, failed) = (Rc::clone(&core), Rc::clone(&failed));
        spawn(async move {
            let cause = core.shared.failed().await;
            core.shared.metrics.add(Counter::FaultsCore, 1);
            tracing::error!("the core stops: {cause}; it recovers from what the disk holds at the next start");
            *failed.borrow_mut() = Some(cause);
            core.stop.notify_one();
        });
    }
    core.stop.notified().await;
    if let Some(cause) = failed.borrow_mut().take() {
        // Nothing is finished: what the disk holds is what counts now.
        return Err(cause);
    }
    core.finish().await;
    Ok(())
}

impl Core {
    fn take_mail(&self, mail: Mail) {
        match mail {
            Mail::Assignment(_) if self.finished.get() => {}
            Mail::Assignment(assignment) => {
                let mirror = mirror_identity(&assignment.mirror_name);
                let known = self.crews.borrow().get(&mirror).cloned();
                let crew = known.unwrap_or_else(|| {
                    let crew = Crew::start(&self.shared, &assignment.mirror_name);
                    self.crews.borrow_mut().insert(mirror, Rc::clone(&crew));
                    crew
                });
                if assignment.assignment_version >= crew.version() {
                    tracing::info!(
                        mirror = assignment.mirror_name,
                        version = assignment.assignment_version,
                        "assignment taken"
                    );
                    crew.apply(&assignment);
                }
            }
            Mail::Unreadable { mirror } => {
                let event = Event::MirrorFault { mirror, code: FaultCode::ASSIGNMENT };
                self.shared.outbox.borrow_mut().event(event);
            }
            Mail::Gone { mirror } => {
                let crew = self.crews.borrow().get(&mirror).cloned();
                if let Some(crew) = crew {
                    tracing::info!(mirror = &*crew.name, "the mirror leaves");
                    // The crew stays until its logs are let go of, and waits for the mirror to come back.
                    let nothing = Assignment {
                        mirror_name: crew.name.to_string(),
                        assignment_version: -1,
                        ..Assignment::default()
                    };
                    crew.apply(&Arc::new(nothing));
                }
            }
            Mail::Stop => self.stop.notify_one(),
        }
        self.shared.outbox.borrow_mut().ring();
    }

    fn take_order(self: &Rc<Self>, order: Order) {
        match order {
            Order::AssignmentCurrent { mirror, version } => self.asker.one(mirror, version),
            // The file decides, not the order: it may be back by now.
            Order::AssignmentRemoved { mirror } => self.asker.one(mirror, u64::MAX),
            Order::Drain => {
                let core = Rc::clone(self);
                spawn(async move {
                    core.finish().await;
                    core.shared.outbox.borrow_mut().event(Event::Drained);
                });
            }
        }
    }

    /// Stops all pumps and finishes all logs.
    async fn finish(&self) {
        self.finished.set(true);
        for crew in self.crews.borrow_mut().drain() {
            crew.1.end();
        }
        self.shared.dog.end_all();
        // What was not begun leaves its files as they are.
        self.shared.work.forget_waiting();
        let longest = Duration::from_millis(STOP_JOBS_MS_MAX);
        if tokio::time::timeout(longest, self.shared.work.over()).await.is_err() {
            tracing::warn!("a job on a log takes too long to wait for it; its log is recovered at the next start");
        }
        for partition in self.shared.all() {
            // Nothing was written to an empty log, so there is nothing to finish: fifty thousand of them end at once.
            if partition.look(|log| !log.is_empty() || !log.is_clean()) == Some(true) {
                let shared = Rc::clone(&self.shared);
                self.shared.work.push(move || jobs::last(shared, partition));
            }
        }
        self.shared.work.over().await;
        self.shared.outbox.borrow_mut().ring();
    }
}

async fn letters(core: Rc<Core>, mut mail: UnboundedReceiver<Mail>) {
    while let Some(letter) = mail.recv().await {
        core.take_mail(letter);
    }
}

/// The orders of the control plane, and the bell that tells of them.
struct Orders {
    inbox: Inbox,
    bell: AsyncFd<std::os::fd::OwnedFd>,
}

impl Orders {
    fn new(inbox: Inbox) -> io::Result<Self> {
        let own = inbox.bell().try_clone_to_owned()?;
        #[expect(deprecated, reason = "unsound only for descriptors that may be closed early; this one is owned")]
        let bell = AsyncFd::new(own)?;
        Ok(Self { inbox, bell })
    }

    async fn run(mut self, core: Rc<Core>) {
        loop {
            self.inbox.drain_bell();
            while let Some(order) = self.inbox.take() {
                core.take_order(order);
            }
            let look = Duration::from_millis(ORDERS_LOOK_MS);
            match tokio::time::timeout(look, self.bell.readable()).await {
                Ok(Ok(mut ready)) => ready.clear_ready(),
                // Who wrote into the ring need not have rung.
                Err(_elapsed) => {}
                Ok(Err(error)) => {
                    tracing::error!("orders are taken no longer: {error}");
                    return;
                }
            }
        }
    }
}

/// Moves log ends to the board as writes complete.
async fn completions(shared: Rc<Shared<UringDisk>>) {
    loop {
        shared.home.writers.changed().await;
        let now = Instant::now();
        while let Some(token) = shared.home.writers.take_changed() {
            if let Some(partition) = shared.partition(token) {
                shared.complete(&partition, now);
            }
        }
        shared.outbox.borrow_mut().ring();
    }
}

async fn tick(shared: Rc<Shared<UringDisk>>) {
    let mut interval = tokio::time::interval(Duration::from_millis(TICK_MS));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let now = Instant::now();
        shared.dog.check(now);
        shared.flush_due(now);
        shared.look_after_memory();
        shared.metrics.add(Counter::Turns, 1);
        shared.metrics.publish_allocations();
        let counts = shared.home.writers.counts();
        shared.metrics.set(Counter::Writes, counts.writes);
        shared.metrics.set(Counter::WriteBytes, counts.write_bytes);
        shared.metrics.set(Counter::Fsyncs, counts.syncs);
        shared.metrics.set(Counter::BuffersFree, shared.home.pool.free_pieces() as u64);
        shared.outbox.borrow_mut().ring();
    }
}

fn tell_what_is_missing(core: u32, pool: &Pool) {
    let report = pool.report();
    for missing in [&report.pages_missing, &report.registration_missing].into_iter().flatten() {
        tracing::warn!(core, "without: {missing}");
    }
}
