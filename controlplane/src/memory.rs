//! What memory this process may use, and what it uses.

use std::fs;
use std::path::PathBuf;

/// The most there is, and how to look at what is in use.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Bytes that this process can have at most.
    pub bytes_max: u64,
    /// Bytes that it has now.
    pub used_bytes: fn() -> u64,
}

impl Memory {
    /// As the system says; what cannot be read limits nothing.
    #[must_use]
    pub fn of_this_process() -> Self {
        let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_total_bytes(&text));
        let bytes_max = host.into_iter().chain(group_bytes_max()).min().unwrap_or(u64::MAX);
        Self { bytes_max, used_bytes: resident_bytes }
    }
}

fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the control group (version 2) and of those above it.
fn group_bytes_max() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let own = PathBuf::from("/sys/fs/cgroup").join(group);
    let limit = |folder: &std::path::Path| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok();
    own.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup")).filter_map(limit).min()
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_less_than_there_is() {
        let memory = Memory::of_this_process();
        let used = (memory.used_bytes)();
        assert!(used > 1 << 20 && used < memory.bytes_max, "{used} of {}", memory.bytes_max);
        assert_eq!(mem_total_bytes("MemTotal:  2 kB\nMemFree: 1 kB"), Some(2048));
    }
}
