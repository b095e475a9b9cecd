//! The step between `up` and a plane: this process asks to be killed when its parent dies, and then becomes the plane.
//!
//! A plane that is started by hand is not tied to anybody, and neither plane has to know of `up`. What a killed plane leaves behind is what
//! any crash leaves behind; its next start recovers.

use crate::failure::Failure;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Ties this process to `parent` and becomes `program`; comes back with why that failed.
///
/// # Errors
/// When the parent is gone already or the program cannot be executed.
pub(in crate::cli) fn run(parent: u32, program: &Path, args: &[OsString]) -> Result<Infallible, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|cause| Failure::new("the plane cannot be tied to twinlog up", cause, "report this"))?;
    // It may have died before the line above, and then no signal comes.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if now != Some(parent) {
        let why = format!("process {parent} is not the parent of this one");
        return Err(Failure::new("the plane is not started", why, "start the planes with `twinlog up`"));
    }
    let cause = Command::new(program).args(args).exec();
    Err(Failure::new(format_args!("{} cannot be started", program.display()), cause, "check the file and its mode"))
}
