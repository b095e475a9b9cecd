//! pure: the kernel is new enough.

use super::{About, Finding};
use crate::facts::Facts;

/// Major and minor number of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The oldest kernel with STATX_DIOALIGN, by which the alignment of direct writes is asked.
const OLDEST: Version = Version(6, 1);

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "kernel_version",
        wanted: format!("{OLDEST} or newer"),
        why: "older kernels lack operations that the data plane submits",
        risk: "an upgrade of the kernel",
        needs_reboot: true,
    }
    .judge(facts.kernel.version().map(|(major, minor)| Version(major, minor)), |version| *version >= OLDEST)
}
