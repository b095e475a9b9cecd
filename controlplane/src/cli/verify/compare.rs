//! Holds the batches that a source sends against the local ones, byte by byte as they arrive.
//!
//! Batches are matched by base offset. A batch that is only here is a difference, unless the topic is compacted: then the source may have
//! forgotten it since, or may have rewritten it with fewer records. Nothing is held in memory but a header, and a batch that was rewritten.

use super::local::{LocalBatch, LocalLog};
use super::rewritten;
use std::fmt;
use std::io;
use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES};
use twinlog_proto::records::batches::{BatchError, BatchEvent, BatchLimits, BatchWalker};

/// What was found so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Batches with the same bytes on both sides.
    pub(super) batches: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Batches that only we still have.
    pub(super) forgotten: u64,
    /// Batches of which the source has kept fewer records.
    pub(super) rewritten: u64,
}

/// The first difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where it is.
    pub(super) offset: i64,
    /// What differs.
    pub(super) what: What,
    /// The local batch there.
    pub(super) here: Option<BatchHeader>,
    /// The source's batch there.
    pub(super) source: Option<BatchHeader>,
}

/// How the two sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The source has a batch that is missing here.
    MissingHere,
    /// We have a batch that the source does not have.
    OnlyHere,
    /// The source has records below this offset, at which the log here begins.
    BeginsLater(i64),
    /// The headers differ.
    Header,
    /// The batches differ from this byte on.
    Byte(usize),
    /// A record that compaction left at the source is not the one that is here.
    Record(i64),
}

impl What {
    /// For people and scripts.
    pub(super) fn text(self) -> String {
        match self {
            Self::MissingHere => "the source has a batch that is missing here".to_owned(),
            Self::OnlyHere => "there is a batch here that the source does not have".to_owned(),
            Self::BeginsLater(at) => {
                format!(
                    "the log here begins at offset {at}, and the source has records below it; start the topic with --from-scratch"
                )
            }
            Self::Header => "the batches have different headers".to_owned(),
            Self::Record(offset) => format!("compaction kept a record at offset {offset} that is not the one here"),
            Self::Byte(at) => format!("the batches differ at byte {at}"),
        }
    }
}

/// Why the comparison cannot go on.
#[derive(Debug)]
pub(super) enum CompareError {
    /// A local file cannot be read.
    Io(io::Error),
    /// The source sent bytes that are no batch.
    Source(BatchError),
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(cause) => cause.fmt(f),
            Self::Source(cause) => cause.fmt(f),
        }
    }
}

impl From<io::Error> for CompareError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// The comparison of one partition.
#[derive(Debug)]
pub(super) struct Comparison {
    local: LocalLog,
    walker: BatchWalker,
    compacted: bool,
    /// Batches from here on are not compared.
    until: i64,
    next_offset: i64,
    tally: Tally,
    difference: Option<Difference>,
    current: Current,
    /// The records of a rewritten batch.
    collected: Vec<u8>,
}

/// What is done with the batch that is arriving.
#[derive(Debug, Clone, Copy)]
enum Current {
    /// Its header is not there yet.
    Header,
    /// It is compared from the given byte on.
    Compare(LocalBatch, usize),
    /// It may have been rewritten: it is collected, to be compared record by record.
    Rewritten(LocalBatch),
    /// It is not of the range.
    Ignore,
}

impl Comparison {
    /// Compares the offsets `from..until`.
    pub(super) fn new(mut local: LocalLog, from: i64, until: i64, compacted: bool) -> Self {
        local.seek(from);
        Self {
            local,
            walker: BatchWalker::new(BatchLimits { batch_bytes_max: i32::MAX as usize }),
            compacted,
            until,
            next_offset: from,
            tally: Tally::default(),
            difference: None,
            current: Current::Header,
            collected: Vec::new(),
        }
    }

    /// The offset to fetch from next.
    pub(super) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Whether the range is done or a difference was found.
    pub(super) fn is_done(&self) -> bool {
        self.difference.is_some() || self.next_offset >= self.until
    }

    /// The source has nothing below `offset` any more: goes on there.
    pub(super) fn skip_to(&mut self, offset: i64) {
        self.next_offset = self.next_offset.max(offset);
    }

    /// Takes the next bytes of the source's batches.
    ///
    /// # Errors
    /// When a local file cannot be read, or the source's bytes are no batches.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), CompareError> {
        while !self.is_done() {
            let fed = self.walker.feed(bytes).map_err(CompareError::Source)?;
            let (piece, rest) = bytes.split_at(fed.consumed);
            match self.current {
                Current::Compare(batch, at) => self.compare_body(batch, at, piece)?,
                Current::Rewritten(_) => self.collected.extend_from_slice(piece),
                Current::Header | Current::Ignore => {}
            }
            bytes = rest;
            match fed.event {
                None => break,
                Some(BatchEvent::Header(header)) => self.current = self.begin(&header)?,
                Some(BatchEvent::Batch { header, .. }) => self.end(&header)?,
            }
        }
        Ok(())
    }

    /// The response is over: a batch that was cut off will come again.
    pub(super) fn end_of_response(&mut self) {
        self.walker.reset();
        self.current = Current::Header;
    }

    /// The source has no more batches in the range: what is left here is only here.
    ///
    /// # Errors
    /// When a local file cannot be read.
    pub(super) fn finish(mut self) -> Result<(Tally, Option<Difference>), CompareError> {
        while self.difference.is_none() {
            match self.local.peek()? {
                Some(batch) if batch.header.base_offset < self.until => self.only_here(&batch),
                _ => break,
            }
        }
        Ok((self.tally, self.difference))
    }

    fn begin(&mut self, header: &BatchHeader) -> Result<Current, CompareError> {
        if header.base_offset >= self.until {
            self.next_offset = self.until;
            return Ok(Current::Ignore);
        }
        if header.last_offset() < self.next_offset {
            return Ok(Current::Ignore);
        }
        let here = loop {
            match self.local.peek()? {
                Some(batch) if batch.header.last_offset() < header.base_offset => {
                    self.only_here(&batch);
                    if self.difference.is_some() {
                        return Ok(Current::Ignore);
                    }
                }
                other => break other,
            }
        };
        let Some(here) = here else {
            return Ok(self.differ(What::MissingHere, None, Some(header)));
        };
        if self.walker.header_bytes() == here.header_bytes {
            return Ok(Current::Compare(here, HEADER_BYTES));
        }
        if here.header.base_offset > header.base_offset {
            return Ok(self.differ(What::MissingHere, Some(&here.header), Some(header)));
        }
        if self.compacted && rewritten::is_possible(&here.header, header) {
            self.collected.clear();
            return Ok(Current::Rewritten(here));
        }
        Ok(self.differ(What::Header, Some(&here.header), Some(header)))
    }

    fn compare_body(&mut self, batch: LocalBatch, at: usize, piece: &[u8]) -> Result<(), CompareError> {
        match self.local.differs(&batch, at, piece)? {
            Some(byte) => {
                self.current = self.differ(What::Byte(byte), Some(&batch.header), Some(&batch.header));
            }
            None => self.current = Current::Compare(batch, at + piece.len()),
        }
        Ok(())
    }

    fn end(&mut self, header: &BatchHeader) -> Result<(), CompareError> {
        match self.current {
            Current::Compare(batch, _) => {
                self.local.pass(&batch);
                self.tally.batches += 1;
                self.tally.bytes += header.size_bytes() as u64;
            }
            Current::Rewritten(batch) => {
                let here = self.local.records(&batch)?;
                if let Some(offset) = rewritten::changed_offset((&batch.header, &here), (header, &self.collected)) {
                    self.differ(What::Record(offset), Some(&batch.header), Some(header));
                }
                self.local.pass(&batch);
                self.tally.rewritten += 1;
            }
            Current::Header | Current::Ignore => {}
        }
        self.next_offset = self.next_offset.max(header.next_offset());
        self.current = Current::Header;
        Ok(())
    }

    /// Passes a batch that the source does not have, or no longer has.
    fn only_here(&mut self, batch: &LocalBatch) {
        let before_the_range = batch.header.last_offset() < self.next_offset;
        if !before_the_range && !self.compacted {
            self.differ(What::OnlyHere, Some(&batch.header), None);
            return;
        }
        self.tally.forgotten += u64::from(!before_the_range);
        self.local.pass(batch);
    }

    fn differ(&mut self, what: What, here: Option<&BatchHeader>, source: Option<&BatchHeader>) -> Current {
        let offsets = [here, source].into_iter().flatten().map(|header| header.base_offset);
        let offset = offsets.min().unwrap_or(self.next_offset);
        let difference = Difference { offset, what, here: here.copied(), source: source.copied() };
        self.difference.get_or_insert(difference);
        Current::Ignore
    }
}

#[cfg(test)]
mod tests;
