//! `twinlog demo`: the main job, measured and compared, by the program that does all measuring.

use super::args::Demo;
use crate::failure::Failure;
use crate::programs::sibling;
use std::process::{Command, ExitCode};

/// Runs `twinlog-bench run demo` on this terminal and ends as it ends.
///
/// # Errors
/// When it is not there or cannot be started.
pub(super) fn run(args: &Demo) -> Result<ExitCode, Failure> {
    let program = sibling("twinlog-bench")?;
    let mut command = Command::new(&program);
    command.args(["run", "demo", "--bytes", &args.bytes, "--partitions", &args.partitions.to_string()]);
    if let Some(source) = &args.source {
        command.args(["--source", source]);
    }
    let status = command.status().map_err(|cause| {
        Failure::new(format_args!("{} cannot be started", program.display()), cause, "check the file and its mode")
    })?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}
