//! From files to a log: opening, recovery after a crash, and coming back after a cut or a failed write.
//!
//! `.log` files are the truth, everything else is rebuilt from them. From the segment of the recovery point on every batch is
//! read and its checksum verified; the log ends before the first that is not valid. Below the recovery point nothing is read
//! unless an index is missing. Damage that lies below the recovery point in any but the last segment is never cut away: the
//! partition fails and names it.

use std::collections::VecDeque;

use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES};
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, FileKind, FileName};
use twinlog_proto::storage::producer_state::{Expiry, ProducerState};
use twinlog_proto::storage::{offset_index, time_index};

use super::leftovers::{self, Found};
use super::roll::Closed;
use super::scan::{Bounds, Scan, Scanned, Stopped};
use super::segment::Segment;
use super::unshare::unshare;
use super::{Health, LogHome, LogProgress, LogSpec, PartitionLog, Unsynced, faults, files_of, new_walker};
use crate::disk::jobs::Jobs;
use crate::disk::{Alignment, Disk, files};
use crate::fault::Fault;

impl<D: Disk> PartitionLog<D> {
    /// Opens the directory, or makes it (partition.metadata, then a zero-length first segment), and recovers:
    /// scans from the recovery point's segment, cuts the torn tail, rebuilds what is missing.
    pub async fn open(home: &LogHome<D>, spec: LogSpec) -> Result<Self, Fault> {
        let (mut log, found) = Self::prepare(home, spec)?;
        log.load(found, None).await?;
        let checkpoint = log.spec.log_start;
        if checkpoint > log.next_offset {
            log.restart_at(checkpoint).await?;
        }
        Ok(log)
    }

    /// A log with nothing of its files in memory, and what lies in its directory, which is made when it is missing.
    pub(super) fn prepare(home: &LogHome<D>, spec: LogSpec) -> Result<(Self, Found), Fault> {
        let dir = spec.data_dir.join(names::partition_dir(&spec.topic, spec.partition));
        let is_new = files::make_dir(&dir).map_err(|e| faults::files("make the folder", &dir, e))?;
        if is_new {
            leftovers::note_topic(&dir, spec.topic_id)?;
        } else {
            leftovers::check_topic(&dir, spec.topic_id)?;
        }
        let start = spec.log_start.max(0);
        let log = Self {
            home: home.clone(),
            roll_rules: spec.rules.roll_rules(),
            index_rules: spec.rules.index_rules(),
            dir,
            alignment: spec.alignment.unwrap_or(Alignment::BUFFERED),
            allocates: true,
            jobs: Jobs::new(spec.token),
            health: Health::Good,
            active: Segment::empty(start, spec.rules.index_rules()),
            closed: VecDeque::new(),
            closing: VecDeque::new(),
            unsynced: Unsynced::default(),
            flushing: false,
            syncs_later: false,
            next_offset: start,
            told: LogProgress { leo: -1, flushed: -1, log_start: -1, last_epoch: -1 },
            reached: LogProgress { leo: start, flushed: spec.recovery_point.max(0), log_start: start, last_epoch: -1 },
            producers: ProducerState::new(),
            epochs: LeaderEpochs::new(),
            epochs_changed: false,
            walker: new_walker(&spec.rules),
            region: None,
            open_span: None,
            backlog: None,
            raw: 0,
            tails: None,
            spec,
        };
        let found = if is_new { Found::default() } else { leftovers::tidy(&log.dir)? };
        Ok((log, found))
    }

    /// Throws away what is in memory and builds it from the files. With a limit, the log is cut before the batch that reaches
    /// it.
    pub(super) async fn reload(&mut self, limit: Option<i64>) -> Result<(), Fault> {
        let found = leftovers::tidy(&self.dir)?;
        self.load(found, limit).await
    }

    pub(super) async fn load(&mut self, mut found: Found, limit: Option<i64>) -> Result<(), Fault> {
        assert!(self.jobs.is_empty(), "nothing may be under way when a log is loaded");
        self.health = Health::Broken(None);
        self.region = None;
        self.open_span = None;
        self.backlog = None;
        self.tails = None;
        self.flushing = false;
        self.closing.clear();
        self.walker.reset();
        if let Some(limit) = limit {
            self.drop_segments_above(&mut found, limit)?;
        }
        let is_missing = found.logs.is_empty();
        if is_missing {
            found.logs.push((self.reached.log_start, 0));
            self.unsynced.directory = true;
        }
        let snapshots = found.snapshots.clone();
        Loading::new(self, found, limit.unwrap_or(i64::MAX))?.run().await?;
        self.finish_loading(is_missing, &snapshots)?;
        self.health = Health::Good;
        Ok(())
    }

    /// Removes the segments that begin at or above `limit`, last first; one that begins exactly there stays, empty.
    fn drop_segments_above(&mut self, found: &mut Found, limit: i64) -> Result<(), Fault> {
        while let Some((base, _)) = found.logs.last().copied()
            && base > limit
            && found.logs.len() > 1
        {
            leftovers::remove_segment(&self.dir, base)?;
            found.logs.pop();
        }
        self.unsynced.directory = true;
        Ok(())
    }

    /// What follows from the end that was found: bounds, epochs, snapshots, the active file.
    pub(super) fn finish_loading(&mut self, is_missing: bool, snapshots: &[i64]) -> Result<(), Fault> {
        let end = self.next_offset;
        let first = self.closed.front().map_or(self.active.base, |closed| closed.base);
        self.reached.log_start = self.reached.log_start.clamp(first, end.max(first));
        self.reached.leo = end;
        self.reached.flushed = self.reached.flushed.min(end);
        self.epochs_changed |= self.epochs.truncate_end(end);
        self.epochs.truncate_start(self.reached.log_start);
        self.reached.last_epoch = self.last_epoch();
        self.raw = self.active.end;
        if is_missing || self.spec.alignment.is_none() {
            self.open_active()?;
        }
        for offset in snapshots.iter().filter(|offset| **offset > end) {
            let path = files_of(&self.dir, *offset, FileKind::Snapshot);
            files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        }
        self.rest()
    }

    /// The offsets of the snapshots on disk, ascending.
    pub(super) fn snapshot_offsets(&self) -> Result<Vec<i64>, Fault> {
        let listed = files::list(&self.dir).map_err(|e| faults::files("list", &self.dir, e))?;
        Ok(listed.iter().filter_map(|file| snapshot_offset(&file.name)).collect())
    }
}

/// One pass over the files of a log.
pub(super) struct Loading<'a, D: Disk> {
    pub(super) log: &'a mut PartitionLog<D>,
    pub(super) found: Found,
    limit: i64,
    pub(super) scan: Scan,
    /// Index (among the logs found) of the first segment to verify.
    pub(super) from: usize,
    /// What was known to be durable.
    point: i64,
    /// The epochs as the file has them.
    pub(super) known_epochs: LeaderEpochs,
}

impl<'a, D: Disk> Loading<'a, D> {
    pub(super) fn new(log: &'a mut PartitionLog<D>, found: Found, limit: i64) -> Result<Self, Fault> {
        let scan = Scan::new();
        let point = log.reached.flushed;
        let mut loading = Self { log, found, limit, scan, from: 0, point, known_epochs: LeaderEpochs::new() };
        loading.from = loading.first_to_verify()?;
        Ok(loading)
    }

    /// The recovery point's segment, or an earlier one whose index or epochs must be built again.
    fn first_to_verify(&mut self) -> Result<usize, Fault> {
        let point = self.point.min(self.limit);
        let logs = &self.found.logs;
        let mut from = logs.iter().rposition(|(base, _)| *base <= point).unwrap_or(0);
        for (k, (base, bytes)) in logs.iter().enumerate().take(from) {
            let next_base = logs[k + 1].0;
            if !self.has_indexes(*base, *bytes)? || !self.begins_well(*base, *bytes, next_base)? {
                from = k;
                break;
            }
        }
        let path = self.log.dir.join(names::LEADER_EPOCHS);
        let text = if self.found.epochs { files::read(&path) } else { Ok(None) };
        let text = text.map_err(|e| faults::files("read", &path, e))?;
        let known = text.as_deref().and_then(|text| LeaderEpochs::parse(text).ok());
        if known.is_none() && logs.iter().any(|(_, bytes)| *bytes > 0) {
            from = 0;
        }
        self.known_epochs = known.unwrap_or_default();
        Ok(from)
    }

    /// Whether a closed segment has index files that can be its own.
    fn has_indexes(&self, base: i64, log_bytes: u64) -> Result<bool, Fault> {
        for (kind, entry_bytes) in
            [(FileKind::OffsetIndex, offset_index::ENTRY_BYTES), (FileKind::TimeIndex, time_index::ENTRY_BYTES)]
        {
            let path = files_of(&self.log.dir, base, kind);
            let length = files::length(&path).map_err(|e| faults::files("look at", &path, e))?;
            // More entries than bytes in the log: a padded file.
            let plausible = length.is_some_and(|bytes| bytes.is_multiple_of(entry_bytes as u64) && bytes <= log_bytes);
            if !plausible {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a closed segment begins with a batch that may stand there. What lies deeper is found by a check, not at each start.
    fn begins_well(&self, base: i64, bytes: u64, next_base: i64) -> Result<bool, Fault> {
        if bytes == 0 {
            // A broker's compaction may leave nothing of a segment.
            return Ok(true);
        }
        let path = files_of(&self.log.dir, base, FileKind::Log);
        let mut header = [0; HEADER_BYTES];
        let read = files::Reading::open(&path, 0).and_then(|mut reading| reading.next(&mut header));
        if read.map_err(|e| faults::files("read", &path, e))? < HEADER_BYTES {
            return Ok(false);
        }
        let header = BatchHeader::parse(&header);
        let is_here = (base..next_base).contains(&header.base_offset) && header.last_offset() < next_base;
        Ok(is_here && header.size_bytes() as u64 <= bytes)
    }

    async fn run(mut self) -> Result<(), Fault> {
        let snapshot = self.load_producers()?;
        let logs = std::mem::take(&mut self.found.logs);
        // The epochs of what is read are found again.
        self.log.epochs = self.known_epochs.clone();
        self.log.epochs.truncate_end(logs[self.from].0);
        self.log.closed =
            logs.iter().take(self.from).map(|(base, bytes)| Closed { base: *base, bytes: *bytes }).collect();
        let replay_from = logs.iter().rposition(|(base, _)| *base <= snapshot).unwrap_or(0).min(self.from);
        for (k, (base, _)) in logs.iter().enumerate().take(self.from).skip(replay_from) {
            self.replay(*base, snapshot, logs[k + 1].0).await?;
        }
        for k in self.from..logs.len() {
            let next_base = logs.get(k + 1).map(|(base, _)| *base);
            let goes_on = self.verify(logs[k], next_base, &logs[k + 1..]).await?;
            if !goes_on {
                for (base, _) in logs[k + 1..].iter().rev() {
                    leftovers::remove_segment(&self.log.dir, *base)?;
                }
                break;
            }
        }
        self.log.epochs_changed = self.log.epochs != self.known_epochs;
        Ok(())
    }

    /// Loads the newest usable snapshot at or below the first segment to verify; gives its offset.
    fn load_producers(&mut self) -> Result<i64, Fault> {
        let expiry = self.expiry();
        let base = self.found.logs[self.from].0;
        let first = self.found.logs[0].0;
        for offset in self.found.snapshots.iter().rev().copied().filter(|offset| *offset <= base) {
            let path = files_of(&self.log.dir, offset, FileKind::Snapshot);
            let bytes = files::read(&path).map_err(|e| faults::files("read", &path, e))?.unwrap_or_default();
            match ProducerState::load(&bytes, Some(expiry)) {
                Ok(state) => {
                    self.log.producers = state;
                    return Ok(offset);
                }
                // As stock does: a snapshot that cannot be read is no snapshot; an older one and more replay will do.
                Err(_unreadable) => files::remove(&path).map_err(|e| faults::files("remove", &path, e))?,
            }
        }
        self.log.producers = ProducerState::new();
        Ok(first)
    }

    /// Which producers are forgotten while a snapshot is loaded.
    pub(super) fn expiry(&self) -> Expiry {
        Expiry { now_ms: wall_clock_ms(), expiration_ms: self.log.spec.rules.producer_expiration_ms }
    }

    /// Only the producer state of a segment below the first to verify, from `snapshot` on.
    async fn replay(&mut self, base: i64, snapshot: i64, next_base: i64) -> Result<(), Fault> {
        let path = files_of(&self.log.dir, base, FileKind::Log);
        let producers = &mut self.log.producers;
        let scanned = self.scan.run(&path, Bounds { base, limit: self.limit }, |found| {
            if found.header.base_offset >= snapshot {
                producers.update(&found.header, found.marker);
            }
        });
        match scanned.await.map_err(|e| faults::files("read", &path, e))? {
            Scanned { stopped: None, .. } => Ok(()),
            Scanned { stopped: Some(stopped), next_offset, .. } => {
                Err(faults::damage(&path, next_offset, next_base, &stopped.to_string()))
            }
        }
    }

    /// Verifies a segment and rebuilds everything that follows from it. False when the log ends in it although there are
    /// later segments.
    async fn verify(
        &mut self,
        (base, bytes): (i64, u64),
        next_base: Option<i64>,
        later: &[(i64, u64)],
    ) -> Result<bool, Fault> {
        let path = files_of(&self.log.dir, base, FileKind::Log);
        let log = &mut *self.log;
        log.active = Segment::empty(base, log.index_rules);
        let scanned = if bytes == 0 {
            Scanned { end: 0, next_offset: base, stopped: None }
        } else {
            let bounds = Bounds { base, limit: self.limit };
            let scanned = self.scan.run(&path, bounds, |found| {
                log.note_batch(&found.header, found.marker, found.position);
            });
            scanned.await.map_err(|e| faults::files("read", &path, e))?
        };
        let ends_here = self.ends_here(&scanned, base, later).await?;
        let log = &mut *self.log;
        log.active.end = scanned.end;
        log.next_offset = scanned.next_offset;
        if !ends_here {
            log.active.indexes.finish(&log.dir).map_err(|e| faults::files("index", &path, e))?;
            log.closed.push_back(Closed { base, bytes: scanned.end });
            log.unsynced.segments.push_back(base);
            if let Some(next_base) = next_base {
                // Also where there is one: nobody has looked whether it can be read.
                let bytes = log.producers.snapshot();
                log.write_snapshot(next_base, &bytes)?;
            }
        }
        if ends_here || scanned.end < bytes {
            unshare(&path).await?;
        }
        if ends_here && self.found.indexes {
            // An index longer than the log gives wrong positions: it goes first.
            self.log.active.indexes.reset_files(&self.log.dir).map_err(|e| faults::files("index", &path, e))?;
        }
        if scanned.end < bytes {
            files::set_len(&path, scanned.end).map_err(|e| faults::files("cut", &path, e))?;
        }
        self.log.active.allocated = scanned.end;
        Ok(next_base.is_none() || !ends_here)
    }

    /// Whether the log ends in this segment; an error when what ends it must not be cut away.
    async fn ends_here(&mut self, scanned: &Scanned, base: i64, later: &[(i64, u64)]) -> Result<bool, Fault> {
        let Some((next_base, _)) = later.first().copied() else {
            return Ok(true);
        };
        let Some(stopped) = &scanned.stopped else {
            return Ok(false);
        };
        let path = files_of(&self.log.dir, base, FileKind::Log);
        let end = scanned.next_offset;
        if end == next_base {
            // Rolled, but not yet trimmed: what follows is room that was allocated in advance.
            return Ok(false);
        }
        // What was never flushed may be torn. Without a recovery point that says nothing; then it is no tear if batches
        // follow in a later segment, for a segment gets its name once all before it is written.
        let torn = end < next_base && end >= self.point && (self.point > 0 || self.are_without_batch(later).await?);
        if torn || *stopped == Stopped::Limit {
            return Ok(true);
        }
        Err(faults::damage(&path, end, next_base, &stopped.to_string()))
    }

    /// Whether none of these segments begins with a valid batch.
    async fn are_without_batch(&mut self, logs: &[(i64, u64)]) -> Result<bool, Fault> {
        for (base, bytes) in logs {
            let path = files_of(&self.log.dir, *base, FileKind::Log);
            if *bytes > 0 {
                let scanned = self.scan.run(&path, Bounds { base: *base, limit: i64::MAX }, |_| {});
                if scanned.await.map_err(|e| faults::files("read", &path, e))?.end > 0 {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn snapshot_offset(name: &str) -> Option<i64> {
    match names::parse_file_name(name)? {
        FileName { offset, kind: FileKind::Snapshot, leftover: None } => Some(offset),
        _ => None,
    }
}

/// The time of day, ms.
fn wall_clock_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
