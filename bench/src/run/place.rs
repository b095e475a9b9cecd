//! The folder of one run: data, state, configuration, log. It goes when the run is over.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of a run.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes the folder below `dir`, or below the first of TMPDIR, `/var/tmp` and the working directory that takes it.
    ///
    /// # Errors
    /// When none takes it.
    pub fn create(dir: Option<&Path>, keep: bool) -> io::Result<Self> {
        let name = format!("twinlog-run-{}", std::process::id());
        let candidates = match dir {
            Some(dir) => vec![dir.to_owned()],
            None => {
                env::var_os("TMPDIR").map(PathBuf::from).into_iter().chain(["/var/tmp".into(), ".".into()]).collect()
            }
        };
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for candidate in candidates {
            // Planes are started with it, so it must not depend on where they run.
            let root = candidate.canonicalize().map(|dir| dir.join(&name));
            match root.and_then(|root| fs::create_dir(&root).map(|()| root)) {
                Ok(root) => {
                    let place = Self { root, keep };
                    fs::create_dir(place.data())?;
                    fs::create_dir(place.state())?;
                    return Ok(place);
                }
                Err(cause) => {
                    failure = io::Error::new(
                        cause.kind(),
                        format!("no folder can be made in {}: {cause}", candidate.display()),
                    );
                }
            }
        }
        Err(failure)
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
