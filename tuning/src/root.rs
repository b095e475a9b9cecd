//! Every path of the host goes through [`Root`], so that tests run on copies of /proc and /sys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder that stands for `/`.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Root {
    /// The host this process runs on.
    #[must_use]
    pub fn host() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A recorded tree.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The trimmed text of `path`, or `None` where this host has no such file.
    ///
    /// # Errors
    /// When the file is there and cannot be read; the message names the path.
    pub fn text(&self, path: &str) -> Result<Option<String>, String> {
        let full = self.0.join(path.trim_start_matches('/'));
        match fs::read_to_string(&full) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(format!("cannot read {}: {cause}", full.display())),
        }
    }

    /// The file as one integer, or `None` where this host has no such file.
    ///
    /// # Errors
    /// When the file cannot be read or holds something else.
    pub fn number(&self, path: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        text.parse().map(Some).map_err(|cause| format!("{path} holds {text:?}, which is no number: {cause}"))
    }

    /// Names in a folder, sorted; empty where there is no such folder.
    ///
    /// # Errors
    /// When the folder is there and cannot be listed.
    pub fn names(&self, path: &str) -> Result<Vec<String>, String> {
        let full = self.0.join(path.trim_start_matches('/'));
        let entries = match fs::read_dir(&full) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(format!("cannot list {}: {cause}", full.display())),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| format!("cannot list {}: {cause}", full.display()))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }
}
