//! How far the state log was durable, in a file of its own beside the log's folder: a log that ends below it has lost changes.
//!
//! A log that was cut between two batches, or that is not there at all, looks like one that never held more. Assignments that
//! are newer than the log tell only of mirrors. The file has the format of a stock recovery point checkpoint and is written
//! after what it speaks of is durable: with the first change, then every [`RECOVERY_POINT_RECORDS`], at each start and after
//! each compaction. So it never says too much; a file that cannot be written is written later and says too little.

use crate::error::Fatal;
use crate::files;
use crate::limits::RECOVERY_POINT_RECORDS;
use crate::statelog::writer::{LOG_DIRECTORY, log_path};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use tracing::warn;
use twinlog_proto::storage::checkpoint::{self, PartitionOffset};

/// Its name in STATE.
pub const FILE: &str = "state-log-recovery-point";
/// The state log has one partition.
const PARTITION: i32 = 0;

/// What the file says.
#[derive(Debug)]
pub struct RecoveryPoint {
    path: PathBuf,
    log: PathBuf,
    /// Exclusive; 0 where nothing was ever durable.
    offset: i64,
    is_unwritten: bool,
}

impl RecoveryPoint {
    /// Reads it; an absent one says nothing.
    ///
    /// # Errors
    /// When it cannot be read or breaks its format: then nobody knows whether the log is whole.
    pub fn read(state: &Path) -> Result<Self, Fatal> {
        let (path, log) = (state.join(FILE), log_path(state));
        let shown = path.display();
        let offset = match std::fs::read(&path) {
            Ok(bytes) => match offset_in(&bytes) {
                Ok(offset) => offset,
                Err(why) => {
                    let what = format!("{shown} does not say how far the state log went");
                    let remedy = "restore it from a copy, or remove it when the state log is whole";
                    return Err(Fatal::new(what, why, remedy));
                }
            },
            Err(cause) if cause.kind() == ErrorKind::NotFound => 0,
            Err(cause) => {
                let what = format!("cannot read {shown}");
                return Err(Fatal::new(what, &cause, files::remedy(&cause)));
            }
        };
        Ok(Self { path, log, offset, is_unwritten: false })
    }

    /// Whether a log that ends at `next_offset` (exclusive) holds all that was durable.
    ///
    /// # Errors
    /// When it does not, with what can be done.
    pub fn check(&self, next_offset: i64) -> Result<(), Fatal> {
        if next_offset >= self.offset {
            return Ok(());
        }
        let (file, offset) = (self.path.display(), self.offset);
        Err(Fatal::new(
            format_args!("the state log {} has lost changes that were answered", self.log.display()),
            format_args!("it ends at offset {next_offset}, and {file} says that it was durable up to {offset}"),
            format_args!("restore the log from a newer copy, or move {file} away to go on with what the log says"),
        ))
    }

    /// The log is durable up to `next_offset`: written when that is far enough beyond what the file says.
    pub fn passed(&mut self, next_offset: i64) {
        if is_due(self.offset, next_offset) {
            self.reached(next_offset);
        }
    }

    /// The log is durable up to `next_offset`: written at once, or at the next change when there is no room now.
    pub fn reached(&mut self, next_offset: i64) {
        if next_offset <= self.offset {
            return;
        }
        match self.write(next_offset) {
            Ok(()) => (self.offset, self.is_unwritten) = (next_offset, false),
            Err(cause) => {
                if !std::mem::replace(&mut self.is_unwritten, true) {
                    let (file, remedy) = (self.path.display(), files::remedy(&cause));
                    warn!(%file, %cause, "how far the state log went cannot be written, so its loss may not be seen; {remedy}");
                }
            }
        }
    }

    fn write(&self, offset: i64) -> io::Result<()> {
        let entry = PartitionOffset { topic: LOG_DIRECTORY.to_owned(), partition: PARTITION, offset };
        files::replace(&self.path, checkpoint::to_text(&[entry]).as_bytes())
    }
}

/// The first change is: without it a log that is gone would look like one that never was.
fn is_due(written: i64, next_offset: i64) -> bool {
    (written == 0 && next_offset > 0) || next_offset.saturating_sub(written) >= RECOVERY_POINT_RECORDS
}

fn offset_in(bytes: &[u8]) -> Result<i64, String> {
    let entries = checkpoint::parse(bytes).map_err(|why| why.to_string())?;
    match &entries[..] {
        [entry] if entry.topic == LOG_DIRECTORY && entry.partition == PARTITION && entry.offset >= 0 => {
            Ok(entry.offset)
        }
        _ => Err(format!("one line `{LOG_DIRECTORY} {PARTITION} OFFSET` was expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_ends_below_what_was_durable_is_refused_by_name_with_the_remedy() {
        let state = tempfile::tempdir().unwrap();
        let mut point = RecoveryPoint::read(state.path()).unwrap();
        point.check(0).unwrap();
        point.passed(3);
        assert_eq!(std::fs::read(state.path().join(FILE)).unwrap(), b"0\n1\n__mirror_state 0 3\n");
        let point = RecoveryPoint::read(state.path()).unwrap();
        point.check(3).unwrap();
        point.check(4).unwrap();
        let why = point.check(2).unwrap_err().to_string();
        for word in ["__mirror_state/", "has lost changes", "ends at offset 2", FILE, "up to 3", "restore", "move"] {
            assert!(why.contains(word), "{why:?} lacks {word:?}");
        }
    }

    #[test]
    fn it_is_written_with_the_first_change_and_seldom_after_that_and_never_goes_back() {
        let max = RECOVERY_POINT_RECORDS;
        assert!(!is_due(0, 0) && is_due(0, 1) && !is_due(1, max) && is_due(1, max + 1));
        let state = tempfile::tempdir().unwrap();
        let mut point = RecoveryPoint::read(state.path()).unwrap();
        point.reached(9);
        point.reached(8);
        assert_eq!(RecoveryPoint::read(state.path()).unwrap().offset, 9);
    }

    #[test]
    fn a_file_that_says_nothing_is_refused_and_one_that_cannot_be_written_is_written_later() {
        let state = tempfile::tempdir().unwrap();
        let mut point = RecoveryPoint::read(state.path()).unwrap();
        std::fs::create_dir(state.path().join(FILE)).unwrap();
        point.passed(1);
        std::fs::remove_dir(state.path().join(FILE)).unwrap();
        point.passed(2);
        assert_eq!(RecoveryPoint::read(state.path()).unwrap().offset, 2);
        for wrong in ["", "0\n0\n", "0\n1\nother 0 3\n", "0\n1\n__mirror_state 0 -1\n", "junk"] {
            std::fs::write(state.path().join(FILE), wrong).unwrap();
            let why = RecoveryPoint::read(state.path()).unwrap_err().to_string();
            assert!(why.contains(FILE) && why.contains("restore it from a copy"), "{why}");
        }
    }
}
