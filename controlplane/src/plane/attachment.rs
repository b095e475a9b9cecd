//! The connection to the data plane: attached while it lives, looked for while it does not.
//!
//! Everything that is read here comes from another process: a slot that breaks the layout reads as unknown, a ring that is
//! broken is left, and the first of it is reported.

use crate::limits::{ATTACH_RETRY, CORE_SILENCE_MAX, SLOTS_BEFORE_FIRST_SIGHT};
use crate::plane::pace::{Pace, Tracker};
use crate::plane::view::Slots;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use twinlog_proto::channel::attach::{self, AttachError, Control, SOCKET_NAME, TakeError};
use twinlog_proto::channel::board::{BoardReader, Seen};
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
    absent_because: RefCell<String>,
    /// What the attached data plane broke first; it is said once, for a broken one breaks everything at every look.
    broken: RefCell<Option<String>>,
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
            broken: RefCell::default(),
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

    /// What the attached data plane wrote that no working one writes; `None` when there was nothing.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.broken.borrow().clone()
    }

    fn say_broken(&self, what: String) {
        let mut first = self.broken.borrow_mut();
        match *first {
            Some(_) => debug!("{what}"),
            None => {
                warn!("{what}; restart the data plane");
                *first = Some(what);
            }
        }
    }

    /// How many data planes have been attached; a change means that all orders are to be sent.
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
                Err(cause @ PushError::Broken(_)) => {
                    self.say_broken(format!("the order ring of core {core} was started anew: {cause}"));
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
                    Err(cause @ TakeError::Broken(_)) => {
                        debug!(core, %cause, "the board tells all the same");
                        break;
                    }
                    Err(cause) => self.say_broken(format!("an event of core {core} is not understood: {cause}")),
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

    /// Keeps the link for ever: attaches, waits for the end of the data plane, attaches again.
    pub async fn keep(self: Rc<Self>) {
        loop {
            let socket = self.socket.clone();
            let attached = tokio::task::spawn_blocking(move || attach::attach_control(&socket)).await;
            match attached {
                Ok(Ok(control)) => self.stay(control).await,
                Ok(Err(cause)) => self.say_absent(&cause),
                Err(cause) => warn!(%cause, "looking for the data plane was cut short"),
            }
            tokio::time::sleep(ATTACH_RETRY).await;
        }
    }

    async fn stay(self: &Rc<Self>, control: Control) {
        let stamp = control.region.view().stamp();
        let watched = match Watched::new(&control) {
            Ok(watched) => watched,
            Err(cause) => {
                warn!(%cause, "the data plane's doorbells cannot be watched");
                return;
            }
        };
        let board = control.region.view().board();
        info!(pid = stamp.pid, generation = stamp.generation, slots = board.slots(), "attached to the data plane");
        self.slots_seen.set(board.slots());
        *self.broken.borrow_mut() = None;
        *self.attached.borrow_mut() = Some(Attached { control, board });
        self.arrivals.set(self.arrivals.get() + 1);
        self.bell.notify_one();
        watched.until_over(&self.bell).await;
        *self.attached.borrow_mut() = None;
        *self.broken.borrow_mut() = None;
        "it ended".clone_into(&mut self.absent_because.borrow_mut());
        warn!(pid = stamp.pid, "the data plane is gone; offsets are unknown until it is back");
        self.bell.notify_one();
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
        match attached.as_ref()?.board.read(slot) {
            Ok(Seen::Value(progress)) => Some(progress),
            Ok(Seen::Empty | Seen::Busy) => None,
            Ok(Seen::Broken(bad)) => {
                self.say_broken(format!("slot {slot} of the board shows something impossible: {bad}"));
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
