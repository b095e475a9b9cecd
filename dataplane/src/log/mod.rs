//! One partition's log: the only door to its files.
//!
//! ```text
//! begin_region  append* | stage*  end_region     synchronous: walk, check, decide, roll, submit writes
//!        writer tasks of the core                 the writes themselves, several at once
//! poll_progress                                  completions in order: the log end moves here, never on submission
//! begin_flush / flush                            epoch file, fdatasync: the flushed offset moves
//! settle cut advance_log_start finish            rare; they wait for every write first
//! ```
//!
//! Three ends, in this order: `flushed` <= `leo` (written and verified) <= `next_offset` (verified, perhaps on its way).
//! Bytes of a batch may be on disk before its CRC is known; they lie above the log end and are overwritten by the next
//! append, or cut by recovery. Indexes, snapshots and the epoch file may trail the `.log`, they never lead it.
//!
//! After a fault of `append`, `poll_progress` or `begin_flush` the log takes nothing until `settle` put it back to its end.

mod accept;
mod append;
pub mod beyond;
mod carry;
pub mod clone;
mod cut;
pub mod discard;
mod faults;
mod flush;
mod index;
mod leftovers;
mod load;
pub mod offline;
mod progress;
mod resume;
mod roll;
mod scan;
mod segment;
mod span;
mod spec;
mod unshare;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twinlog_proto::records::batches::{BatchLimits, BatchWalker};
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::producer_state::ProducerState;
use twinlog_proto::storage::roll::RollRules;
use twinlog_proto::storage::segment_indexer::IndexRules;

use self::append::Region;
use self::carry::Backlog;
use self::roll::{Closed, Closing};
use self::segment::Segment;
use self::span::{Span, Tails};
pub use self::spec::{AppendStop, LogProgress, LogRules, LogSpec, RegionEnd, RegionRules};
use crate::buffers::Pool;
use crate::disk::jobs::Jobs;
use crate::disk::writers::Writers;
use crate::disk::{Alignment, Disk};
use crate::fault::Fault;

/// What all logs of one core share.
#[derive(Debug)]
pub struct LogHome<D: Disk> {
    /// The disk.
    pub disk: Rc<D>,
    /// The buffers.
    pub pool: Pool,
    /// The writer tasks and the changed queue.
    pub writers: Writers<D>,
}

impl<D: Disk> Clone for LogHome<D> {
    fn clone(&self) -> Self {
        Self { disk: Rc::clone(&self.disk), pool: self.pool.clone(), writers: self.writers.clone() }
    }
}

/// See the module text.
pub struct PartitionLog<D: Disk> {
    home: LogHome<D>,
    spec: LogSpec,
    roll_rules: RollRules,
    index_rules: IndexRules,
    /// The partition's directory.
    dir: PathBuf,
    /// What writes to its files must look like.
    alignment: Alignment,
    /// Whether the filesystem can allocate in advance.
    allocates: bool,
    jobs: Rc<Jobs<D>>,
    health: Health,

    active: Segment<D>,
    /// Older segments, oldest first; those at the back may still be in `closing`.
    closed: VecDeque<Closed>,
    closing: VecDeque<Closing<D>>,
    unsynced: Unsynced,
    /// Whether a flush is under way.
    flushing: bool,
    /// Whether somebody else makes the whole filesystem durable once all work is done: then a flush only writes.
    syncs_later: bool,

    /// The end of what was verified.
    next_offset: i64,
    /// The ends that completions reached.
    reached: LogProgress,
    /// What `poll_progress` told last.
    told: LogProgress,
    producers: ProducerState,
    epochs: LeaderEpochs,
    /// Whether the epoch file lacks an entry.
    epochs_changed: bool,

    walker: BatchWalker,
    region: Option<Region>,
    /// A stage that is being filled.
    open_span: Option<Span>,
    /// What is left of a piece after a roll carried the beginning over.
    backlog: Option<Backlog>,
    /// File position of the region's next byte; at or behind the end of the last whole batch.
    raw: u64,
    /// The partly filled last block; none in an idle log, which reads it again.
    tails: Option<Box<Tails>>,
}

/// Whether the log takes records.
#[derive(Debug)]
enum Health {
    Good,
    /// A sync failed: what is on the disk is not known any more.
    Dead,
    /// Something failed; what is in memory may be ahead of the files. The fault, unless it was handed out already.
    Broken(Option<Fault>),
}

/// What a flush must make durable besides the active segment.
#[derive(Debug, Default)]
struct Unsynced {
    /// Names were added to the directory (or it is new).
    directory: bool,
    /// Closed segments, by base offset.
    segments: VecDeque<i64>,
    /// Producer snapshots, by offset.
    snapshots: VecDeque<i64>,
}

/// The files that a segment may have.
const SEGMENT_FILES: [FileKind; 4] = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex];

impl<D: Disk> PartitionLog<D> {
    /// The offset to fetch next: the end of what was verified, also when its writes are still under way.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Leader epoch of the batch before [`Self::next_offset`] (for `LastFetchedEpoch`); -1 when there is none.
    #[must_use]
    pub fn last_epoch(&self) -> i32 {
        self.epochs.latest().map_or(NO_EPOCH, |latest| latest.epoch)
    }

    /// The history of leader epochs, up to [`Self::next_offset`].
    #[must_use]
    pub fn epochs(&self) -> &LeaderEpochs {
        &self.epochs
    }

    /// The state of the producers at [`Self::next_offset`]: open transactions, last sequences.
    #[must_use]
    pub fn producers(&self) -> &ProducerState {
        &self.producers
    }

    /// Where the log stands by the completions seen so far.
    #[must_use]
    pub fn progress(&self) -> LogProgress {
        self.reached
    }

    /// Where in a lease, modulo the file's alignment, the next byte of a region must sit to be written without a copy.
    /// To be asked before each receive; 0 in buffered mode.
    #[must_use]
    pub fn residue(&self) -> usize {
        let waiting = self.open_span.as_ref().map_or(0, Span::bytes) as u64;
        ((self.raw + waiting) % self.alignment.bytes as u64) as usize
    }

    /// Whether everything below [`Self::next_offset`] is durable and nothing is under way.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.reached.flushed == self.next_offset && self.jobs.is_empty() && matches!(self.health, Health::Good)
    }

    /// Segments that wait for their last writes; 0 when the log takes nothing anyway.
    #[must_use]
    pub fn closing(&self) -> usize {
        if matches!(self.health, Health::Good) { self.closing.len() } else { 0 }
    }

    /// Bytes of all segments, up to [`Self::next_offset`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.closed.iter().map(|closed| closed.bytes).sum::<u64>() + self.active.end
    }

    /// Base offset of the first segment; the log may start above it.
    #[must_use]
    pub fn first_base(&self) -> i64 {
        self.closed.front().map_or(self.active.base, |first| first.base)
    }

    /// What writes to its files look like.
    #[must_use]
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }

    /// The partition's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the log holds no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.active.end == 0
    }

    /// Notes that memory may be ahead of the files; the fault goes to whoever asked.
    fn broken(&mut self, fault: Fault) -> Fault {
        self.health = if matches!(fault, Fault::Core(_)) { Health::Dead } else { Health::Broken(None) };
        fault
    }
}

impl<D: Disk> fmt::Debug for PartitionLog<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLog")
            .field("dir", &self.dir)
            .field("next_offset", &self.next_offset)
            .field("reached", &self.reached)
            .field("active", &self.active)
            .field("closed", &self.closed.len())
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

/// "No leader epoch", in Kafka's number.
const NO_EPOCH: i32 = -1;

/// The file of this kind that is named by `offset`.
fn files_of(dir: &Path, offset: i64, kind: FileKind) -> PathBuf {
    dir.join(names::file_name(offset, kind))
}

/// The same for a moment, in memory that is used again: a flush allocates nothing for names.
fn with_file_of<R>(dir: &Path, offset: i64, kind: FileKind, work: impl FnOnce(&Path) -> R) -> R {
    thread_local! {
        static NAME: RefCell<(PathBuf, String)> = const { RefCell::new((PathBuf::new(), String::new())) };
    }
    NAME.with_borrow_mut(|(path, name)| {
        name.clear();
        names::push_file_name(name, offset, kind);
        let text = path.as_mut_os_string();
        text.clear();
        text.push(dir);
        path.push(name.as_str());
        work(path)
    })
}

/// A walker that accepts batches of at most this size.
fn new_walker(rules: &LogRules) -> BatchWalker {
    BatchWalker::new(BatchLimits { batch_bytes_max: rules.batch_bytes_max })
}

#[cfg(test)]
mod tests;
