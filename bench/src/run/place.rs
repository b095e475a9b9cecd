//! The folder of one run: data, state, configuration, log. It goes when the run is over.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The folder of a run.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    keep: bool,
}

/// The folder to make the run's folder in: `dir`, or the first of TMPDIR, `/var/tmp` and the working directory that may be written.
#[must_use]
pub fn parent(dir: Option<&Path>) -> PathBuf {
    if let Some(dir) = dir {
        return dir.to_owned();
    }
    let candidates = env::var_os("TMPDIR").map(PathBuf::from).into_iter().chain(["/var/tmp".into()]);
    let is_writable = |dir: &PathBuf| dir.is_dir() && access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    candidates.into_iter().find(is_writable).unwrap_or_else(|| ".".into())
}

impl Place {
    /// Makes the folder below [`parent`]`(dir)`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(dir: Option<&Path>, keep: bool) -> io::Result<Self> {
        // Planes are started with it, so it must not depend on where they run.
        let parent = parent(dir).canonicalize()?;
        let place = Self { root: make_new(&parent)?, keep };
        fs::create_dir(place.data())?;
        fs::create_dir(place.state())?;
        Ok(place)
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where partitions go.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Where everything else goes.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// What the planes print.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("planes.log")
    }

    /// Writes the configuration of both planes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn configure(&self, flush_interval_ms: u64) -> io::Result<PathBuf> {
        let file = self.root.join("twinlog.toml");
        fs::write(&file, format!("[dataplane]\nflush_interval_ms = {flush_interval_ms}\n"))?;
        Ok(file)
    }
}

/// Makes the first folder of this process that is not there yet: a process may run more than once and keep them all.
fn make_new(parent: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let root = parent.join(format!("twinlog-run-{}-{number}", std::process::id()));
        match fs::create_dir(&root) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| root),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is named like a leftover.
            fs::remove_dir_all(&self.root).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_kept_leaves_room_for_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let create = |keep| Place::create(Some(dir.path()), keep).unwrap();
        let (kept, other) = (create(true), create(false));
        assert_ne!(kept.root(), other.root());
        let (kept, gone) = (kept.root().to_owned(), other.root().to_owned());
        drop(other);
        assert!(kept.is_dir() && !gone.exists());
    }
}
