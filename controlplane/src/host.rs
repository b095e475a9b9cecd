//! What the system says of our processes and disks, for the pages that operators look at. What cannot be read is left out.

use rustix::fs::statvfs;
use std::fs;
use std::path::{Path, PathBuf};

/// A process, as the system sees it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Memory that is in RAM.
    pub resident_bytes: Option<u64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// The most descriptors that it may open.
    pub max_fds: Option<u64>,
    /// Time on processors.
    pub cpu_seconds: Option<f64>,
    /// When it started, seconds since 1970.
    pub started_at: Option<f64>,
    /// How often `twinlog up` had to start it again.
    pub restarts: Option<u64>,
}

/// A directory's file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The directory.
    pub path: PathBuf,
    /// Size of its file system.
    pub size_bytes: u64,
    /// What is free for us.
    pub free_bytes: u64,
}

/// The variable by which `twinlog up` tells a plane how often it was started again.
pub const RESTARTS_VARIABLE: &str = "TWINLOG_RESTARTS";

/// Clock ticks of `/proc/PID/stat`: always 100 for user space on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    /// Looks at a process.
    #[must_use]
    pub fn look(pid: u32) -> Self {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let stat = read("stat").unwrap_or_default();
        let times = Times::parse(&stat);
        let booted_at = fs::read_to_string("/proc/stat").ok().and_then(|text| booted_at(&text));
        Self {
            pid,
            resident_bytes: read("statm").and_then(|text| resident_bytes(&text)),
            open_fds: fs::read_dir(folder.join("fd")).ok().map(|entries| entries.count() as u64),
            max_fds: read("limits").and_then(|text| max_fds(&text)),
            cpu_seconds: times.map(|times| times.cpu_seconds),
            started_at: times.zip(booted_at).map(|(times, booted_at)| booted_at + times.started_after_boot),
            restarts: fs::read(folder.join("environ")).ok().and_then(|bytes| restarts(&bytes)),
        }
    }
}

impl Disk {
    /// Looks at the file system of a directory.
    #[must_use]
    pub fn look(path: &Path) -> Option<Self> {
        let stat = statvfs(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            size_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    /// The share that is free.
    #[must_use]
    pub fn free_share(&self) -> f64 {
        if self.size_bytes == 0 { 1.0 } else { self.free_bytes as f64 / self.size_bytes as f64 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    cpu_seconds: f64,
    started_after_boot: f64,
}

impl Times {
    /// Fields 14, 15 and 22 of `stat`; the second field may hold anything but its own end.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok().map(|ticks| ticks as f64 / TICKS_PER_SECOND);
        Some(Self { cpu_seconds: ticks(11)? + ticks(12)?, started_after_boot: ticks(19)? })
    }
}

fn resident_bytes(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn booted_at(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn restarts(environment: &[u8]) -> Option<u64> {
    let wanted = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| std::str::from_utf8(entry).ok()?.strip_prefix(RESTARTS_VARIABLE)?.strip_prefix('='))?;
    wanted.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_this_process_and_its_disk() {
        let own = Process::look(std::process::id());
        assert!(own.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{own:?}");
        assert!(own.open_fds.is_some_and(|count| count > 2) && own.max_fds >= own.open_fds, "{own:?}");
        assert!(own.cpu_seconds.is_some() && own.started_at.is_some_and(|at| at > 1.6e9), "{own:?}");
        let disk = Disk::look(Path::new("/")).unwrap();
        assert!(disk.free_bytes <= disk.size_bytes && disk.free_share() <= 1.0, "{disk:?}");
        assert_eq!(Disk::look(Path::new("/no/such/folder")), None);
        let nobody = Process::look(u32::MAX);
        assert_eq!(nobody, Process { pid: u32::MAX, ..Process::default() });
    }

    #[test]
    fn a_program_name_that_looks_like_fields_is_no_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 12345 0 0";
        assert_eq!(Times::parse(stat), Some(Times { cpu_seconds: 3.0, started_after_boot: 123.45 }));
        assert_eq!(Times::parse("7 (a"), None);
        assert_eq!(restarts(b"A=1\0TWINLOG_RESTARTS=3\0B=2"), Some(3));
        assert_eq!(restarts(b"A=1\0TWINLOG_RESTARTS_OLD=3"), None);
    }
}
