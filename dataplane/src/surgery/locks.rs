//! The locks of a broker's log directories, without which nothing is renamed into them or out of them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use twinlog_proto::storage::names::LOCK;

use super::SurgeryError;
use crate::instance_lock::{InstanceLocks, LockError};

/// Makes sure that no broker may start on these directories: by the descriptors that were inherited, or by taking the locks.
pub(super) fn hold(directories: &BTreeSet<&Path>, fds: &[i32]) -> Result<Vec<InstanceLocks>, SurgeryError> {
    if fds.is_empty() {
        return Ok(directories
            .iter()
            .map(|directory| InstanceLocks::take_data(directory))
            .collect::<Result<_, _>>()?);
    }
    let mut inherited = BTreeSet::new();
    for fd in fds {
        // The descriptor stays open: its lock ends with the last of its kind.
        let link = format!("/proc/self/fd/{fd}");
        let meta =
            std::fs::metadata(&link).map_err(|source| SurgeryError::file("find the lock", link.as_ref(), source))?;
        inherited.insert((meta.dev(), meta.ino()));
    }
    for directory in directories {
        let path = directory.join(LOCK);
        let meta = std::fs::metadata(&path).map_err(|source| SurgeryError::file("find the lock", &path, source))?;
        // The file may be another one by now: a broker removes it when it stops.
        let is_inherited = inherited.contains(&(meta.dev(), meta.ino()));
        // Whose lock it is cannot be asked; that there is one, by being refused.
        let is_locked = matches!(InstanceLocks::take_data(directory), Err(LockError::DataTaken { .. }));
        if !is_inherited || !is_locked {
            return Err(SurgeryError::LockNotHeld { path });
        }
    }
    Ok(Vec::new())
}
