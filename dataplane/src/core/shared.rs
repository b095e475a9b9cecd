//! What everything on one core shares: its log home, its board and page, its partitions, its deadlines. Never leaves its thread.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use twinlog_proto::channel::message::Event;

use super::work::Work;
use crate::checkpoints::Checkpoints;
use crate::control::outbox::Outbox;
use crate::disk::{Alignment, Disk};
use crate::fault::{CoreCause, Fault};
use crate::housekeeping::Tracker;
use crate::limits::FLUSHES_PER_TICK;
use crate::log::{LogHome, LogSpec, PartitionLog};
use crate::metrics::{Counter, Delay, Metrics};
use crate::mirror::partition::Partition;
use crate::mirror::retry::Jitter;
use crate::wire::watch::Watchdog;

/// What the configuration says about a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreSettings {
    /// Which core, from 0.
    pub number: u32,
    /// How many there are.
    pub cores: u32,
    /// How long mirrored bytes may stay without a sync.
    pub flush_interval: Duration,
    /// How many bytes may.
    pub flush_bytes: u64,
    /// Connections to one source broker.
    pub connections_per_broker: u32,
    /// Segments that may be open at once.
    pub segments_open_max: usize,
}

/// See the module text.
pub struct Shared<D: Disk> {
    /// The configuration.
    pub settings: CoreSettings,
    /// What the logs share.
    pub home: LogHome<D>,
    /// Deadlines of connections.
    pub dog: Watchdog,
    /// Board and events.
    pub outbox: RefCell<Outbox>,
    /// Counters.
    pub metrics: Metrics,
    /// Writes the checkpoint files.
    pub tracker: Tracker,
    checkpoints: Arc<Checkpoints>,
    /// Logs that were opened before: what the checkpoint files said at the start holds for them no longer.
    opened: RefCell<HashSet<PathBuf>>,
    /// Data directories of which was said that they are written through the page cache.
    buffered: RefCell<HashSet<PathBuf>>,
    /// Jobs on logs.
    pub work: Rc<Work>,
    /// What writes to the files of a data directory must look like.
    alignments: RefCell<HashMap<PathBuf, Alignment>>,
    partitions: RefCell<Vec<Option<Rc<Partition<D>>>>>,
    free_tokens: RefCell<Vec<u32>>,
    /// Dirty logs, the one that has been so for longest first.
    dirty: RefCell<VecDeque<(u32, Instant)>>,
    /// Logs that were dirty by then are flushed at once: there is too much to lose.
    pressed_until: Cell<Option<Instant>>,
    unflushed_bytes: Cell<u64>,
    jitter: RefCell<Jitter>,
    /// Where the next look at the shared board begins.
    repair_from: Cell<usize>,
    /// Where the next look for segments to close begins.
    close_from: Cell<usize>,
    fault: RefCell<Option<CoreCause>>,
    fault_bell: Notify,
}

impl<D: Disk> std::fmt::Debug for Shared<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<D: Disk> Shared<D> {
    /// A core without partitions.
    #[must_use]
    pub fn new(
        settings: CoreSettings,
        home: LogHome<D>,
        ends: (Outbox, Metrics),
        kept: (Arc<Checkpoints>, Tracker),
    ) -> Self {
        let ((outbox, metrics), (checkpoints, tracker)) = (ends, kept);
        let seed = now_ms().cast_unsigned() ^ (u64::from(settings.number) << 48);
        Self {
            settings,
            home,
            dog: Watchdog::default(),
            outbox: RefCell::new(outbox),
            metrics,
            checkpoints,
            tracker,
            opened: RefCell::new(HashSet::new()),
            buffered: RefCell::new(HashSet::new()),
            work: Rc::default(),
            alignments: RefCell::new(HashMap::new()),
            partitions: RefCell::new(Vec::new()),
            free_tokens: RefCell::new(Vec::new()),
            dirty: RefCell::new(VecDeque::with_capacity(DIRTY)),
            pressed_until: Cell::new(None),
            unflushed_bytes: Cell::new(0),
            jitter: RefCell::new(Jitter::new(seed)),
            close_from: Cell::new(0),
            repair_from: Cell::new(0),
            fault: RefCell::new(None),
            fault_bell: Notify::new(),
        }
    }

    /// Adds a partition under a token of its own, which `make` gets.
    pub fn add(&self, make: impl FnOnce(u32) -> Rc<Partition<D>>) -> Rc<Partition<D>> {
        let mut partitions = self.partitions.borrow_mut();
        let token = self.free_tokens.borrow_mut().pop().unwrap_or(partitions.len() as u32);
        let partition = make(token);
        if token as usize == partitions.len() {
            partitions.push(None);
        }
        partitions[token as usize] = Some(Rc::clone(&partition));
        self.count_partitions(partitions.len());
        partition
    }

    fn count_partitions(&self, tokens: usize) {
        self.metrics.set(Counter::Partitions, (tokens - self.free_tokens.borrow().len()) as u64);
    }

    /// Lets go of a partition: its token and its slot are free.
    pub fn remove(&self, partition: &Partition<D>) {
        let mut partitions = self.partitions.borrow_mut();
        if partitions.get_mut(partition.token as usize).and_then(Option::take).is_some() {
            self.free_tokens.borrow_mut().push(partition.token);
        }
        self.count_partitions(partitions.len());
        // A slot that the board does not have was refused when the partition came.
        self.outbox.borrow().clear(partition.place.slot).ok();
    }

    /// The recovery point (0 unknown) and log start (-1 unknown) to open a log with: what the checkpoint files said at the start
    /// of the process, or what we left when we closed it.
    #[must_use]
    pub fn known_of(&self, partition: &Partition<D>) -> (i64, i64) {
        if let Some(left) = partition.last_progress() {
            return (left.flushed, left.log_start);
        }
        let place = &partition.place;
        if !self.opened.borrow_mut().insert(place.directory()) {
            return (0, -1);
        }
        let (dir, topic, index) = (&place.data_dir, &*place.topic, place.index);
        let recovery_point = self.checkpoints.recovery_point(dir, topic, index).unwrap_or(0);
        (recovery_point, self.checkpoints.log_start(dir, topic, index).unwrap_or(-1))
    }

    /// The folder was thrown away: what the checkpoint files said at the start holds for none that comes after it.
    pub fn note_discarded(&self, partition: &Partition<D>) {
        self.opened.borrow_mut().insert(partition.place.directory());
    }

    /// What is known of a log when it is opened with this recovery point and log start.
    #[must_use]
    pub fn log_spec(&self, partition: &Partition<D>, recovery_point: i64, log_start: i64) -> LogSpec {
        let alignment = self.alignments.borrow().get(&partition.place.data_dir).copied();
        LogSpec { alignment, ..partition.log_spec(recovery_point, log_start) }
    }

    /// The highest recovery point of this log that may stand in the checkpoint files.
    #[must_use]
    pub fn recovery_point_on_file(&self, partition: &Partition<D>) -> i64 {
        let place = &partition.place;
        let at_start = self.checkpoints.recovery_point(&place.data_dir, &place.topic, place.index).unwrap_or(0);
        partition.last_progress().map_or(at_start, |left| left.flushed.max(at_start))
    }

    /// Keeps what files of the data directory ask for, and says once that its writes go through the page cache.
    pub fn note_alignment(&self, data_dir: &Path, alignment: Alignment) {
        let direct = alignment.is_direct();
        if !self.alignments.borrow().contains_key(data_dir) {
            self.alignments.borrow_mut().insert(data_dir.to_owned(), alignment);
        }
        if !direct && self.buffered.borrow_mut().insert(data_dir.to_owned()) {
            let (core, folder) = (self.settings.number, data_dir.display());
            tracing::warn!(
                core,
                "without: direct writes; {folder} is written through the page cache (its filesystem refuses O_DIRECT, or direct_io = false)"
            );
        }
    }

    /// The partition of a token.
    #[must_use]
    pub fn partition(&self, token: u32) -> Option<Rc<Partition<D>>> {
        self.partitions.borrow().get(token as usize).cloned().flatten()
    }

    /// All partitions, as they are now.
    #[must_use]
    pub fn all(&self) -> Vec<Rc<Partition<D>>> {
        self.partitions.borrow().iter().flatten().cloned().collect()
    }

    /// Puts the partition's present value on the board.
    pub fn publish(&self, partition: &Partition<D>) {
        partition.note_progress(now_ms());
        let value = partition.board_value();
        let slot = partition.place.slot;
        let mut outbox = self.outbox.borrow_mut();
        if outbox.publish(slot, &value).is_ok() && partition.shows_news(&value) {
            outbox.event(Event::Changed { slot });
        }
    }

    /// A random number, for pauses.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.jitter.borrow_mut().draw()
    }

    /// A partition's fault: it stops. A core's fault: everything stops.
    pub fn fail(&self, partition: &Partition<D>, fault: Fault) {
        partition.fail(&fault);
        self.publish(partition);
        self.metrics.add(Counter::FaultsPartition, 1);
        let (from, to) = fault.range();
        self.outbox.borrow_mut().event(Event::Fault { slot: partition.place.slot, code: fault.code(), from, to });
        if let Fault::Core(cause) = fault {
            self.fail_core(cause);
        }
    }

    /// The partition's log failed: it must be settled before anything else is asked of it.
    pub fn log_broke(&self, partition: &Partition<D>, fault: Fault) {
        partition.set_broken(true);
        self.fail(partition, fault);
    }

    /// The core can go on no longer.
    pub fn fail_core(&self, cause: CoreCause) {
        self.fault.borrow_mut().get_or_insert(cause);
        self.fault_bell.notify_one();
    }

    /// Waits until the core can go on no longer, and says why.
    pub async fn failed(&self) -> CoreCause {
        loop {
            if let Some(cause) = self.fault.borrow_mut().take() {
                return cause;
            }
            self.fault_bell.notified().await;
        }
    }

    /// Writes of the partition completed: its log end moves, on the board too. To be called as well when a job gives the log
    /// back, for what completed meanwhile is told only once.
    pub fn complete(&self, partition: &Partition<D>, now: Instant) {
        match partition.look(PartitionLog::poll_progress) {
            Some(Ok(true)) => {
                self.publish(partition);
                let Some((progress, clean)) = partition.look(|log| (log.progress(), log.is_clean())) else { return };
                let (visible, flushed) = partition.take_delays(progress);
                for (delay, took) in [(Delay::Visible, visible), (Delay::Flushed, flushed)] {
                    if let Some(took) = took {
                        self.metrics.delay(delay, took);
                    }
                }
                if !clean {
                    self.dirty(partition, now);
                }
            }
            // Nothing moved, or a job has the log.
            Some(Ok(false)) | None => {}
            Some(Err(fault @ Fault::Core(_))) => self.fail(partition, fault),
            Some(Err(fault)) => self.log_broke(partition, fault),
        }
    }

    /// The log end of a partition moved: it wants a flush some time.
    pub fn dirty(&self, partition: &Partition<D>, now: Instant) {
        if partition.dirty_since(now) {
            self.dirty.borrow_mut().push_back((partition.token, now));
        }
    }

    /// Counts bytes that a flush has yet to cover.
    pub fn unflushed(&self, bytes: u64) {
        self.unflushed_bytes.set(self.unflushed_bytes.get() + bytes);
    }

    /// Starts the flushes that are due; the rest of them at the next tick, for syncs and writes share the same writers.
    pub fn flush_due(&self, now: Instant) {
        if self.unflushed_bytes.get() >= self.settings.flush_bytes {
            self.unflushed_bytes.set(0);
            self.pressed_until.set(Some(now));
        }
        for _started in 0..FLUSHES_PER_TICK {
            let Some((token, since)) = self.dirty.borrow().front().copied() else { return };
            let pressed = self.pressed_until.get().is_some_and(|until| since <= until);
            if !pressed && since + self.settings.flush_interval > now {
                return;
            }
            self.dirty.borrow_mut().pop_front();
            if let Some(partition) = self.partition(token) {
                self.begin_flush(&partition, now);
            }
        }
    }

    /// Closes segments of logs that have nothing under way when too many are open; they are opened again by their next record.
    pub fn bound_open_segments(&self) {
        let (disk, max) = (&self.home.disk, self.settings.segments_open_max);
        if disk.open_segments() <= max {
            return;
        }
        // A good part at once, so that the next record does not begin all over.
        let (partitions, enough) = (self.partitions.borrow(), max - max / 4);
        let count = partitions.len();
        for step in 0..count {
            let at = (self.close_from.get() + step) % count;
            let closed = partitions[at].as_ref().and_then(|partition| partition.look(PartitionLog::close_segment));
            if let Some(Err(fault)) = closed {
                // Its next write meets the same and says so.
                tracing::warn!(partition = ?partitions[at], "a segment could not be closed: {fault}");
            }
            if disk.open_segments() <= enough {
                self.close_from.set((at + 1) % count);
                return;
            }
        }
    }

    /// Moves to shared memory that was made anew, shows the counters, and puts right what others wrote over: all of it within
    /// seconds.
    pub fn look_after_memory(&self) {
        let partitions = self.partitions.borrow();
        let mut outbox = self.outbox.borrow_mut();
        outbox.move_over(partitions.iter().flatten().map(|partition| partition.place.slot));
        outbox.show_counters();
        let (count, from) = (partitions.len(), self.repair_from.get());
        let upto = (from + count / REPAIR_TICKS + 1).min(count);
        for partition in partitions[from.min(upto)..upto].iter().flatten() {
            outbox.repair(partition.place.slot);
        }
        self.repair_from.set(if upto == count { 0 } else { upto });
        if self.settings.number == 0 {
            outbox.repair_header();
        }
    }

    fn begin_flush(&self, partition: &Partition<D>, now: Instant) {
        partition.set_clean();
        match partition.look(PartitionLog::begin_flush) {
            Some(Ok(_begun)) => {}
            Some(Err(fault)) => self.log_broke(partition, fault),
            // A job has the log: what is dirty after it is flushed next time.
            None => self.dirty(partition, now),
        }
    }
}

/// Wall clock, ms since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Ticks in which the whole board is looked at once.
const REPAIR_TICKS: usize = 250;

/// Dirty logs that fit without the list growing.
const DIRTY: usize = 4096;
