//! pure: the faults of a log, in words: what, why, and what to do.

use std::io;
use std::path::Path;

use twinlog_proto::channel::progress::FaultCode;

use crate::fault::{Fault, PartitionCause};

/// A file or folder could not be opened, made, read, cut or renamed.
pub(super) fn files(doing: &str, path: &Path, source: io::Error) -> Fault {
    let remedy = remedy(&source);
    let mut fault = Fault::disk(format!("cannot {doing} {}", path.display()), source);
    if let Fault::Partition(cause) = &mut fault {
        cause.what.push_str(remedy);
    }
    fault
}

/// Record bytes could not be stored: the log ends at `from` as before, nothing up to `to` counts.
pub(super) fn write(path: &Path, from: i64, to: i64, source: io::Error) -> Fault {
    let fault = files(&format!("store offsets {from} to {to} in"), path, source);
    with_range(fault, from, to)
}

/// No memory for a buffer outside of the pool.
pub(super) fn buffers(path: &Path, source: io::Error) -> Fault {
    files("find a buffer for", path, source)
}

/// A sync failed: the core stops.
pub(super) fn sync(path: &Path, source: io::Error) -> Fault {
    Fault::sync(format!("cannot make {} durable; the core recovers from what the disk holds", path.display()), source)
}

/// Asked for something after a sync had failed.
pub(super) fn after_failed_sync(path: &Path) -> Fault {
    sync(path, io::Error::other("an earlier sync failed; it is not tried again"))
}

/// A file that is not what it must be and that must not be repaired by cutting.
pub(super) fn damage(path: &Path, from: i64, to: i64, why: &str) -> Fault {
    let what = format!(
        "{} is damaged (offsets {from} to {to}): {why}; restore the file, or start the topic from scratch",
        path.display()
    );
    Fault::partition_at(FaultCode::LOG_CORRUPT, from, to, what)
}

/// The directory is not this topic's, or is in a state that must not be touched.
pub(super) fn directory(path: &Path, why: &str) -> Fault {
    Fault::partition(FaultCode::DIRECTORY, format!("{}: {why}", path.display()))
}

/// The same fault, with the offsets that are not safe because of it, unless it names some.
pub(super) fn at(fault: Fault, from: i64, to: i64) -> Fault {
    if fault.range() == (-1, -1) { with_range(fault, from, to) } else { fault }
}

fn with_range(mut fault: Fault, from: i64, to: i64) -> Fault {
    if let Fault::Partition(PartitionCause { from: at, to: until, .. }) = &mut fault {
        (*at, *until) = (from, to);
    }
    fault
}

fn remedy(error: &io::Error) -> &'static str {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => {
            "; free space on this filesystem (or raise the quota), then resume the partition"
        }
        Some(Errno::ACCESS | Errno::PERM) => "; give the data plane's user read and write access to the folder",
        Some(Errno::ROFS) => "; the filesystem is read-only: look for disk errors in the kernel log, mount it writable",
        Some(Errno::MFILE | Errno::NFILE) => "; raise the limit of open files (LimitNOFILE, ulimit -n) and start again",
        _ => "; look for disk errors in the kernel log, then resume the partition",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_the_file_the_offsets_and_the_remedy() {
        let full = io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        let fault = write(Path::new("/d/t-0/00000000000000000000.log"), 7, 19, full);
        assert_eq!((fault.code(), fault.range()), (FaultCode::DISK_FULL, (7, 19)));
        let text = fault.to_string();
        assert!(text.contains("offsets 7 to 19") && text.contains("free space"), "{text}");
    }
}
