//! The offset and time index of one segment against its batches.

use super::partition::read;
use super::report::Checked;
use crate::cli::dump::without_padding;
use crate::segment::Batch;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use twinlog_proto::error::DecodeError;
use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::offset_index::{self, OffsetEntry, OffsetIndex};
use twinlog_proto::storage::time_index::{self, NO_TIMESTAMP, TimeEntry, TimeIndex};

/// What is known about a segment before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Its base offset.
    pub(super) base: i64,
    /// It is the one that is appended to.
    pub(super) is_last: bool,
    /// A process writes here now.
    pub(super) in_use: bool,
    /// The directory claims to have been closed in order.
    pub(super) clean: bool,
}

/// The entries that the batches have not reached yet.
#[derive(Debug)]
pub(super) struct Indexes {
    shape: Shape,
    offsets: Option<VecDeque<OffsetEntry>>,
    times: Option<VecDeque<TimeEntry>>,
    last_time: i64,
    /// An entry whose batch was seen, but not yet the batch with its offset: older brokers index whole appends.
    awaited: Option<OffsetEntry>,
    largest: i64,
    batches: u64,
}

impl Indexes {
    /// Reads both.
    ///
    /// # Errors
    /// When a file cannot be read. One that is wrong is a finding.
    pub(super) fn read(directory: &Path, shape: Shape, report: &mut Checked) -> io::Result<Self> {
        let base = shape.base;
        let offsets = entries(directory, FileKind::OffsetIndex, offset_index::ENTRY_BYTES, shape, report, |bytes| {
            Ok(OffsetIndex::parse(bytes, base)?.iter().collect::<VecDeque<_>>())
        })?;
        let times = entries(directory, FileKind::TimeIndex, time_index::ENTRY_BYTES, shape, report, |bytes| {
            Ok(TimeIndex::parse(bytes, base)?.iter().collect::<VecDeque<_>>())
        })?;
        let last_time = times.as_ref().and_then(|times| times.back()).map_or(NO_TIMESTAMP, |entry| entry.timestamp);
        Ok(Self { shape, offsets, times, last_time, awaited: None, largest: NO_TIMESTAMP, batches: 0 })
    }

    /// Takes the next batch.
    pub(super) fn batch(&mut self, batch: &Batch, report: &mut Checked) {
        self.batches += 1;
        self.offset(batch, report);
        self.largest = self.largest.max(batch.header.max_timestamp);
        let last = batch.header.last_offset();
        let Some(times) = &mut self.times else { return };
        while let Some(entry) = times.pop_front_if(|entry| entry.offset <= last) {
            if entry.timestamp != self.largest {
                let why = format!(
                    "says that the largest timestamp up to offset {} is {}, and it is {}",
                    entry.offset, entry.timestamp, self.largest
                );
                report.damage(&names::file_name(self.shape.base, FileKind::TimeIndex), None, why);
            }
        }
    }

    fn offset(&mut self, batch: &Batch, report: &mut Checked) {
        let name = names::file_name(self.shape.base, FileKind::OffsetIndex);
        let last = batch.header.last_offset();
        let wrong = |entry: OffsetEntry, what: &str| format!("entry ({}, {}): {what}", entry.offset, entry.position);
        if let Some(entries) = &mut self.offsets {
            while let Some(entry) = entries.pop_front_if(|entry| u64::from(entry.position) <= batch.position) {
                if let Some(before) = self.awaited.take() {
                    report.damage(&name, None, wrong(before, "no batch after its position ends at its offset"));
                }
                if u64::from(entry.position) == batch.position {
                    self.awaited = Some(entry);
                } else {
                    report.damage(&name, None, wrong(entry, "no batch begins at its position"));
                }
            }
        }
        if let Some(entry) = self.awaited.take_if(|entry| entry.offset <= last)
            && entry.offset < last
        {
            report.damage(&name, None, wrong(entry, "the batch at its position does not end at its offset"));
        }
    }

    /// Looks at what is left when there are no more batches.
    pub(super) fn conclude(mut self, report: &mut Checked) {
        let Shape { base, is_last, in_use, .. } = self.shape;
        let offset_name = names::file_name(base, FileKind::OffsetIndex);
        let time_name = names::file_name(base, FileKind::TimeIndex);
        let ahead = self.awaited.take().or_else(|| self.offsets.as_mut().and_then(VecDeque::pop_front));
        if let Some(entry) = ahead.filter(|_| !(is_last && in_use)) {
            report.damage(&offset_name, None, format!("leads the log: entry ({}, {})", entry.offset, entry.position));
        }
        let ahead = self.times.as_mut().and_then(VecDeque::pop_front);
        if let Some(entry) = ahead.filter(|_| !(is_last && in_use)) {
            report.damage(&time_name, None, format!("leads the log: entry ({}, {})", entry.timestamp, entry.offset));
        }
        if is_last || self.batches == 0 {
            return;
        }
        for (name, is_there) in [(&offset_name, self.offsets.is_some()), (&time_name, self.times.is_some())] {
            if !is_there {
                report.damage(name, None, "is missing or cannot be read");
            }
        }
        if self.times.is_some() && self.last_time != self.largest {
            let why =
                format!("ends with timestamp {}, and the largest of the segment is {}", self.last_time, self.largest);
            report.damage(&time_name, None, why);
        }
    }
}

/// The entries of an index; zero entries at its end are for the segment that is appended to.
fn entries<T>(
    directory: &Path,
    kind: FileKind,
    entry_bytes: usize,
    shape: Shape,
    report: &mut Checked,
    parse: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> io::Result<Option<T>> {
    let name = names::file_name(shape.base, kind);
    let Some(bytes) = read(&directory.join(&name))? else { return Ok(None) };
    let (used, padding) = without_padding(&bytes, entry_bytes);
    // Whoever appends to a segment allocates its indexes ahead.
    if padding > 0 && !(shape.is_last && shape.in_use) {
        let what = format!("{padding} zero bytes follow the last entry");
        if shape.is_last && !shape.clean {
            report.note(&name, used.len() as u64, what);
        } else {
            report.damage(&name, used.len() as u64, what);
        }
    }
    match parse(used) {
        Ok(entries) => Ok(Some(entries)),
        Err(why) => {
            report.damage(&name, why.at as u64, why.to_string());
            Ok(None)
        }
    }
}
