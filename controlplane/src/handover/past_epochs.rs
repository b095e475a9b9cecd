//! The highest leader epochs that partitions had at brokers from which they were taken back, in `STATE/handover/epochs/MIRROR.json`.
//!
//! Clients remember the highest epoch that they saw, and wait for ever for a leader whose epoch is below it: the next hand-over begins
//! above all of these.

use crate::failure::Failure;
use crate::files;
use crate::handover::journal;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder.
const FOLDER: &str = "epochs";
/// Largest file that is believed, bytes: some ten for each partition.
const BYTES_MAX: u64 = 64 << 20;

/// By topic id and partition.
pub type PastEpochs = BTreeMap<String, BTreeMap<i32, i32>>;

/// What is known of `mirror`.
///
/// # Errors
/// When the file cannot be read.
pub fn load(state: &Path, mirror: &str) -> Result<PastEpochs, Failure> {
    let path = path(state, mirror);
    let unusable = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("{} cannot be used", path.display()),
            cause,
            "restore it: a broker whose leader epochs are too low keeps clients waiting",
        )
    };
    match fs::metadata(&path) {
        Ok(meta) if meta.len() > BYTES_MAX => return Err(unusable(&"it is far too large")),
        Ok(_) => {}
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(PastEpochs::new()),
        Err(cause) => return Err(unusable(&cause)),
    }
    let bytes = fs::read(&path).map_err(|cause| unusable(&cause))?;
    serde_json::from_slice(&bytes).map_err(|cause| unusable(&cause))
}

/// Adds what is higher than what is known.
///
/// # Errors
/// When the file cannot be read or written.
pub fn raise(state: &Path, mirror: &str, seen: &PastEpochs) -> Result<(), Failure> {
    let mut all = load(state, mirror)?;
    for (topic, partitions) in seen {
        let known = all.entry(topic.clone()).or_default();
        for (partition, epoch) in partitions {
            let highest = known.entry(*partition).or_insert(*epoch);
            *highest = (*highest).max(*epoch);
        }
    }
    let path = path(state, mirror);
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(format_args!("{} cannot be written", path.display()), cause, "make room in the state directory")
    };
    journal::make_subfolder(state, FOLDER)?;
    let bytes = serde_json::to_vec(&all).map_err(|cause| failed(&cause))?;
    files::replace(&path, &bytes).map_err(|cause| failed(&cause))
}

fn path(state: &Path, mirror: &str) -> PathBuf {
    state.join(journal::FOLDER).join(FOLDER).join(format!("{mirror}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_only_rise() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(load(state.path(), "dr").unwrap(), PastEpochs::new());
        let seen = |epoch| PastEpochs::from([("id".to_owned(), BTreeMap::from([(0, epoch)]))]);
        for epoch in [12, 30, 7] {
            raise(state.path(), "dr", &seen(epoch)).unwrap();
        }
        assert_eq!(load(state.path(), "dr").unwrap(), seen(30));
        fs::write(path(state.path(), "dr"), b"{").unwrap();
        assert!(load(state.path(), "dr").unwrap_err().to_string().contains("restore"));
    }
}
