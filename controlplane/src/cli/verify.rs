//! `twinlog verify`: an offline check of log directories, or a comparison with the source, batch by batch.
//!
//! It reads segment files by itself ([`local`], [`super::segment`]) and shares only pure walkers and codecs with the data plane, so that a
//! mistake there is not made here again.

mod against;
mod compare;
mod local;
mod offline;
mod partition;
mod report;
mod rewritten;
mod segment;
mod source;
mod targets;

use super::args::Verify;
use crate::failure::Failure;
use std::process::ExitCode;

/// Checks what the command line names; exit code 0 when all is well, 1 when not.
///
/// # Errors
/// When something cannot be read or asked, so that there is no verdict.
pub(super) fn run(args: &Verify) -> Result<ExitCode, Failure> {
    let mirror = match (&args.mirror, &args.state) {
        (Some(mirror), Some(state)) => Some(targets::assignment(state, mirror)?),
        _ => None,
    };
    let well = match mirror {
        Some(assignment) if args.against_source => {
            let report = against::compare(&assignment)?;
            report.print(args.json)?;
            report.is_well()
        }
        mirror => {
            let mut partitions = targets::in_directories(&args.directories)?;
            partitions.extend(mirror.iter().flat_map(targets::of_mirror));
            let report = offline::check(&partitions)?;
            report.print(args.json)?;
            report.is_well()
        }
    };
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
