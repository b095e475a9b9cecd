//! One partition directory: its segments in order, and everything else in it against what the batches say.

use super::report::Checked;
use super::segment::{Indexes, Shape};
use super::targets::{DataDirectory, Target};
use crate::segment::{Batch, Item, SegmentWalk};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use twinlog_proto::error::DecodeError;
use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names::{self, FileKind};
use twinlog_proto::storage::partition_metadata;
use twinlog_proto::storage::producer_snapshot::{self, ProducerEntry};
use twinlog_proto::storage::producer_state::ProducerState;
use twinlog_proto::storage::txn_index::{AbortedTxn, TxnIndex};

/// The topic of the cluster's metadata.
const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Checks a partition.
///
/// # Errors
/// When a file cannot be read.
pub(super) fn check(target: &Target, data: &DataDirectory) -> io::Result<Checked> {
    let mut check = PartitionCheck::open(target, data)?;
    let count = check.bases.len();
    // A broker leaves the indexes of the cluster's metadata as they are, whatever it says about its directory.
    let clean = data.clean && target.topic != CLUSTER_METADATA;
    for at in 0..count {
        let base = check.bases[at];
        let shape = Shape { base, is_last: at + 1 == count, in_use: data.in_use, clean };
        check.segment(shape)?;
    }
    check.conclude(data)?;
    Ok(check.report)
}

struct PartitionCheck<'a> {
    target: &'a Target,
    report: Checked,
    /// Base offsets of the segments.
    bases: Vec<i64>,
    /// Offsets of the snapshots that were not reached yet.
    snapshots: VecDeque<i64>,
    in_use: bool,
    epochs: Option<LeaderEpochs>,
    /// Offsets below have no epoch in the file.
    epochs_from: i64,
    producers: ProducerState,
    /// The state before the first segment is known, so that what files say about producers must be in the batches.
    producers_known: bool,
    /// Offsets are missing: compaction was here, which takes batches and markers with it.
    gaps: bool,
    next_offset: i64,
    last_epoch: i32,
}

impl<'a> PartitionCheck<'a> {
    fn open(target: &'a Target, data: &DataDirectory) -> io::Result<Self> {
        let (mut bases, mut snapshots) = (Vec::new(), Vec::new());
        let directory = target.directory.display().to_string();
        let (topic, partition) = (target.topic.clone(), target.partition);
        let mut report = Checked { directory, topic, partition, ..Checked::default() };
        for entry in fs::read_dir(&target.directory)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            match names::parse_file_name(&name) {
                Some(parsed) if parsed.leftover.is_some() => report.note(&name, None, "is not in use"),
                Some(parsed) if parsed.kind == FileKind::Log => bases.push(parsed.offset),
                Some(parsed) if parsed.kind == FileKind::Snapshot => snapshots.push(parsed.offset),
                _ => {}
            }
        }
        bases.sort_unstable();
        snapshots.sort_unstable();
        let first = bases.first().copied().unwrap_or(0);
        let key = (target.topic.clone(), target.partition);
        report.segments = bases.len();
        report.log_start_offset = data.log_starts.get(&key).copied().unwrap_or(first).max(first);
        let mut check = Self {
            target,
            epochs_from: report.log_start_offset,
            report,
            bases,
            snapshots: snapshots.into(),
            in_use: data.in_use,
            epochs: None,
            producers: ProducerState::new(),
            producers_known: first == 0,
            gaps: false,
            next_offset: first,
            last_epoch: -1,
        };
        if check.bases.is_empty() {
            check.report.damage("", None, "there is no segment file");
        }
        check.metadata()?;
        check.epochs = check.parsed(names::LEADER_EPOCHS, LeaderEpochs::parse)?;
        let first_epoch = check.epochs.as_ref().and_then(|epochs| epochs.entries().first());
        if let Some(epoch) = first_epoch.filter(|_| !data.log_starts.contains_key(&key) && !data.knows_log_starts) {
            // Epochs are cut at the log start.
            check.epochs_from = check.epochs_from.max(epoch.start_offset);
        }
        check.first_producers(first)?;
        Ok(check)
    }

    fn metadata(&mut self) -> io::Result<()> {
        let Some(id) = self.parsed(names::PARTITION_METADATA, partition_metadata::parse)? else {
            if self.read(names::PARTITION_METADATA)?.is_none() {
                self.report.damage(names::PARTITION_METADATA, None, "is missing");
            }
            return Ok(());
        };
        if let Some(wanted) = self.target.topic_id.filter(|wanted| *wanted != id) {
            self.report.damage(names::PARTITION_METADATA, None, format!("has topic id {id}, not {wanted}"));
        }
        Ok(())
    }

    /// The producers before the first batch, from the snapshot there.
    fn first_producers(&mut self, first: i64) -> io::Result<()> {
        if first == 0 || !self.snapshots.contains(&first) {
            return Ok(());
        }
        let load = |bytes: &[u8]| ProducerState::load(bytes, None);
        if let Some(state) = self.parsed(&names::file_name(first, FileKind::Snapshot), load)? {
            (self.producers, self.producers_known) = (state, true);
        }
        Ok(())
    }

    fn segment(&mut self, shape: Shape) -> io::Result<()> {
        let name = names::file_name(shape.base, FileKind::Log);
        if shape.base < self.next_offset {
            self.report.damage(
                &name,
                None,
                format!("begins below offset {}, where the one before it ends", self.next_offset),
            );
        }
        self.gaps |= shape.base > self.next_offset;
        self.next_offset = self.next_offset.max(shape.base);
        // Before the batches, so that what is appended meanwhile cannot look like an index that leads.
        let mut indexes = Indexes::read(&self.target.directory, shape, &mut self.report)?;
        let txns = self.txns(shape.base)?;
        let mut ended = Vec::new();
        let mut walk = SegmentWalk::new(File::open(self.target.directory.join(&name))?);
        while let Some(item) = walk.next()? {
            match item {
                Item::Batch(batch) if batch.is_intact() => {
                    self.batch(&name, &batch, shape.base, &mut ended)?;
                    indexes.batch(&batch, &mut self.report);
                }
                Item::Batch(batch) => {
                    let BatchHeader { base_offset, crc, .. } = batch.header;
                    let why = format!(
                        "the batch at offset {base_offset} has checksum {crc:#010x}, its bytes give {:#010x}",
                        batch.computed_crc
                    );
                    self.tail(&name, shape, batch.position, why);
                    indexes.batch(&batch, &mut self.report);
                    self.next_offset = self.next_offset.max(batch.header.next_offset());
                }
                Item::ZeroTail { position, bytes } if shape.is_last && !shape.clean => {
                    self.report.note(&name, position, format!("{bytes} allocated bytes are not written yet"));
                }
                Item::ZeroTail { position, bytes } => {
                    self.report.damage(&name, position, format!("{bytes} zero bytes follow the last batch"));
                }
                Item::Torn { position, bytes } => {
                    self.tail(&name, shape, position, format!("the file ends after {bytes} bytes of a batch"));
                }
                Item::Bad { position, error } => self.tail(&name, shape, position, error.to_string()),
            }
        }
        indexes.conclude(&mut self.report);
        self.compare_txns(shape, txns.as_deref(), &ended);
        Ok(())
    }

    /// Damage, unless it is at the end of a log that is being written.
    fn tail(&mut self, file: &str, shape: Shape, position: u64, why: String) {
        if shape.is_last && shape.in_use {
            self.report.note(file, position, format!("{why}; it is being written"));
        } else {
            self.report.damage(file, position, why);
        }
    }

    fn batch(&mut self, file: &str, batch: &Batch, base: i64, ended: &mut Vec<AbortedTxn>) -> io::Result<()> {
        let header = &batch.header;
        let at = header.base_offset;
        self.snapshots_up_to(at)?;
        if at < self.next_offset {
            let why = format!("the batch at offset {at} follows one that ends at {}", self.next_offset - 1);
            self.report.damage(file, batch.position, why);
        }
        if header.last_offset() - base > i64::from(i32::MAX) {
            self.report.damage(
                file,
                batch.position,
                format!("offset {} is too far from the segment's first", header.last_offset()),
            );
        }
        self.gaps |= at > self.next_offset;
        self.epoch(file, batch);
        ended.extend(self.producers.update(header, batch.marker));
        self.next_offset = self.next_offset.max(header.next_offset());
        self.report.batches += 1;
        self.report.bytes += header.size_bytes() as u64;
        Ok(())
    }

    fn epoch(&mut self, file: &str, batch: &Batch) {
        let BatchHeader { base_offset, leader_epoch, .. } = batch.header;
        if leader_epoch < self.last_epoch {
            let why = format!("leader epoch {leader_epoch} at offset {base_offset} follows epoch {}", self.last_epoch);
            self.report.damage(file, batch.position, why);
        }
        self.last_epoch = self.last_epoch.max(leader_epoch);
        let Some(epochs) = &self.epochs else { return };
        // The epoch of an offset below the log start, within the first batch, may have been dropped.
        let offset = base_offset.max(self.epochs_from.min(batch.header.last_offset()));
        let written = epochs.epoch_at(offset);
        let is_newer = self.in_use && epochs.latest().is_none_or(|latest| leader_epoch > latest.epoch);
        if written != Some(leader_epoch) && !is_newer && offset >= self.epochs_from {
            let says = written.map_or_else(|| "no epoch".to_owned(), |epoch| format!("epoch {epoch}"));
            let why = format!("says {says} for offset {offset}, whose batch has epoch {leader_epoch}");
            self.report.damage(names::LEADER_EPOCHS, None, why);
        }
    }

    /// Compares the snapshots at or below `offset`, which all batches below it have led up to.
    fn snapshots_up_to(&mut self, offset: i64) -> io::Result<()> {
        while let Some(at) = self.snapshots.pop_front_if(|at| *at <= offset) {
            let name = names::file_name(at, FileKind::Snapshot);
            let Some(entries) = self.parsed(&name, producer_snapshot::decode)? else { continue };
            if at < self.next_offset || !self.producers_known || self.gaps {
                // Within a batch, or about producers whose batches are gone: only the file itself can be checked.
                continue;
            }
            self.compare_producers(&name, &entries);
        }
        Ok(())
    }

    fn compare_producers(&mut self, name: &str, entries: &[ProducerEntry]) {
        for entry in entries {
            let id = entry.producer_id;
            // A broker that has forgotten a producer meanwhile does not know its coordinator any more.
            let known = self
                .producers
                .get(id)
                .map(|known| ProducerEntry { coordinator_epoch: entry.coordinator_epoch, ..*known });
            match known {
                Some(known) if known == *entry => {}
                Some(_) => self.report.damage(name, None, format!("producer {id} is not as the batches say")),
                None => self.report.damage(name, None, format!("no batch has producer {id}")),
            }
        }
        for open in self.producers.open_txns() {
            if !entries.iter().any(|entry| entry.producer_id == open.producer_id) {
                self.report.damage(
                    name,
                    None,
                    format!("producer {} with an open transaction is missing", open.producer_id),
                );
            }
        }
    }

    fn txns(&mut self, base: i64) -> io::Result<Option<Vec<AbortedTxn>>> {
        self.parsed(&names::file_name(base, FileKind::TxnIndex), |bytes| {
            Ok(TxnIndex::parse(bytes, base)?.iter().collect())
        })
    }

    fn compare_txns(&mut self, shape: Shape, written: Option<&[AbortedTxn]>, ended: &[AbortedTxn]) {
        let name = names::file_name(shape.base, FileKind::TxnIndex);
        let written = written.unwrap_or_default();
        if let Some(ahead) = written.iter().find(|txn| txn.last_offset >= self.next_offset && !shape.in_use) {
            self.report.damage(
                &name,
                None,
                format!("has an abort at offset {}, after the last batch", ahead.last_offset),
            );
        }
        if !self.producers_known || self.gaps || (shape.is_last && shape.in_use) {
            return;
        }
        if written != ended {
            let first = written.iter().zip(ended).position(|(a, b)| a != b).unwrap_or(written.len().min(ended.len()));
            let why = format!(
                "has {} aborted transactions, the batches have {}; entry {first} is the first that differs",
                written.len(),
                ended.len()
            );
            self.report.damage(&name, None, why);
        }
    }

    fn conclude(&mut self, data: &DataDirectory) -> io::Result<()> {
        self.report.log_end_offset = self.next_offset;
        self.snapshots_up_to(self.next_offset)?;
        if self.in_use {
            return Ok(());
        }
        let end = self.next_offset;
        for ahead in std::mem::take(&mut self.snapshots) {
            let name = names::file_name(ahead, FileKind::Snapshot);
            self.report.damage(&name, None, format!("is about offset {ahead}, and the log ends at {end}"));
        }
        match self.epochs.as_ref().map(LeaderEpochs::latest) {
            Some(Some(latest)) if latest.start_offset > end => {
                let why =
                    format!("epoch {} begins at {}, and the log ends at {end}", latest.epoch, latest.start_offset);
                self.report.damage(names::LEADER_EPOCHS, None, why);
            }
            None if self.report.batches > 0 && self.read(names::LEADER_EPOCHS)?.is_none() => {
                self.report.damage(names::LEADER_EPOCHS, None, "is missing");
            }
            _ => {}
        }
        let key = (self.target.topic.clone(), self.target.partition);
        let checkpoints = [
            (names::RECOVERY_POINTS, &data.recovery_points),
            (names::HIGH_WATERMARKS, &data.high_watermarks),
            (names::LOG_STARTS, &data.log_starts),
        ];
        for (name, offsets) in checkpoints {
            if let Some(offset) = offsets.get(&key).filter(|offset| **offset > end) {
                self.report.damage(&format!("../{name}"), None, format!("says {offset}, and the log ends at {end}"));
            }
        }
        Ok(())
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        read(&self.target.directory.join(name))
    }

    /// Reads and parses a file; none when it is missing or wrong, and the latter is a finding.
    fn parsed<T>(&mut self, name: &str, parse: impl Fn(&[u8]) -> Result<T, DecodeError>) -> io::Result<Option<T>> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        match parse(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(why) => {
                self.report.damage(name, why.at as u64, why.to_string());
                Ok(None)
            }
        }
    }
}

/// The file's bytes; none when it is missing.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}
