//! `twinlog dump`: prints what is in the files of a log directory and in our own.
//!
//! What a file is follows from its name. A damaged file is printed as far as it can be read, and then the damage is named with its
//! position; the other files are printed all the same.

mod assignment;
mod files;
mod metadata;
mod records;
mod segment;
mod state_log;

pub(super) use files::without_padding;

use super::args::Dump;
use super::output::{self, Fields, Lines};
use crate::failure::Failure;
use crate::statelog::recovery_point;
use crate::statelog::writer::LOG_DIRECTORY;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use twinlog_proto::assignment::SUFFIX;
use twinlog_proto::storage::kraft::{METADATA_LOG, SNAPSHOT_SUFFIX};
use twinlog_proto::storage::names::{self, FileKind};

/// Prints each file.
///
/// # Errors
/// When stdout is gone. What is wrong with a file goes to stderr, and into the exit code.
pub(super) fn run(args: &Dump) -> Result<ExitCode, Failure> {
    let mut lines = Lines::new(args.json);
    let mut code = ExitCode::SUCCESS;
    for path in &args.files {
        let mut page = Page { lines: &mut lines, path, records: args.records };
        let Err(stop) = page.dump() else { continue };
        lines.finish()?;
        match stop {
            Stop::Stdout(failure) => return Err(failure),
            Stop::File(failure) => output::failure(&failure),
        }
        code = ExitCode::from(1);
    }
    lines.finish()?;
    Ok(code)
}

/// Why a file is not printed to its end.
#[derive(Debug)]
enum Stop {
    /// It is damaged or cannot be read.
    File(Failure),
    /// Nobody can be told any more.
    Stdout(Failure),
}

/// One file being printed.
#[derive(Debug)]
struct Page<'a> {
    lines: &'a mut Lines,
    path: &'a Path,
    records: bool,
}

impl Page<'_> {
    fn dump(&mut self) -> Result<(), Stop> {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(parsed) = names::parse_file_name(name) {
            return match parsed.kind {
                FileKind::Log => self.segment(),
                FileKind::OffsetIndex => self.offset_index(parsed.offset),
                FileKind::TimeIndex => self.time_index(parsed.offset),
                FileKind::TxnIndex => self.txn_index(parsed.offset),
                FileKind::Snapshot => self.producer_snapshot(),
            };
        }
        match name {
            names::LEADER_EPOCHS => self.leader_epochs(),
            names::RECOVERY_POINTS | names::LOG_STARTS | names::HIGH_WATERMARKS | names::CLEANER_OFFSETS => {
                self.offset_checkpoint()
            }
            recovery_point::FILE => self.offset_checkpoint(),
            names::PARTITION_METADATA => self.partition_metadata(),
            names::META_PROPERTIES => self.meta_properties(),
            names::CLEAN_SHUTDOWN => self.clean_shutdown(),
            _ if name.ends_with(SUFFIX) => self.assignment(),
            _ if name.ends_with(SNAPSHOT_SUFFIX) => self.segment(),
            _ => Err(Stop::File(Failure::new(
                format_args!("{} is not printed", self.path.display()),
                "its name is none that a broker or twinlog gives",
                "keep the name of the file: what it holds follows from it",
            ))),
        }
    }

    fn is_state_log(&self) -> bool {
        self.lies_in(LOG_DIRECTORY)
    }

    /// Whether the file holds records of a cluster's metadata.
    fn is_metadata(&self) -> bool {
        self.path.to_str().is_some_and(|name| name.ends_with(SNAPSHOT_SUFFIX)) || self.lies_in(METADATA_LOG)
    }

    fn lies_in(&self, folder: &str) -> bool {
        let name = self.path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(folder))
    }

    fn print(&mut self, fields: Fields) -> Result<(), Stop> {
        self.lines.print(&fields).map_err(Stop::Stdout)
    }

    fn read(&self) -> Result<Vec<u8>, Stop> {
        std::fs::read(self.path).map_err(|cause| self.unreadable(cause))
    }

    fn unreadable(&self, cause: impl fmt::Display) -> Stop {
        let what = format!("{} cannot be read", self.path.display());
        Stop::File(Failure::new(what, cause, "check the path and the rights of this user"))
    }

    /// The file is damaged at a byte that `why` names, or at `position`.
    fn damaged(&self, position: impl Into<Option<u64>>, why: impl fmt::Display) -> Stop {
        let what = match position.into() {
            Some(position) => format!("{} is damaged at byte {position}", self.path.display()),
            None => format!("{} is damaged", self.path.display()),
        };
        Stop::File(Failure::new(what, why, "what could be read is printed"))
    }
}
