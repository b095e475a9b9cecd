//! One partition on its core: its log, what it needs next, and what the board says of it.
//!
//! The log lies in a cell: a pump borrows it for the length of one call, never across an await. A job that must await on it
//! (open, finish, cut) takes it out, which ends an open region; the pump sees that by its region number and drops the rest.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::{FaultCode, SlotState, identity};
use twinlog_proto::ids::Uuid;

use super::plan::{Doing, Have, LogHere, Wish};
use super::progress::{CaughtUp, Density, FaultView, SourceView};
use super::retry::Backoff;
use super::team::Seat;
use crate::disk::Disk;
use crate::limits::PARTITION_PAUSE_MS_MAX;
use crate::log::{LogProgress, LogRules, PartitionLog};
use crate::wire::leaders::Leader;
use crate::wire::session::Want;

/// What an assignment says of a partition, apart from the wish.
#[derive(Debug, Clone)]
pub struct Place {
    /// Board slot.
    pub slot: u32,
    /// Topic name.
    pub topic: Rc<str>,
    /// Topic id, zero when the source has none.
    pub topic_id: Uuid,
    /// Partition index.
    pub index: i32,
    /// The data directory.
    pub data_dir: PathBuf,
    /// Rules of the log; the source may change them.
    pub rules: Cell<LogRules>,
}

impl Place {
    /// The partition's own directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.data_dir.join(format!("{}-{}", self.topic, self.index))
    }
}

/// What a mirroring partition needs from its source next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The source's log start: there is no local log.
    Start,
    /// Both ends of the source's log: it says that our offset is none of its.
    Range,
    /// A leader epoch that is not below this one.
    Epoch(i32),
    /// Records.
    Records,
}

/// See the module text.
pub struct Partition<D: Disk> {
    /// By which the core names it.
    pub token: u32,
    /// Where it belongs.
    pub place: Place,
    /// The slot's identity.
    pub(super) identity: u64,
    pub(super) state: RefCell<State>,
    pub(super) log: RefCell<Option<Box<PartitionLog<D>>>>,
    /// Number of the region that is open, 0 for none.
    pub(super) open_region: Cell<u64>,
    /// Regions so far.
    pub(super) regions: Cell<u64>,
    /// State, fault, version and attempt as the board showed them last.
    pub(super) shown: Cell<Option<(SlotState, FaultCode, u32, u32)>>,
    /// Where it sits: the pump that fetches for it.
    pub seat: RefCell<Option<Seat<D>>>,
}

pub(super) struct State {
    pub(super) wish: Wish,
    pub(super) version: u64,
    pub(super) tried: Option<Wish>,
    pub(super) carried_out: Option<(u64, i32)>,
    pub(super) cut: Option<(i64, i32)>,
    pub(super) busy: bool,
    pub(super) broken: bool,
    pub(super) log_here: LogHere,
    pub(super) doing: Doing,
    pub(super) need: Need,
    /// The source has answered a fetch since fetching began.
    pub(super) met: bool,
    pub(super) leader: Option<Leader>,
    pub(super) source: SourceView,
    pub(super) fault: FaultView,
    pub(super) caught_up: CaughtUp,
    pub(super) density: Density,
    pub(super) batches: u64,
    pub(super) bytes: u64,
    pub(super) last_progress: Option<LogProgress>,
    pub(super) start_within_segment: bool,
    /// An offset that arrived, when, and whether it is on the board and on the disk yet.
    pub(super) arrived: Option<(i64, Instant)>,
    pub(super) to_flush: Option<(i64, Instant)>,
    pub(super) batch_bytes: Option<u32>,
    pub(super) bytes_min: u32,
    pub(super) pause: Backoff,
    pub(super) retry_at: Option<Instant>,
    pub(super) corrupt_tries: u32,
    pub(super) sync_asked_at: Option<Instant>,
    pub(super) followed_start_at: Option<Instant>,
}

impl<D: Disk> std::fmt::Debug for Partition<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.place.topic, self.place.index)
    }
}

impl<D: Disk> Partition<D> {
    /// A partition of which nothing is known yet.
    #[must_use]
    pub fn new(token: u32, place: Place, wish: Wish, version: u64, first_pause_ms: u64) -> Self {
        let state = State {
            wish,
            version,
            tried: None,
            carried_out: None,
            cut: None,
            busy: false,
            broken: false,
            log_here: LogHere::Unknown,
            doing: Doing::Nothing,
            need: Need::Start,
            met: false,
            leader: None,
            source: SourceView::UNKNOWN,
            fault: FaultView::NONE,
            caught_up: CaughtUp::NEVER,
            density: Density::default(),
            batches: 0,
            bytes: 0,
            last_progress: None,
            start_within_segment: false,
            arrived: None,
            to_flush: None,
            batch_bytes: None,
            bytes_min: 0,
            pause: Backoff::new(first_pause_ms, PARTITION_PAUSE_MS_MAX),
            retry_at: None,
            corrupt_tries: 0,
            sync_asked_at: None,
            followed_start_at: None,
        };
        Self {
            token,
            identity: identity(place.topic_id, place.index),
            place,
            state: RefCell::new(state),
            log: RefCell::new(None),
            open_region: Cell::new(0),
            regions: Cell::new(0),
            shown: Cell::new(None),
            seat: RefCell::new(None),
        }
    }

    /// Takes a newer wish.
    pub fn set_wish(&self, wish: Wish, version: u64) {
        let mut state = self.state.borrow_mut();
        (state.wish, state.version) = (wish, version);
    }

    /// The wish now.
    #[must_use]
    pub fn wish(&self) -> Wish {
        self.state.borrow().wish
    }

    /// For the plan.
    #[must_use]
    pub fn have(&self) -> Have {
        let state = self.state.borrow();
        Have {
            busy: state.busy,
            log: state.log_here,
            broken: state.broken,
            doing: state.doing,
            tried: state.tried,
            cut: state.cut,
        }
    }

    /// The wish is fulfilled as far as orders go: the board shows its version.
    pub fn carried_out(&self) {
        let mut state = self.state.borrow_mut();
        state.tried = Some(state.wish);
        state.carried_out = Some((state.version, state.wish.attempt));
    }

    /// A job begins, or is over.
    pub fn set_busy(&self, busy: bool) {
        self.state.borrow_mut().busy = busy;
    }

    /// The log failed, or was put in order.
    pub fn set_broken(&self, broken: bool) {
        self.state.borrow_mut().broken = broken;
    }

    /// Looked: there is no directory.
    pub fn set_absent(&self) {
        self.state.borrow_mut().log_here = LogHere::Absent;
    }

    /// The log was closed: others may work on its files from now on.
    pub fn set_closed(&self) {
        self.state.borrow_mut().log_here = LogHere::Unknown;
    }

    /// Where the log stood when it was last seen, if it was.
    #[must_use]
    pub fn last_progress(&self) -> Option<LogProgress> {
        self.state.borrow().last_progress
    }

    /// Whether it waits for a newer leader epoch.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self.state.borrow().need, Need::Epoch(_))
    }

    /// The cut that the wish asks for was made.
    pub fn set_cut(&self, offset: i64, attempt: i32) {
        self.state.borrow_mut().cut = Some((offset, attempt));
    }

    /// From now on it fetches.
    pub fn run(&self) {
        let mut state = self.state.borrow_mut();
        state.doing = Doing::Mirroring;
        state.need = if state.log_here == LogHere::Open { Need::Records } else { Need::Start };
        state.met = false;
        state.fault = FaultView::NONE;
        state.retry_at = None;
        state.pause.reset();
        state.corrupt_tries = 0;
    }

    /// From now on it does not fetch.
    pub fn rest(&self, doing: Doing) {
        let mut state = self.state.borrow_mut();
        state.doing = doing;
        state.fault = FaultView::NONE;
        state.retry_at = None;
    }

    /// What it needs from its source, when it may ask now.
    #[must_use]
    pub fn need(&self, now: Instant) -> Option<Need> {
        let state = self.state.borrow();
        let waits = state.busy || state.retry_at.is_some_and(|at| at > now);
        (state.doing == Doing::Mirroring && !waits).then_some(state.need)
    }

    /// Changes what it needs from its source.
    pub fn set_need(&self, need: Need) {
        self.state.borrow_mut().need = need;
    }

    /// What the next fetch asks for, if it may fetch now.
    #[must_use]
    pub fn want(&self, now: Instant, max_bytes: i32) -> Option<Want> {
        if self.need(now) != Some(Need::Records) {
            return None;
        }
        let (state, log) = (self.state.borrow(), self.log.borrow());
        let (leader, log) = (state.leader?, log.as_ref()?);
        let whole = super::settings::whole_batches(max_bytes, state.batch_bytes);
        let max_bytes = whole.max(i32::try_from(state.bytes_min).unwrap_or(i32::MAX));
        Some(Want { leader_epoch: leader.epoch, offset: log.next_offset(), last_epoch: log.last_epoch(), max_bytes })
    }

    /// The leader known.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        self.state.borrow().leader
    }

    /// Whether it cannot go on before somebody says who leads it: nobody has yet, or the last word was wrong.
    #[must_use]
    pub fn waits_for_leader(&self) -> bool {
        let state = self.state.borrow();
        state.leader.is_none() || matches!(state.need, Need::Epoch(_)) || state.retry_at.is_some()
    }

    /// Takes a leader.
    pub fn set_leader(&self, leader: Leader) {
        let mut state = self.state.borrow_mut();
        state.leader = Some(leader);
        state.source.leader_epoch = leader.epoch;
        state.retry_at = None;
        if matches!(state.need, Need::Epoch(epoch) if epoch <= leader.epoch) {
            state.need = Need::Records;
        }
    }

    /// The source's log start, -1 unknown.
    #[must_use]
    pub fn source_log_start(&self) -> i64 {
        self.state.borrow().source.log_start
    }

    /// Whether it is time to follow the source's log start again.
    pub fn may_follow_start(&self, now: Instant, pause: Duration) -> bool {
        let mut state = self.state.borrow_mut();
        let may = !state.busy && state.followed_start_at.is_none_or(|at| now.duration_since(at) >= pause);
        if may {
            state.followed_start_at = Some(now);
        }
        may
    }
}
