//! What a roll carries over to the new segment. With tiny segments one piece holds many of them: each roll copies what its segment can
//! hold, and not all that is left of the piece.

use std::ops::Range;

use twinlog_proto::records::batch::HEADER_BYTES;

use super::span::Span;
use super::{PartitionLog, faults};
use crate::buffers::{Lease, STAGE_BYTES, Share};
use crate::disk::Disk;
use crate::fault::Fault;
use crate::limits::CARRIED_BYTES_MIN;

/// The rest of a piece whose beginning was carried over.
#[derive(Debug)]
pub(super) struct Backlog {
    share: Share,
    range: Range<usize>,
}

impl<D: Disk> PartitionLog<D> {
    /// Submits what belongs to the present segment and carries the batch at the cursor over to the start of a new one.
    pub(super) fn move_to_new_segment(&mut self, base: i64, span: &mut Span) -> Result<(), Fault> {
        let header = self.walker.header_bytes();
        let carried = (span.end - span.cursor).min(self.carried_bytes_max());
        let bytes = HEADER_BYTES + carried;
        let mut lease = self.lease_of(bytes)?;
        lease[..HEADER_BYTES].copy_from_slice(header);
        lease[HEADER_BYTES..bytes].copy_from_slice(&span.lease[span.cursor..span.cursor + carried]);
        let left = span.cursor + carried..span.end;
        let new = Span { lease, start: 0, cursor: HEADER_BYTES, end: bytes };
        let old = std::mem::replace(span, new);
        let old_bytes = self.countable(&old, true);
        let share = self.submit(old, old_bytes);
        if !left.is_empty() {
            self.backlog = Some(Backlog { share, range: left });
        }
        self.roll(base)
    }

    /// A buffer of at least so many bytes; a roll cannot wait for one.
    pub(super) fn lease_of(&self, bytes: usize) -> Result<Lease, Fault> {
        let pool = &self.home.pool;
        let pooled = if bytes <= STAGE_BYTES { pool.try_take_stage() } else { pool.try_take() };
        match pooled.filter(|lease| lease.capacity() >= bytes) {
            Some(lease) => Ok(lease),
            None => pool.one_off(bytes.max(1)).map_err(|e| faults::buffers(&self.dir, e)),
        }
    }

    /// The next part of a piece that is carried over in parts.
    pub(super) fn carry_on(&mut self, backlog: Backlog) -> Result<Span, Fault> {
        let Backlog { share, range } = backlog;
        let taken = range.len().min(self.carried_bytes_max());
        let start = (self.raw % self.alignment.bytes as u64) as usize;
        let mut lease = self.lease_of(start + taken)?;
        lease[start..start + taken].copy_from_slice(&share[range.start..range.start + taken]);
        if taken < range.len() {
            self.backlog = Some(Backlog { share, range: range.start + taken..range.end });
        }
        Ok(Span { lease, start, cursor: start, end: start + taken })
    }

    /// The most that a roll copies at once.
    fn carried_bytes_max(&self) -> usize {
        (self.roll_rules.segment_bytes as usize).max(CARRIED_BYTES_MIN)
    }
}
