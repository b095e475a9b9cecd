//! What /proc says about a process: CPU time, memory.

use std::fs;
use std::io;

/// CPU seconds that a process and its threads, dead ones included, have used so far.
///
/// # Errors
/// When there is no such process.
pub fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| io::Error::other("/proc/PID/stat has an unexpected form"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    // The command name may hold anything, so count from its closing parenthesis: state is field 3, utime 14, stime 15.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The child of `parent` that runs the program `name`.
///
/// # Errors
/// When there is none.
pub fn child_named(parent: u32, name: &str) -> io::Result<u32> {
    // The kernel keeps the first 15 bytes of a name.
    let name = name.get(..15).unwrap_or(name);
    let is_it = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(')') else { return false };
        let found = tail.split_whitespace().nth(1).and_then(|id| id.parse().ok());
        found == Some(parent) && head.split_once('(').is_some_and(|(_, found)| found == name)
    };
    let ids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.into_iter().find(is_it).ok_or_else(|| io::Error::other(format!("no {name} is a child of process {parent}")))
}

/// Bytes of memory of a process: resident set, and huge pages, which the resident set does not count.
///
/// # Errors
/// When there is no such process.
pub fn memory_bytes(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(status_kib(&status, "VmRSS:") * 1024 + status_kib(&status, "HugetlbPages:") * 1024)
}

fn status_kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_parentheses_and_spaces() {
        let stat = "12 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 700 42 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(742));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn this_process_has_memory_and_unknown_lines_count_nothing() {
        assert!(memory_bytes(std::process::id()).unwrap() > 100_000);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert_eq!(status_kib("VmRSS:\t  12 kB\nHugetlbPages:\t 2048 kB\n", "HugetlbPages:"), 2048);
        assert_eq!(status_kib("", "VmRSS:"), 0);
    }
}
