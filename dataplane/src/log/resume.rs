//! Opening a log that was finished and not touched since, without reading it through: what its small files say is taken, and only the
//! batches behind the last entry of its offset index are read. For a hand-over, which opens a thousand logs at once.
//!
//! Whatever does not fit (another end, a snapshot or an index that is missing or damaged, bytes behind the last batch) is no error: the
//! log is loaded as any other then.

use twinlog_proto::storage::names::FileKind;
use twinlog_proto::storage::offset_index::OffsetIndex;
use twinlog_proto::storage::producer_state::ProducerState;
use twinlog_proto::storage::segment_indexer::{Resumed, SegmentIndexer};
use twinlog_proto::storage::time_index::{TimeEntry, TimeIndex};
use twinlog_proto::storage::txn_index;
use twinlog_proto::storage::{offset_index, time_index};

use super::index::IndexFile;
use super::leftovers::Found;
use super::load::Loading;
use super::roll::Closed;
use super::scan::{Bounds, Scanned};
use super::segment::Segment;
use super::unshare::is_shared;
use super::{Health, LogHome, LogSpec, PartitionLog, faults, files_of};
use crate::disk::{Disk, files};
use crate::fault::Fault;

impl<D: Disk> PartitionLog<D> {
    /// Opens a log that was finished at its recovery point; true when it is as it was left. False when it was loaded as after a crash,
    /// wherever it ends then. Nothing that is done to it is durable before the caller has made its filesystem so: many logs are worked
    /// on, and one sync for all of them costs less than ten for each.
    pub async fn open_finished(home: &LogHome<D>, spec: LogSpec) -> Result<(Self, bool), Fault> {
        let end = spec.recovery_point;
        let (mut log, found) = Self::prepare(home, spec)?;
        log.syncs_later = true;
        let snapshots = found.snapshots.clone();
        let resumed = !found.logs.is_empty() && Loading::new(&mut log, found, i64::MAX)?.resume(end)?;
        if resumed {
            log.finish_loading(false, &snapshots)?;
            log.health = Health::Good;
        } else {
            log.reload(None).await?;
        }
        Ok((log, resumed))
    }

    /// Opens a log that somebody else wrote to and cuts it at its recovery point on the way: what lies behind is not read. One that begins
    /// behind it is left as it is. Durable as [`PartitionLog::open_finished`].
    pub async fn open_cut(home: &LogHome<D>, spec: LogSpec) -> Result<Self, Fault> {
        let end = spec.recovery_point;
        Self::open_cut_at(home, spec, end).await
    }

    /// [`PartitionLog::open_cut`] at `end`, of a log that may be torn from its recovery point on.
    pub async fn open_cut_at(home: &LogHome<D>, spec: LogSpec, end: i64) -> Result<Self, Fault> {
        let (mut log, found) = Self::prepare(home, spec)?;
        log.syncs_later = true;
        let reaches = found.logs.first().is_some_and(|(base, _)| *base <= end);
        log.load(found, reaches.then_some(end)).await?;
        Ok(log)
    }

    /// The last `bytes` bytes of the log, which may lie in several segments.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn tail(&self, bytes: usize) -> Result<Vec<u8>, Fault> {
        let mut out = vec![0; bytes];
        let mut left = bytes;
        let closed = self.closed.iter().map(|closed| (closed.base, closed.bytes));
        for (base, size) in closed.chain([(self.active.base, self.active.end)]).rev() {
            let here = left.min(usize::try_from(size).unwrap_or(usize::MAX));
            let path = files_of(&self.dir, base, FileKind::Log);
            let read = files::Reading::open(&path, size - here as u64)
                .and_then(|mut reading| reading.next(&mut out[left - here..left]));
            if read.map_err(|e| faults::files("read", &path, e))? < here {
                return Err(faults::damage(&path, base, self.next_offset, "the file is shorter than it was"));
            }
            left -= here;
            if left == 0 {
                break;
            }
        }
        out.drain(..left);
        Ok(out)
    }
}

/// The index files of a segment as they lie there.
struct Indexed {
    offset_bytes: u64,
    time_bytes: u64,
    txn_bytes: u64,
    last_offset: Option<offset_index::OffsetEntry>,
    last_time: Option<TimeEntry>,
}

impl<D: Disk> Loading<'_, D> {
    /// Takes the log as finished at `end`; false when it is not, with nothing changed on disk.
    fn resume(mut self, end: i64) -> Result<bool, Fault> {
        let Found { logs, .. } = &self.found;
        let Some(((base, bytes), earlier)) = logs.split_last() else { return Ok(false) };
        let (base, bytes) = (*base, *bytes);
        // Something earlier must be built again, the end lies elsewhere, or the file is not ours alone.
        if self.from != earlier.len() || end < base || is_shared(&files_of(&self.log.dir, base, FileKind::Log))? {
            return Ok(false);
        }
        let closed = earlier.iter().map(|(base, bytes)| Closed { base: *base, bytes: *bytes }).collect();
        let Some(producers) = self.producers_at(end)? else { return Ok(false) };
        let Some(indexed) = self.indexed(base, bytes)? else { return Ok(false) };
        let Some(tail) = self.walk_tail(base, bytes, end, &indexed)? else { return Ok(false) };
        let log = &mut *self.log;
        let mut active = Segment::empty(base, log.index_rules);
        (active.end, active.allocated) = (bytes, bytes);
        let entries = |bytes: u64, each: usize| (bytes / each as u64) as u32;
        let resumed = Resumed {
            offset_entries: entries(indexed.offset_bytes, offset_index::ENTRY_BYTES),
            time_entries: entries(indexed.time_bytes, time_index::ENTRY_BYTES),
            last_time: indexed.last_time,
            largest: tail.largest,
        };
        let indexes = &mut active.indexes;
        indexes.indexer = SegmentIndexer::resume(base, log.index_rules, resumed);
        let file = |kind, entry_bytes, written| IndexFile::new(kind, entry_bytes, written);
        indexes.offsets = file(FileKind::OffsetIndex, offset_index::ENTRY_BYTES, indexed.offset_bytes);
        indexes.times = file(FileKind::TimeIndex, time_index::ENTRY_BYTES, indexed.time_bytes);
        indexes.txns = file(FileKind::TxnIndex, txn_index::ENTRY_BYTES, indexed.txn_bytes);
        (log.active, log.closed) = (active, closed);
        (log.producers, log.epochs) = (producers, self.known_epochs);
        log.next_offset = end;
        Ok(true)
    }

    /// The producers by the snapshot at the end.
    fn producers_at(&self, end: i64) -> Result<Option<ProducerState>, Fault> {
        if end == 0 {
            return Ok(Some(ProducerState::new()));
        }
        let path = files_of(&self.log.dir, end, FileKind::Snapshot);
        let bytes = files::read(&path).map_err(|e| faults::files("read", &path, e))?;
        Ok(bytes.and_then(|bytes| ProducerState::load(&bytes, Some(self.expiry())).ok()))
    }

    /// The indexes of the last segment, if they can be those of a finished one.
    fn indexed(&self, base: i64, log_bytes: u64) -> Result<Option<Indexed>, Fault> {
        let read = |kind| {
            let path = files_of(&self.log.dir, base, kind);
            files::read(&path).map_err(|e| faults::files("read", &path, e))
        };
        let (offsets, times, txns) =
            (read(FileKind::OffsetIndex)?, read(FileKind::TimeIndex)?, read(FileKind::TxnIndex)?);
        if log_bytes > 0 && (offsets.is_none() || times.is_none()) {
            return Ok(None);
        }
        let (offsets, times, txns) = (offsets.unwrap_or_default(), times.unwrap_or_default(), txns.unwrap_or_default());
        let (Ok(offset_index), Ok(time_index)) = (OffsetIndex::parse(&offsets, base), TimeIndex::parse(&times, base))
        else {
            return Ok(None);
        };
        let last_offset = offset_index.last();
        let fits = last_offset.is_none_or(|last| u64::from(last.position) < log_bytes);
        if !fits || !txns.len().is_multiple_of(txn_index::ENTRY_BYTES) {
            return Ok(None);
        }
        Ok(Some(Indexed {
            offset_bytes: offsets.len() as u64,
            time_bytes: times.len() as u64,
            txn_bytes: txns.len() as u64,
            last_offset,
            last_time: time_index.last(),
        }))
    }

    /// Reads what lies behind the last entry of the offset index; none when the log does not end at `end` and with the file.
    fn walk_tail(&mut self, base: i64, bytes: u64, end: i64, indexed: &Indexed) -> Result<Option<Tail>, Fault> {
        let mut tail = Tail { largest: indexed.last_time };
        if bytes == 0 {
            return Ok((end == base).then_some(tail));
        }
        let path = files_of(&self.log.dir, base, FileKind::Log);
        let from = indexed.last_offset.map_or(0, |last| u64::from(last.position));
        let mut first = None;
        let scanned = self.scan.run_from(&path, from, Bounds { base, limit: i64::MAX }, |found| {
            let header = &found.header;
            first.get_or_insert(header.last_offset());
            if tail.largest.is_none_or(|known| header.max_timestamp > known.timestamp) {
                tail.largest = Some(TimeEntry { timestamp: header.max_timestamp, offset: header.last_offset() });
            }
        });
        let scanned = scanned.map_err(|e| faults::files("read", &path, e))?;
        let as_indexed = indexed.last_offset.is_none_or(|last| first == Some(last.offset));
        let whole = scanned == Scanned { end: bytes, next_offset: end, stopped: None };
        Ok((as_indexed && whole).then_some(tail))
    }
}

/// What was learnt at the end of the last segment.
struct Tail {
    /// The largest timestamp of the segment.
    largest: Option<TimeEntry>,
}
