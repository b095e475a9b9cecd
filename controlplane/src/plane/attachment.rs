//! The connection to the data plane: attached while it lives, looked for while it does not.
//!
//! Everything that is read here comes from another process: a slot that breaks the layout reads as unknown, a ring that is
//! broken is left, and the first of it is reported: the region is dropped, and the data plane asked for another one (`memory`).

use crate::limits::{ATTACH_RETRY, CORE_SILENCE_MAX, SLOTS_BEFORE_FIRST_SIGHT};
use crate::plane::memory::{MemoryFacts, SharedMemory};
use crate::plane::pace::{Pace, Tracker};
use crate::plane::view::Slots;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, error, info, warn};
use twinlog_proto::channel::attach::{self, AttachError, Control, SOCKET_NAME, TakeError};
use twinlog_proto::channel::board::{BoardReader, Seen};
use twinlog_proto::channel::damage::{Damage, Part};
use twinlog_proto::channel::handshake::{Hello, Standing};
use twinlog_proto::channel::message::Order;
use twinlog_proto::channel::page::{Counter, Delay, Histogram};
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::channel::region::Window;
use twinlog_proto::channel::ring::PushError;

/// The data plane, as far as it is there.
#[derive(Debug)]
pub struct Link {
    socket: PathBuf,
    attached: RefCell<Option<Attached>>,
    /// Told when the data plane came or rang.
    bell: Rc<Notify>,
    /// Counts attachments, so that a new one is noticed.
    arrivals: Cell<u64>,
    /// The data plane that was attached last, and how many there were.
    planes: Cell<(Option<u32>, u64)>,
    absent_because: RefCell<String>,
    memory: RefCell<SharedMemory>,
    /// Told when the data plane is to be told of damage.
    damaged: Notify,
    slots_seen: Cell<u32>,
    /// What the board showed over time; outlives the data plane.
    tracker: RefCell<Tracker>,
    /// The turns of each core, and since when they are the same.
    turns: RefCell<Vec<(u64, Instant)>>,
    /// Cores that have turned, and do no more.
    silent: RefCell<Vec<u32>>,
}

#[derive(Debug)]
struct Attached {
    control: Control,
    board: BoardReader<Window>,
}

/// A core's numbers, for metrics.
#[derive(Debug)]
pub struct CoreNumbers {
    /// Every counter, in the order of `Counter::ALL`.
    pub counters: Vec<u64>,
    /// Every delay, in the order of `Delay::ALL`.
    pub delays: Vec<Histogram>,
}

impl Link {
    /// A link to the data plane whose files are in `state`.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self {
            socket: state.join(SOCKET_NAME),
            attached: RefCell::new(None),
            bell: Rc::new(Notify::new()),
            arrivals: Cell::new(0),
            absent_because: RefCell::new("it was not looked for yet".to_owned()),
            planes: Cell::default(),
            memory: RefCell::default(),
            damaged: Notify::new(),
            slots_seen: Cell::new(SLOTS_BEFORE_FIRST_SIGHT),
            tracker: RefCell::default(),
            turns: RefCell::default(),
            silent: RefCell::default(),
        }
    }

    /// Whether a data plane is attached.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.attached.borrow().is_some()
    }

    /// Why there is no data plane.
    #[must_use]
    pub fn absent_because(&self) -> String {
        self.absent_because.borrow().clone()
    }

    /// How the memory that the planes share is, at `now_ms` since 1970.
    #[must_use]
    pub fn memory(&self, now_ms: i64) -> MemoryFacts {
        self.memory.borrow().facts(now_ms)
    }

    /// Damage in the region of `control`: said once of each region, for one that is damaged is so at every look.
    fn say_damaged(&self, control: &Control, damage: Damage, detail: &dyn Display) {
        let generation = control.region.view().stamp().generation;
        if self.memory.borrow_mut().find(generation, damage, detail.to_string()) {
            error!(%damage, %detail, "the shared memory is damaged; the data plane is asked for another one");
            self.damaged.notify_one();
        } else {
            debug!(%damage, %detail, "the shared memory is still damaged");
        }
    }

    /// How many data planes have been attached so far.
    #[must_use]
    pub fn planes(&self) -> u64 {
        self.planes.get().1
    }

    /// How many regions have been attached; a change means that all orders are to be sent.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals.get()
    }

    /// Process id of the attached data plane.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.attached.borrow().as_ref().map(|attached| attached.control.region.view().stamp().pid)
    }

    /// Waits until the data plane came or rang.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Sends an order to every core; false when one of them did not take it.
    pub fn announce(&self, order: &Order) -> bool {
        let mut attached = self.attached.borrow_mut();
        let Some(Attached { control, .. }) = attached.as_mut() else { return true };
        let mut all = true;
        for core in 0..control.region.view().geometry().cores() {
            match control.send(core, order) {
                Ok(()) => {}
                Err(PushError::Full) => all = false,
                Err(PushError::Broken(broken)) => {
                    self.say_damaged(control, Damage::of(Part::OrderRing, core), &broken);
                    all = false;
                }
            }
        }
        all
    }

    /// Empties the event rings: they only say that there is something to see.
    pub fn drain_events(&self) {
        let mut attached = self.attached.borrow_mut();
        let Some(Attached { control, .. }) = attached.as_mut() else { return };
        let geometry = control.region.view().geometry();
        for core in 0..geometry.cores() {
            // One ring full and no more: who sends faster than this is looked at again at the next ring or poll.
            for _ in 0..geometry.event_entries() {
                match control.take(core) {
                    Ok(Some(event)) => debug!(core, ?event, "the data plane says"),
                    Ok(None) => break,
                    Err(TakeError::Broken(broken)) => {
                        // The board tells all the same.
                        self.say_damaged(control, Damage::of(Part::EventRing, core), &broken);
                        break;
                    }
                    Err(cause) => self.say_damaged(control, Damage::of(Part::Event, core), &cause),
                }
            }
        }
    }

    /// The numbers of each core.
    #[must_use]
    pub fn core_numbers(&self) -> Vec<CoreNumbers> {
        let attached = self.attached.borrow();
        let Some(Attached { control, .. }) = attached.as_ref() else { return Vec::new() };
        let view = control.region.view();
        let numbers = |core| {
            let page = view.page(core);
            CoreNumbers {
                counters: Counter::ALL.iter().map(|counter| page.get(*counter)).collect(),
                delays: Delay::ALL.iter().map(|delay| page.delays(*delay)).collect(),
            }
        };
        (0..view.geometry().cores()).map(numbers).collect()
    }

    /// Cores of the attached data plane that do not turn any more; the slots of theirs read as unknown.
    #[must_use]
    pub fn silent_cores(&self) -> Vec<u32> {
        self.silent.borrow().clone()
    }

    fn count_turns(&self) {
        let attached = self.attached.borrow();
        let (mut turns, mut silent) = (self.turns.borrow_mut(), self.silent.borrow_mut());
        silent.clear();
        let Some(Attached { control, .. }) = attached.as_ref() else { return turns.clear() };
        let view = control.region.view();
        turns.resize(view.geometry().cores() as usize, (0, Instant::now()));
        for (core, known) in (0..).zip(turns.iter_mut()) {
            let now = view.page(core).get(Counter::Turns);
            if now != known.0 {
                *known = (now, Instant::now());
            } else if now > 0 && known.1.elapsed() > CORE_SILENCE_MAX {
                silent.push(core);
            }
        }
    }

    /// Takes in where all partitions stand; true when some of them move.
    pub fn track(&self, now_ms: i64) -> bool {
        self.count_turns();
        let slots = if self.is_attached() { self.slots_seen.get() } else { 0 };
        for slot in 0..slots {
            if let Some(seen) = self.slot(slot) {
                self.tracker.borrow_mut().see(slot, &seen, now_ms);
            }
        }
        self.tracker.borrow().is_moving()
    }

    /// Keeps the link for ever: attaches, waits for the end of the data plane or of its region, attaches again.
    pub async fn keep(self: Rc<Self>) {
        loop {
            let (socket, hello, began) = (self.socket.clone(), self.memory.borrow().hello(), Instant::now());
            let attached = tokio::task::spawn_blocking(move || attach::attach_control_as(&socket, hello)).await;
            match attached {
                Ok(Ok(control)) => self.stay(hello, control).await,
                Ok(Err(cause)) => {
                    if let AttachError::Damaged { generation, cause } = &cause {
                        self.memory.borrow_mut().find(*generation, Damage::HEADER, cause.to_string());
                    }
                    self.say_absent(&cause);
                }
                Err(cause) => warn!(%cause, "looking for the data plane was cut short"),
            }
            // A region that was made anew is waiting; who comes and goes is not looked for more often than one who is away.
            if began.elapsed() < ATTACH_RETRY {
                tokio::time::sleep(ATTACH_RETRY).await;
            }
        }
    }

    async fn stay(self: &Rc<Self>, hello: Hello, control: Control) {
        let stamp = control.region.view().stamp();
        let watched = match Watched::new(&control) {
            Ok(watched) => watched,
            Err(cause) => {
                warn!(%cause, "the data plane's doorbells cannot be watched");
                return;
            }
        };
        let board = control.region.view().board();
        self.note_arrival(hello, &control);
        self.slots_seen.set(board.slots());
        *self.attached.borrow_mut() = Some(Attached { control, board });
        self.arrivals.set(self.arrivals.get() + 1);
        self.bell.notify_one();
        tokio::select! {
            () = watched.until_over(&self.bell) => {
                "its connection ended".clone_into(&mut self.absent_because.borrow_mut());
                info!(pid = stamp.pid, "the data plane closed the connection; it is looked for again");
            }
            () = self.until_damaged() => {
                "its shared memory is damaged".clone_into(&mut self.absent_because.borrow_mut());
            }
        }
        *self.attached.borrow_mut() = None;
        self.bell.notify_one();
    }

    /// Says who came, and what became of the memory of one who was there before.
    fn note_arrival(&self, hello: Hello, control: &Control) {
        let (stamp, told) = (control.region.view().stamp(), control.memory);
        let (known, planes) = self.planes.get();
        let mut memory = self.memory.borrow_mut();
        if known != Some(stamp.pid) {
            self.planes.set((Some(stamp.pid), planes + 1));
            memory.forget();
        }
        let anew = memory.attached(hello, stamp.generation, told);
        info!(pid = stamp.pid, generation = stamp.generation, "attached to the data plane");
        if let Some(damage) = told.damage.filter(|_| anew) {
            warn!(%damage, renewed = told.renewed, "the data plane made the damaged shared memory anew; all orders are sent again");
        }
        if told.standing != Standing::Sound {
            error!(standing = ?told.standing, "the shared memory is damaged, and not made anew at once: find who writes into it");
        }
    }

    /// Waits until the data plane is to be told of damage.
    async fn until_damaged(&self) {
        while self.memory.borrow().hello() == Hello::Control {
            self.damaged.notified().await;
        }
    }

    fn say_absent(&self, cause: &AttachError) {
        let text = cause.to_string();
        let mut known = self.absent_because.borrow_mut();
        if *known != text {
            warn!(%cause, "no data plane");
            *known = text;
        }
    }
}

impl Slots for Link {
    fn slot(&self, slot: u32) -> Option<PartitionProgress> {
        let attached = self.attached.borrow();
        let silent = self.silent.borrow();
        if !silent.is_empty() && silent.contains(&(slot % self.turns.borrow().len().max(1) as u32)) {
            // What stands still is no news.
            return None;
        }
        let attached = attached.as_ref()?;
        match attached.board.read(slot) {
            Ok(Seen::Value(progress)) => Some(progress),
            Ok(Seen::Empty | Seen::Busy) => None,
            Ok(Seen::Broken(bad)) => {
                self.say_damaged(&attached.control, Damage::of(Part::Slot, slot), &bad);
                None
            }
            Err(cause) => {
                debug!(%cause, "a slot is beyond the board");
                None
            }
        }
    }

    fn slots_max(&self) -> u32 {
        self.slots_seen.get()
    }

    fn pace(&self, slot: u32, seen: &PartitionProgress, now_ms: i64) -> Pace {
        self.tracker.borrow_mut().see(slot, seen, now_ms)
    }
}

/// Descriptors of the attachment that are waited for.
struct Watched {
    socket: AsyncFd<OwnedFd>,
    bells: Vec<AsyncFd<OwnedFd>>,
}

impl Watched {
    fn new(control: &Control) -> io::Result<Self> {
        #[expect(deprecated, reason = "an `OwnedFd` keeps its promise, and the replacement is unsafe")]
        let watch = |fd: BorrowedFd<'_>| AsyncFd::with_interest(fd.try_clone_to_owned()?, Interest::READABLE);
        let bells = control.cores.iter().map(|line| watch(line.events_bell.as_fd())).collect::<io::Result<_>>()?;
        Ok(Self { socket: watch(control.socket.as_fd())?, bells })
    }

    /// Passes every ring on, until the data plane is gone.
    async fn until_over(self, bell: &Rc<Notify>) {
        let pass_on = |fd: AsyncFd<OwnedFd>| {
            let bell = Rc::clone(bell);
            Ends(tokio::task::spawn_local(async move {
                while let Ok(mut ready) = fd.readable().await {
                    let mut count = [0; 8];
                    // The count does not matter, and a bell that is silent again is as good.
                    rustix::io::read(fd.get_ref(), &mut count).ok();
                    ready.clear_ready();
                    bell.notify_one();
                }
            }))
        };
        let _passing: Vec<Ends> = self.bells.into_iter().map(pass_on).collect();
        // Whatever can be read, or an error, is the end.
        self.socket.readable().await.ok();
    }
}

/// A task that ends with its owner.
struct Ends(JoinHandle<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}
