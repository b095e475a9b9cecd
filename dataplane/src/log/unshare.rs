//! A segment file that has a second name elsewhere is not written to: a drill's clone links closed segments, and what is cut or appended
//! here would change there, or be cut off from there. Before a closed segment becomes the last one again it gets a file of its own.
//!
//! Called while a log is loaded, after the segments behind it were removed. A clone looks for those after it has linked: so either this
//! sees the link, or the clone sees that they are gone and begins again.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use twinlog_proto::storage::names::TEMPORARY_SUFFIX;

use super::faults;
use crate::disk::files;
use crate::fault::Fault;
use crate::limits::SCAN_BYTES;

/// Gives `path` a file of its own when its file has other names; durable on return. The other tasks of the core run between any two
/// pieces. A file that is not there is shared with nobody.
pub(super) async fn unshare(path: &Path) -> Result<(), Fault> {
    if !is_shared(path)? {
        return Ok(());
    }
    let aside = files::with_suffix(path, TEMPORARY_SUFFIX);
    let copied = copy(path, &aside).await;
    copied.map_err(|e| faults::files("copy what a drill has linked,", path, e))?;
    fs::rename(&aside, path).map_err(|e| faults::files("rename", &aside, e))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    files::sync(folder).map_err(|e| faults::sync(folder, e))
}

/// Whether the file has other names.
pub(super) fn is_shared(path: &Path) -> Result<bool, Fault> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.nlink() > 1),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(faults::files("look at", path, error)),
    }
}

async fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let meta = fs::metadata(from)?;
    let mut reading = files::Reading::open(from, 0)?;
    let mut file = File::create(to)?;
    file.set_permissions(meta.permissions())?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (meta.uid(), meta.gid()) {
        fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
    }
    let mut buffer = vec![0; SCAN_BYTES];
    loop {
        let read = reading.next(&mut buffer)?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read])?;
        tokio::task::yield_now().await;
    }
    // What was durable must be so under its new file before the old one has no name here.
    file.sync_all()
}
