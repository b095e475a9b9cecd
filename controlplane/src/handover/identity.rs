//! Writes what makes a node the one that the topics were handed over to: `meta.properties` of new directories, and the records that its
//! metadata begins with. Deciding them is `identity/records.rs`.
//!
//! Each file is written aside, synced, renamed and its folder synced; a file that is there with the same content is the same afterwards,
//! so all of it may be done again. The files belong to whoever owns the directory, as the broker must read them.

mod records;

pub use records::{BootstrapFile, Identity, IdentityPartition, IdentityTopic, build};

use crate::files;
use crate::handover::layout::{Asked, Layout};
use crate::handover::node::Node;
use crate::handover::problem::Problem;
use crate::random;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};
use twinlog_proto::storage::meta_properties::MetaProperties;
use twinlog_proto::storage::names;

/// Everybody may read what is no secret.
const PUBLIC: u32 = 0o644;
/// Records may hold what passwords are checked by.
const PRIVATE: u32 = 0o600;

/// Gives each directory without a `meta.properties` one, with a random id, and makes it when it is not there. The cluster is that of the
/// other directories, else the one that was asked for, else a new one. Gives the files that were made; [`Layout::look`] sees them.
///
/// # Errors
/// When one cannot be written; those before it are there then, and the next attempt goes on behind them.
pub fn format(node: &Node, layout: &Layout, asked: &Asked) -> Result<Vec<PathBuf>, Problem> {
    let cluster_id = layout.cluster_id.clone().or_else(|| asked.cluster_id.clone());
    let cluster_id = cluster_id.unwrap_or_else(|| random::uuid().to_string());
    let mut made = Vec::new();
    for directory in layout.directories.iter().filter(|directory| directory.id.is_none()) {
        let meta =
            MetaProperties { cluster_id: cluster_id.clone(), node_id: node.id, directory_id: Some(random::uuid()) };
        let path = directory.path.join(names::META_PROPERTIES);
        let written = make_folder(&directory.path).and_then(|()| replace(&path, meta.to_text().as_bytes(), PUBLIC));
        written.map_err(|cause| unwritable(&path, &cause))?;
        made.push(path);
    }
    Ok(made)
}

/// Puts the file in place. What `kafka-storage format` wrote there is kept at `keep` first, unless an earlier attempt has kept it.
///
/// # Errors
/// When one of both cannot be written; the file holds its old content or the new one.
pub fn write(file: &BootstrapFile, keep: &Path) -> Result<(), Problem> {
    if let Some(formatted) = &file.formatted
        && !keep.exists()
    {
        files::replace(keep, formatted).map_err(|cause| unwritable(keep, &cause))?;
    }
    replace(&file.path, &file.bytes, PRIVATE).map_err(|cause| unwritable(&file.path, &cause))
}

/// Undoes [`write()`] and [`format()`]: what was kept at `keep` is put back; with `made`, the files that [`format()`] gave, the node is as
/// nobody formatted it. To be done before the node is started.
///
/// # Errors
/// When a file cannot be written or removed; doing it again goes on.
pub fn undo(file: &Path, keep: &Path, made: &[PathBuf]) -> Result<(), Problem> {
    // A node may have been formatted in part: what its metadata begins with is ours when we made the identity of that directory.
    if made.iter().any(|path| path.parent() == file.parent()) {
        remove(file)?;
    } else {
        match std::fs::read(keep) {
            Ok(formatted) => replace(file, &formatted, PRIVATE).map_err(|cause| unwritable(file, &cause))?,
            // Nothing was written.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(unwritable(keep, &cause)),
        }
    }
    made.iter().try_for_each(|path| remove(path))?;
    remove(keep)
}

/// Makes a folder and those above it that are missing, with the owner of the one above.
///
/// # Errors
/// As the file system says.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent().filter(|_| !path.exists()) else { return Ok(()) };
    make_folder(parent)?;
    std::fs::create_dir(path)?;
    let (own, above) = (std::fs::metadata(path)?, std::fs::metadata(parent)?);
    if (own.uid(), own.gid()) != (above.uid(), above.gid()) {
        chown(path, Some(above.uid()), Some(above.gid()))?;
    }
    files::sync_folder(parent)
}

/// Removes a file, durably; one that is gone is gone.
fn remove(path: &Path) -> Result<(), Problem> {
    let removed = match std::fs::remove_file(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    removed.and_then(|()| files::sync_folder(folder)).map_err(|cause| unwritable(path, &cause))
}

/// Replaces a file that everybody may read, as [`files::replace`] does, with the owner of the folder.
///
/// # Errors
/// As the file system says.
pub fn replace_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, PUBLIC)
}

/// Replaces a file that holds what passwords are checked by, as [`files::replace`] does, with the owner of the folder.
///
/// # Errors
/// As the file system says.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, PRIVATE)
}

/// As [`files::replace`], with the owner of the folder.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    let mut file = files::create_aside(path)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (folder.uid(), folder.gid()) {
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    files::put_in_place(path, None)
}

fn unwritable(path: &Path, cause: &io::Error) -> Problem {
    let remedy = "run this as root or as the user who owns the directory, and look for free space";
    Problem::new(format_args!("{} cannot be written", path.display()), cause, remedy)
}

#[cfg(test)]
mod tests;
