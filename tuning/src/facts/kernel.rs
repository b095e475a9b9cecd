//! The kernel: its version and whether it lets processes use io_uring.

use crate::root::Root;
use serde::Serialize;

/// Facts from /proc/sys/kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: Option<String>,
    /// `kernel.io_uring_disabled`: 0 everybody may, 1 only the group of `io_uring_group`, 2 nobody. Absent before Linux 6.6.
    pub io_uring_disabled: Option<u64>,
}

impl Kernel {
    pub(super) fn read(root: &Root) -> Result<Self, String> {
        Ok(Self {
            release: root.text("/proc/sys/kernel/osrelease")?,
            io_uring_disabled: root.number("/proc/sys/kernel/io_uring_disabled")?,
        })
    }

    /// Major and minor number of the release, when it has the usual form.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.as_deref()?.split(['.', '-']);
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}
