//! The folder of hand-overs in STATE.

use crate::failure::Failure;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder in STATE.
pub const FOLDER: &str = "handover";
/// Only for the owner: names of users stand in it.
const PRIVATE: u32 = 0o700;

/// The folder of hand-overs, made when it is not there.
///
/// # Errors
/// As the file system says.
pub fn make_folder(state: &Path) -> Result<PathBuf, Failure> {
    make(folder(state))
}

/// A folder in the folder of hand-overs, both made when they are not there.
///
/// # Errors
/// As the file system says.
pub fn make_subfolder(state: &Path, name: &str) -> Result<PathBuf, Failure> {
    make(make_folder(state)?.join(name))
}

fn make(folder: PathBuf) -> Result<PathBuf, Failure> {
    match DirBuilder::new().mode(PRIVATE).create(&folder) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        Err(cause) => {
            return Err(Failure::new(
                format_args!("the folder {} cannot be made", folder.display()),
                cause,
                "give the --state of `twinlog up`, and run this as its user or as root",
            ));
        }
    }
    Ok(folder)
}

/// The folder of hand-overs.
#[must_use]
pub fn folder(state: &Path) -> PathBuf {
    state.join(FOLDER)
}
