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
        let root = parent(dir).canonicalize()?.join(format!("twinlog-run-{}", std::process::id()));
        fs::create_dir(&root)?;
        let place = Self { root, keep };
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

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is named like a leftover.
            fs::remove_dir_all(&self.root).unwrap_or_default();
        }
    }
}
