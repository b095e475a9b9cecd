//! The record path of one log: bytes come in, are walked where they lie, and are submitted; nothing here waits.

use std::ops::Range;
use std::rc::Rc;

use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES};
use twinlog_proto::records::batches::{BatchEvent, EndMarker};

use super::accept::{Have, Verdict, judge};
use super::span::{Span, Tails};
use super::spec::{AppendStop, RegionEnd, RegionRules};
use super::{Health, PartitionLog, faults};
use crate::buffers::{Lease, STAGE_BYTES, Share};
use crate::disk::Disk;
use crate::disk::jobs::{Job, Then, Work};
use crate::fault::Fault;

/// A region under way.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) rules: RegionRules,
    end: RegionEnd,
    received_bytes: u64,
    /// Set at the first stop; later bytes are dropped.
    stopped: bool,
    /// Bytes still to come of a batch that is left out.
    left_out_bytes: usize,
    batch_bytes: BatchBytes,
}

/// Whether all batches of a region have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchBytes {
    None,
    All(u32),
    Mixed,
}

impl<D: Disk> PartitionLog<D> {
    /// Starts a region at [`Self::next_offset`].
    pub fn begin_region(&mut self, rules: RegionRules) {
        assert!(self.region.is_none(), "one region at a time");
        self.walker.reset();
        self.region = Some(Region {
            rules,
            end: RegionEnd::default(),
            received_bytes: 0,
            stopped: false,
            left_out_bytes: 0,
            batch_bytes: BatchBytes::None,
        });
    }

    /// Goes on with the region: walks `lease[range]`, and submits its writes. On a stop the whole batches before it are
    /// kept and submitted. `range.start` is [`Self::residue`] modulo the alignment; bytes that lie elsewhere are moved. The
    /// bytes of the lease around `range` belong to the log too.
    pub fn append(&mut self, lease: Lease, range: Range<usize>) -> Result<(), AppendStop> {
        self.take_in(range.len())?;
        self.submit_open_span();
        let mut span = self.place(lease, range).map_err(|fault| self.stop_with(fault))?;
        loop {
            let stop = self.walk(&mut span);
            let bytes = self.countable(&span, stop.is_err());
            self.submit(span, bytes);
            let backlog = self.backlog.take();
            match (stop, backlog) {
                (Ok(()), Some(backlog)) => span = self.carry_on(backlog).map_err(|fault| self.stop_with(fault))?,
                (stop, _) => return stop,
            }
        }
    }

    /// Goes on with the region by a copy, for small runs: gathered in a stage buffer, written at the end of the region or
    /// when the stage is full. Await `Pool::stage_available` before the region: it is the brake. May be mixed with
    /// [`Self::append`].
    pub fn stage(&mut self, bytes: &[u8]) -> Result<(), AppendStop> {
        self.take_in(bytes.len())?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut span = match self.open_span.take() {
                Some(span) => span,
                None => self.new_stage().map_err(|fault| self.stop_with(fault))?,
            };
            let taken = span.fill(rest);
            rest = &rest[taken..];
            if let Err(stop) = self.walk(&mut span) {
                let bytes = self.countable(&span, true);
                self.submit(span, bytes);
                return Err(stop);
            }
            if span.room() == 0 {
                let bytes = span.bytes();
                self.submit(span, bytes);
            } else {
                self.open_span = Some(span);
            }
        }
        Ok(())
    }

    /// Ends the region; a batch that is not whole is dropped.
    pub fn end_region(&mut self) -> RegionEnd {
        if let Some(span) = self.open_span.take() {
            let bytes = self.countable(&span, true);
            self.submit(span, bytes);
        }
        self.raw = self.active.end;
        self.backlog = None;
        if let Some(tails) = &mut self.tails {
            tails.rewind();
        }
        let Some(region) = self.region.take() else {
            return RegionEnd { next_offset: self.next_offset, ..RegionEnd::default() };
        };
        let cut_off = region.received_bytes - region.end.bytes;
        let pending_header = self.walker.remaining_bytes().map(|rest| self.walker.pending_bytes() + rest);
        self.walker.reset();
        RegionEnd {
            next_offset: self.next_offset,
            cut_off_bytes: cut_off,
            cut_off_batch_bytes: pending_header.filter(|_| !region.stopped).and_then(|bytes| u32::try_from(bytes).ok()),
            uniform_batch_bytes: match region.batch_bytes {
                BatchBytes::All(bytes) => Some(bytes),
                BatchBytes::None | BatchBytes::Mixed => None,
            },
            ..region.end
        }
    }

    /// Counts bytes of the region in, or refuses them because it is over.
    fn take_in(&mut self, bytes: usize) -> Result<(), AppendStop> {
        if !matches!(self.health, Health::Good) {
            return Err(AppendStop::Over);
        }
        let Some(region) = &mut self.region else {
            return Err(AppendStop::Over);
        };
        region.received_bytes += bytes as u64;
        if region.stopped { Err(AppendStop::Over) } else { Ok(()) }
    }

    fn stop_with(&mut self, fault: Fault) -> AppendStop {
        self.end_here();
        let fault = faults::at(fault, self.reached.leo, self.next_offset);
        AppendStop::Fault(self.broken(fault))
    }

    /// Makes `lease[range]` a span that can be written without a copy; it nearly always is one already.
    fn place(&mut self, lease: Lease, range: Range<usize>) -> Result<Span, Fault> {
        self.ready_to_write()?;
        let mut span = Span { lease, start: range.start, cursor: range.start, end: range.end };
        self.begin_at_cursor(&mut span)?;
        Ok(span)
    }

    /// Forgets what lies before the span's cursor, and moves the rest to where it can be written without a copy.
    fn begin_at_cursor(&mut self, span: &mut Span) -> Result<(), Fault> {
        let residue = (self.raw % self.alignment.bytes as u64) as usize;
        let range = span.cursor..span.end;
        span.start = span.cursor;
        if span.start % self.alignment.bytes == residue {
            return Ok(());
        }
        let end = residue + range.len();
        if end <= span.lease.capacity() {
            span.lease.copy_within(range, residue);
        } else {
            let mut other = self.home.pool.one_off(end).map_err(|e| faults::buffers(&self.dir, e))?;
            other[residue..end].copy_from_slice(&span.lease[range]);
            span.lease = other;
        }
        (span.start, span.cursor, span.end) = (residue, residue, end);
        Ok(())
    }

    /// A stage to gather small runs in: the one whose write waits for the block that it shares, if there is one.
    fn new_stage(&mut self) -> Result<Span, Fault> {
        self.ready_to_write()?;
        if let Some(span) = self.reopen_waiting_stage() {
            return Ok(span);
        }
        let lease = match self.home.pool.try_take_stage() {
            Some(lease) => lease,
            None => self.home.pool.one_off(STAGE_BYTES).map_err(|e| faults::buffers(&self.dir, e))?,
        };
        let residue = (self.raw % self.alignment.bytes as u64) as usize;
        Ok(Span { lease, start: residue, cursor: residue, end: residue })
    }

    /// Takes the last write back if no writer has seen it and its buffer has room.
    fn reopen_waiting_stage(&mut self) -> Option<Span> {
        if self.raw != self.active.end {
            return None;
        }
        let file = self.active.file.as_ref()?;
        let raw = self.raw;
        let (share, range, touches) = self.jobs.take_back_last(file, |share, range, touches| {
            let end = range.start + (raw - touches.start) as usize;
            share.len() - end >= STAGE_BYTES / 4
        })?;
        let end = range.start + (raw - touches.start) as usize;
        let lease = share.try_into_lease().expect("a write that never started holds the only share");
        self.raw = touches.start;
        if let Some(tails) = &mut self.tails {
            tails.set_raw(&[]);
        }
        Some(Span { lease, start: range.start, cursor: end, end })
    }

    /// How many bytes of the span to submit: all of it while the region goes on, whole batches only when it ends here.
    pub(super) fn countable(&self, span: &Span, ends: bool) -> usize {
        if ends { self.active.end.saturating_sub(self.raw) as usize } else { span.bytes() }
    }

    fn submit_open_span(&mut self) {
        if let Some(span) = self.open_span.take() {
            let bytes = span.bytes();
            self.submit(span, bytes);
        }
    }

    /// Walks the span from its cursor on. A roll replaces the span by one for the new segment.
    fn walk(&mut self, span: &mut Span) -> Result<(), AppendStop> {
        self.skip_left_out(span).map_err(|fault| self.stop_with(fault))?;
        loop {
            let fed = match self.walker.feed(&span.lease[span.cursor..span.end]) {
                Ok(fed) => fed,
                Err(why) => {
                    self.end_here();
                    return Err(AppendStop::Corrupt { next_offset: self.next_offset, why });
                }
            };
            span.cursor += fed.consumed;
            match fed.event {
                None => return Ok(()),
                Some(BatchEvent::Header(header)) => {
                    if let Err(stop) = self.decide(&header, span) {
                        self.end_here();
                        return Err(stop);
                    }
                }
                Some(BatchEvent::Batch { header, marker }) => self.count(&header, marker),
            }
        }
    }

    fn end_here(&mut self) {
        if let Some(region) = &mut self.region {
            region.stopped = true;
        }
    }

    /// The header's last byte is at the cursor: the batch is refused, or goes to this segment or the next.
    fn decide(&mut self, header: &BatchHeader, span: &mut Span) -> Result<(), AppendStop> {
        let rules = self.region.as_ref().map(|region| region.rules).ok_or(AppendStop::Over)?;
        let empty = self.is_empty();
        let last_epoch = self.last_epoch();
        let have = Have { next_offset: self.next_offset, last_epoch, empty, epoch_max: rules.epoch_max };
        let base = match judge(&have, header) {
            Verdict::Take if !self.must_roll(header, rules.now_ms) => return Ok(()),
            // The log end is not above the batch: stock's max(log end, batch base) is the batch's base.
            Verdict::Take => header.base_offset,
            Verdict::TakeFrom(base) => base,
            Verdict::LeaveOut => return self.leave_out(header, span).map_err(|fault| self.stop_with(fault)),
            Verdict::Stop(stop) => {
                if let (AppendStop::NewerEpoch { epoch, .. }, Some(region)) = (&stop, &mut self.region) {
                    region.end.newer_epoch = Some(*epoch);
                }
                return Err(stop);
            }
        };
        self.move_to_new_segment(base, span).map_err(|fault| self.stop_with(fault))
    }

    /// Submits what stands before the batch whose header ends at the cursor, and goes on behind that batch.
    fn leave_out(&mut self, header: &BatchHeader, span: &mut Span) -> Result<(), Fault> {
        if let Some(region) = &mut self.region {
            region.left_out_bytes = header.size_bytes() - HEADER_BYTES;
            region.end.left_out.get_or_insert((header.base_offset, header.last_offset()));
        }
        self.walker.reset();
        let kept = self.countable(span, true);
        if kept > 0 {
            let rest = span.end - span.cursor;
            let mut lease = self.lease_of(rest)?;
            lease[..rest].copy_from_slice(&span.lease[span.cursor..span.end]);
            let old = std::mem::replace(span, Span { lease, start: 0, cursor: 0, end: rest });
            self.submit(old, kept);
        }
        self.raw = self.active.end;
        if let Some(tails) = &mut self.tails {
            tails.rewind();
        }
        self.begin_at_cursor(span)?;
        self.skip_left_out(span)
    }

    /// Goes past what the span holds of a batch that is left out.
    fn skip_left_out(&mut self, span: &mut Span) -> Result<(), Fault> {
        let Some(region) = self.region.as_mut().filter(|region| region.left_out_bytes > 0) else {
            return Ok(());
        };
        let skipped = region.left_out_bytes.min(span.end - span.cursor);
        region.left_out_bytes -= skipped;
        span.cursor += skipped;
        self.begin_at_cursor(span)
    }

    /// The batch that ends at the cursor is whole and its checksum right: everything derived from headers moves on.
    fn count(&mut self, header: &BatchHeader, marker: Option<EndMarker>) {
        assert!(header.base_offset >= self.next_offset || self.is_empty(), "append must continue the log");
        let position = self.active.end;
        self.note_batch(header, marker, position);
        let size = header.size_bytes() as u64;
        self.active.end += size;
        self.next_offset = header.next_offset();
        if let Some(region) = &mut self.region {
            region.end.batches += 1;
            region.end.bytes += size;
            let size = size as u32;
            region.batch_bytes = match region.batch_bytes {
                BatchBytes::None => BatchBytes::All(size),
                BatchBytes::All(known) if known == size => BatchBytes::All(size),
                BatchBytes::All(_) | BatchBytes::Mixed => BatchBytes::Mixed,
            };
        }
    }

    /// Submits the first `bytes` bytes of the span at `raw`, and remembers the blocks that the next write shares.
    pub(super) fn submit(&mut self, mut span: Span, bytes: usize) -> Share {
        if bytes == 0 {
            return span.lease.share();
        }
        let Some(file) = self.active.file.clone() else {
            unreachable!("a span is made only for an open segment");
        };
        let alignment = self.alignment;
        let tails = self.tails.get_or_insert_with(|| Tails::new(&[]));
        let (range, position) = span.frame(bytes, self.raw, alignment, tails.raw());
        let raw = self.raw + bytes as u64;
        // Where a file position of this span lies in the lease.
        let place = |at: u64| range.start + (at - position) as usize;
        tails.set_raw(&span.lease[place(alignment.down(raw))..place(raw)]);
        let end = self.active.end;
        if end > self.raw && end <= raw {
            tails.set_end(&span.lease[place(alignment.down(end))..place(end)]);
        }
        self.raw = raw;
        let touches = position..position + range.len() as u64;
        self.allocate_up_to(touches.end, &file);
        let then = Then::End { leo: self.next_offset, epoch: self.last_epoch() };
        let share = span.lease.share();
        let job = Job { file: Rc::clone(&file), work: Work::Write(share.clone(), range), touches, then };
        self.home.writers.submit(&self.jobs, job);
        share
    }
}
