//! Throwing a partition's folder away, whatever it holds: no file of it is trusted, and none is left.
//!
//! Called by the job that carries out such an order, when no log is open on the folder. The folder is renamed first, to the name
//! that a broker gives to one that is going away: from then on no log is found in half of it, and a stock broker that starts on
//! the data directory completes the removal. It must never follow a link.

use std::io::ErrorKind;
use std::path::Path;

use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::names::{self, DirUse, FileKind, FileName};
use twinlog_proto::storage::partition_metadata;

use super::faults;
use crate::disk::files::{self, Listed};
use crate::fault::Fault;

/// What was thrown away, as far as its file names and `partition.metadata` tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discarded {
    /// The topic id of the folder; none when it does not tell.
    pub topic_id: Option<Uuid>,
    /// Base offset of the first segment; -1 when there was none.
    pub first_base: i64,
    /// Base offset of the last one; -1 when there was none.
    pub last_base: i64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Removes the folder of a partition, and what an earlier try left of it. None when there was none. Durable on return.
///
/// # Errors
/// It is a link, or could not be renamed, listed or removed.
pub async fn discard(data_dir: &Path, (topic, partition): (&str, i32)) -> Result<Option<Discarded>, Fault> {
    let dir = data_dir.join(names::partition_dir(topic, partition));
    // One name for all tries: who comes after a crash finds what was left.
    let aside = data_dir.join(names::suffixed_partition_dir(topic, partition, Uuid::ZERO, DirUse::Delete));
    remove(&aside).await?;
    match std::fs::symlink_metadata(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(faults::files("look at", &dir, error)),
        Ok(found) if found.is_symlink() => {
            return Err(faults::directory(
                &dir,
                "a symbolic link, which is not followed to throw files away; remove it",
            ));
        }
        Ok(_) => {}
    }
    let found = look(&dir)?;
    files::rename(&dir, &aside).map_err(|e| faults::files("rename", &dir, e))?;
    files::sync(data_dir).map_err(|e| faults::files("make durable", data_dir, e))?;
    remove(&aside).await?;
    files::sync(data_dir).map_err(|e| faults::files("make durable", data_dir, e))?;
    Ok(Some(found))
}

fn look(dir: &Path) -> Result<Discarded, Fault> {
    let listed = files::list(dir).map_err(|e| faults::files("list", dir, e))?;
    let base = |file: &Listed| match names::parse_file_name(&file.name) {
        Some(FileName { offset, kind: FileKind::Log, leftover: None }) => Some(offset),
        _ => None,
    };
    // What cannot be read tells nothing; it goes like the rest.
    let text = files::read(&dir.join(names::PARTITION_METADATA)).ok().flatten();
    Ok(Discarded {
        topic_id: text.and_then(|text| partition_metadata::parse(&text).ok()),
        first_base: listed.iter().find_map(base).unwrap_or(-1),
        last_base: listed.iter().rev().find_map(base).unwrap_or(-1),
        bytes: listed.iter().map(|file| file.bytes).sum(),
    })
}

/// Removes a folder that may be missing; other work has its turn after each file, for large ones take their time.
async fn remove(dir: &Path) -> Result<(), Fault> {
    let missing = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    let listed = match files::list(dir) {
        Err(error) if missing(&error) => return Ok(()),
        listed => listed.map_err(|e| faults::files("list", dir, e))?,
    };
    for Listed { name, .. } in listed {
        let path = dir.join(name);
        files::remove(&path).map_err(|e| faults::files("remove", &path, e))?;
        tokio::task::yield_now().await;
    }
    match std::fs::remove_dir_all(dir) {
        Err(error) if !missing(&error) => Err(faults::files("remove", dir, error)),
        _ => Ok(()),
    }
}
