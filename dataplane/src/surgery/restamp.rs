//! Copies a segment and gives every batch leader epoch 0. The checksums are checked on the way, so that no damage is handed on.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker};

use super::SurgeryError;
use crate::disk::files::Reading;
use crate::limits::COPY_PIECE_BYTES;
use crate::log::LogRules;

/// Where the leader epoch stands in a batch.
const EPOCH_AT: u64 = 12;
/// The leader epoch of a partition that a broker has just made.
pub(super) const EPOCH: i32 = 0;

/// What was copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restamped {
    /// Bytes of segments.
    pub(super) bytes: u64,
    /// Batches that had another epoch.
    pub(super) batches: u64,
    /// The highest producer id; -1 for none.
    pub(super) highest_producer_id: i64,
}

impl Default for Restamped {
    fn default() -> Self {
        Self { bytes: 0, batches: 0, highest_producer_id: -1 }
    }
}

impl Restamped {
    /// Adds what another segment has.
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.highest_producer_id = self.highest_producer_id.max(other.highest_producer_id);
    }
}

/// Copies the segment at `source` to `target`, restamped. Blocks are shared where the file system can.
///
/// # Errors
/// When a file cannot be read or written, or a batch is damaged.
pub(super) fn restamp(source: &Path, target: &Path) -> Result<Restamped, SurgeryError> {
    let unread = |cause| SurgeryError::file("read", source, cause);
    let unwritten = |cause| SurgeryError::file("write", target, cause);
    let mut reading = Reading::open(source, 0).map_err(unread)?;
    let mut copy = File::create(target).map_err(unwritten)?;
    let original = File::open(source).map_err(unread)?;
    let shares = rustix::fs::ioctl_ficlone(&copy, &original).is_ok();
    let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: LogRules::default().batch_bytes_max });
    let mut piece = vec![0; COPY_PIECE_BYTES];
    let (mut done, mut begins) = (Restamped::default(), 0_u64);
    loop {
        let filled = reading.next(&mut piece).map_err(unread)?;
        if !shares {
            copy.write_all(&piece[..filled]).map_err(unwritten)?;
        }
        let mut at = 0;
        loop {
            let fed = walker.feed(&piece[at..filled]).map_err(|cause| damaged(source, begins, &cause))?;
            at += fed.consumed;
            match fed.event {
                None => break,
                Some(BatchEvent::Header(_)) => {}
                Some(BatchEvent::Batch { header, .. }) => {
                    if header.leader_epoch != EPOCH {
                        copy.write_all_at(&EPOCH.to_be_bytes(), begins + EPOCH_AT).map_err(unwritten)?;
                        done.batches += 1;
                    }
                    begins += header.size_bytes() as u64;
                    done.highest_producer_id = done.highest_producer_id.max(header.producer_id);
                }
            }
        }
        done.bytes += filled as u64;
        if filled < piece.len() {
            break;
        }
    }
    if walker.pending_bytes() > 0 {
        return Err(damaged(source, begins, &"the last batch is cut off"));
    }
    keep_time(&copy, &original).map_err(unwritten)?;
    Ok(done)
}

/// A broker goes by the file's time where a segment says none.
fn keep_time(copy: &File, original: &File) -> io::Result<()> {
    copy.set_modified(original.metadata()?.modified()?)
}

fn damaged(path: &Path, position: u64, why: &dyn std::fmt::Display) -> SurgeryError {
    SurgeryError::Damaged { path: path.to_owned(), position, why: why.to_string() }
}
