//! The programs of this project as others start them: where they are, and the hidden command that ends with its parent.

use crate::failure::Failure;
use std::path::PathBuf;

/// The command of `twinlog` that runs a program which the system ends when the process ends that started it.
pub const RUN_TIED: &str = "run-tied";

/// The program `name` beside this one.
///
/// # Errors
/// When it is not there.
pub fn sibling(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|cause| Failure::new("the program does not know its own path", cause, "is /proc mounted?"))?;
    let path = own.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::new(
        format_args!("{name} is not beside {}", own.display()),
        "all twinlog programs live in one folder",
        "build or install all of them: cargo build --release --workspace",
    ))
}
