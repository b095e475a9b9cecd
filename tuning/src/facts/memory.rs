//! Huge pages, the locked-memory limit of this process, mappings for a broker.

use crate::root::Root;
use serde::Serialize;

/// Facts from /proc/meminfo, /proc/self/limits and /proc/sys/vm.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// Free pages of the default huge page size.
    pub huge_pages_free: Option<u64>,
    /// The default huge page size.
    pub huge_page_kib: Option<u64>,
    /// Soft limit of locked memory of this process; `u64::MAX` is "unlimited".
    pub memlock_bytes: Option<u64>,
    /// Soft limit of open files of this process; `u64::MAX` is "unlimited".
    pub open_files: Option<u64>,
    /// `vm.max_map_count`: a broker maps two index files per segment.
    pub max_map_count: Option<u64>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
}

impl Memory {
    pub(super) fn read(root: &Root) -> Result<Self, String> {
        let meminfo = root.text("/proc/meminfo")?.unwrap_or_default();
        let limits = root.text("/proc/self/limits")?.unwrap_or_default();
        Ok(Self {
            huge_pages_free: meminfo_value(&meminfo, "HugePages_Free:"),
            huge_page_kib: meminfo_value(&meminfo, "Hugepagesize:"),
            memlock_bytes: soft_limit(&limits, "Max locked memory"),
            open_files: soft_limit(&limits, "Max open files"),
            max_map_count: root.number("/proc/sys/vm/max_map_count")?,
            swappiness: root.number("/proc/sys/vm/swappiness")?,
        })
    }
}

fn meminfo_value(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_meminfo_are_read_by_their_names() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608              8388608              bytes\nMax open files            unlimited            1048576              files\n";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(8_388_608));
        assert_eq!(soft_limit(limits, "Max open files"), Some(u64::MAX));
        assert_eq!(
            meminfo_value("HugePages_Free:       64\nHugepagesize:       2048 kB\n", "Hugepagesize:"),
            Some(2048)
        );
        assert_eq!(meminfo_value("", "Hugepagesize:"), None);
    }
}
