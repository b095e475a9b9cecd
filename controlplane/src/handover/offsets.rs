//! The offsets of groups that the node's coordinators must answer, in `STATE/handover/MIRROR.offsets`: written once, when the files
//! were read, beside a journal that is written at every step.

use crate::failure::Failure;
use crate::files;
use crate::handover::journal;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::handover::resolve::{CommittedOffset, Resolution};

/// Largest file that is believed, bytes: some hundred for each of the offsets that are told.
const BYTES_MAX: u64 = 256 << 20;

/// An offset: group, topic, partition, offset, leader epoch (-1 unknown).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected(pub String, pub String, pub i32, pub i64, pub i32);

/// What was written down.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// There were more, of which nothing is known.
    pub is_more: bool,
    /// The offsets.
    pub offsets: Vec<Expected>,
}

/// Writes them down.
///
/// # Errors
/// As the file system says.
pub fn save(state: &Path, mirror: &str, resolution: &Resolution) -> Result<(), Failure> {
    let path = path(state, mirror);
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(format_args!("{} cannot be written", path.display()), cause, "make room in the state directory")
    };
    let expected =
        |of: &CommittedOffset| Expected(of.group.clone(), of.topic.clone(), of.partition, of.offset, of.leader_epoch);
    let offsets = resolution.committed.iter().map(expected).collect();
    let written = Written { is_more: resolution.is_more_committed, offsets };
    let bytes = serde_json::to_vec(&written).map_err(|cause| failed(&cause))?;
    files::replace(&path, &bytes).map_err(|cause| failed(&cause))
}

/// What was written down.
///
/// # Errors
/// Why it cannot be read.
pub fn load(state: &Path, mirror: &str) -> Result<Written, String> {
    let path = path(state, mirror);
    let unusable = |cause: &dyn std::fmt::Display| format!("{}: {cause}", path.display());
    if fs::metadata(&path).map_err(|cause| unusable(&cause))?.len() > BYTES_MAX {
        return Err(unusable(&"it is far too large"));
    }
    let bytes = fs::read(&path).map_err(|cause| unusable(&cause))?;
    serde_json::from_slice(&bytes).map_err(|cause| unusable(&cause))
}

fn path(state: &Path, mirror: &str) -> PathBuf {
    journal::folder(state).join(format!("{mirror}.offsets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_back_and_that_there_were_more() {
        let state = tempfile::tempdir().unwrap();
        journal::make_folder(state.path()).unwrap();
        assert!(load(state.path(), "dr").unwrap_err().contains("dr.offsets"));
        let (group, topic, metadata) = ("g".into(), "t".into(), String::new());
        let one = CommittedOffset { group, topic, partition: 1, offset: 7, leader_epoch: -1, metadata };
        for is_more_committed in [false, true] {
            let resolution = Resolution { committed: vec![one.clone()], is_more_committed, ..Resolution::default() };
            save(state.path(), "dr", &resolution).unwrap();
            let offsets = vec![Expected("g".into(), "t".into(), 1, 7, -1)];
            assert_eq!(load(state.path(), "dr"), Ok(Written { is_more: is_more_committed, offsets }));
        }
    }
}
