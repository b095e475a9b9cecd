//! Reads the state log from its beginning, batch by batch: forgives a torn tail, refuses a torn middle.
//!
//! Called once, before the first request. A batch that is cut off or damaged with nothing valid after it is what a crash
//! in the middle of an append leaves behind: it was never answered, and it is cut away. The same with a valid batch
//! after it is damage to what has been promised: the process does not start, and says where. Memory holds one batch at a
//! time, whatever the log's size.

use crate::limits::{REPLAY_READ_BYTES, STATE_OFFSETS_AHEAD_MAX};
use crate::statelog::batch::{self, Batch, HEADER_BYTES, KeyValue};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use twinlog_proto::error::DecodeError;

/// What was found in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Records in whole batches.
    pub records: u64,
    /// Where the next batch belongs, as an offset.
    pub next_offset: i64,
    /// Where the next batch belongs, as a position in the file.
    pub size_bytes: u64,
    /// Bytes of a torn tail behind it.
    pub torn_bytes: u64,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file system refuses.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is damaged before its end.
    #[error("{0}")]
    Damaged(String),
    /// A whole record means nothing to this version.
    #[error("offset {offset}: {cause}")]
    Record {
        /// Of the record.
        offset: i64,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// Whoever takes the records has no room for more.
    #[error("{0}")]
    NoRoom(String),
}

/// Bytes that can be read at any position: the log's file, or a slice.
pub trait Bytes {
    /// How many there are.
    ///
    /// # Errors
    /// As the file system says.
    fn size_bytes(&self) -> io::Result<u64>;
    /// Fills `into` from `position` on.
    ///
    /// # Errors
    /// As the file system says.
    fn copy_at(&self, position: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Bytes for File {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn copy_at(&self, position: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, position)
    }
}

impl Bytes for [u8] {
    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn copy_at(&self, position: u64, into: &mut [u8]) -> io::Result<()> {
        let from = position as usize;
        let found = self.get(from..from + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(found);
        Ok(())
    }
}

/// Takes what a log holds.
pub trait Taker {
    /// A record and its offset.
    ///
    /// # Errors
    /// When it means nothing.
    fn take(&mut self, offset: i64, record: &KeyValue) -> Result<(), DecodeError>;
    /// A batch is over; the log was read up to `position`.
    ///
    /// # Errors
    /// Why there is no room for more.
    fn batch_is_over(&mut self, position: u64) -> Result<(), String>;
}

/// Gives every record of the whole batches to `taker`.
///
/// # Errors
/// See [`Unreadable`]; `taker` then holds a part.
pub fn replay(log: &(impl Bytes + ?Sized), taker: &mut impl Taker) -> Result<Replayed, Unreadable> {
    let mut window = Window { log, total: log.size_bytes()?, from: 0, buffer: Vec::new() };
    let mut done = Replayed::default();
    while done.size_bytes < window.total {
        let (at, next_offset) = (done.size_bytes, done.next_offset);
        let damaged = |what: &dyn std::fmt::Display| {
            Unreadable::Damaged(format!("offset {next_offset} at position {at}: {what}"))
        };
        let batch = match window.batch(at)? {
            Ok(batch) => batch,
            Err(why) => {
                if let Some(later) = window.next_valid(at, next_offset)? {
                    return Err(damaged(&format_args!("{why}, but a whole batch follows at position {later}")));
                }
                break;
            }
        };
        // A whole batch is never what a torn append leaves behind, so whatever is wrong with it is damage.
        let batch = batch.map_err(|why| damaged(&why))?;
        // Only the first batch may start anywhere: compaction keeps the numbering.
        if batch.base_offset != next_offset && at != 0 {
            return Err(damaged(&format_args!("the batch here starts at offset {}", batch.base_offset)));
        }
        batch
            .each(|offset, record| taker.take(offset, record))
            .map_err(|(offset, cause)| Unreadable::Record { offset, cause })?;
        done.records += batch.next_offset.abs_diff(batch.base_offset);
        done.next_offset = batch.next_offset;
        done.size_bytes = at + batch.size_bytes as u64;
        taker.batch_is_over(done.size_bytes).map_err(Unreadable::NoRoom)?;
    }
    done.torn_bytes = window.total - done.size_bytes;
    Ok(done)
}

/// A piece of the log.
struct Window<'l, B: Bytes + ?Sized> {
    log: &'l B,
    total: u64,
    from: u64,
    buffer: Vec<u8>,
}

impl<B: Bytes + ?Sized> Window<'_, B> {
    /// The bytes at `position`: `bytes_max` of them, or all that there are.
    fn at(&mut self, position: u64, bytes_max: usize) -> io::Result<&[u8]> {
        let left = self.total.saturating_sub(position);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max);
        let is_here = position >= self.from && position + wanted as u64 <= self.from + self.buffer.len() as u64;
        if !is_here {
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(bytes_max.max(REPLAY_READ_BYTES));
            self.buffer.resize(size, 0);
            self.buffer.shrink_to(REPLAY_READ_BYTES);
            self.from = position;
            self.log.copy_at(position, &mut self.buffer)?;
        }
        let start = (position - self.from) as usize;
        Ok(&self.buffer[start..start + wanted])
    }

    /// The batch at `position`. The outer error is of the file; the next one says that there is no whole batch, the
    /// innermost that a whole one breaks the format.
    fn batch(&mut self, position: u64) -> io::Result<Result<Result<Batch<'_>, DecodeError>, DecodeError>> {
        let size = match batch::claimed_size(self.at(position, HEADER_BYTES)?) {
            Ok(size) => size,
            Err(why) => return Ok(Err(why)),
        };
        let bytes = self.at(position, size)?;
        Ok(batch::check(bytes).map(|_whole| batch::decode(bytes)))
    }

    /// The position of a whole batch after `from`, whose offset could follow `expected`.
    fn next_valid(&mut self, from: u64, expected: i64) -> io::Result<Option<u64>> {
        let believed = expected..expected.saturating_add(STATE_OFFSETS_AHEAD_MAX);
        let mut at = from + 1;
        while at + HEADER_BYTES as u64 <= self.total {
            let piece = self.at(at, REPLAY_READ_BYTES)?;
            let candidates = piece.windows(HEADER_BYTES).enumerate();
            let found: Vec<u64> = candidates
                .filter(|(_, header)| header[16] == 2)
                .filter(|(_, header)| header.first_chunk().is_some_and(|o| believed.contains(&i64::from_be_bytes(*o))))
                .map(|(ahead, _)| at + ahead as u64)
                .collect();
            let after = at + (piece.len() - HEADER_BYTES + 1) as u64;
            for candidate in found {
                if self.batch(candidate)?.is_ok() {
                    return Ok(Some(candidate));
                }
            }
            at = after;
        }
        Ok(None)
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
pub(crate) mod tests;
