//! Shell completions and man pages, generated from the command line itself.

use super::args::Twinlog;
use super::output;
use crate::failure::Failure;
use clap::CommandFactory;
use std::io::{self, Write};
use std::path::Path;

/// Prints completions for `shell` on stdout.
///
/// # Errors
/// When stdout is gone.
pub(super) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Twinlog::command(), "twinlog", &mut text);
    io::stdout().write_all(&text).map_err(output::gone)
}

/// Writes `twinlog.1`, `twinlog-up.1`, ... into `folder`.
///
/// # Errors
/// When the folder cannot be written.
pub(super) fn man_pages(folder: &Path) -> Result<(), Failure> {
    clap_mangen::generate_to(Twinlog::command(), folder).map_err(|cause| {
        Failure::new(
            format_args!("man pages cannot be written to {}", folder.display()),
            cause,
            "give a folder that exists and can be written",
        )
    })
}
