//! Starting the broker: a process of its own, in a session of its own, that outlives this command.
//!
//! Its output goes to a file that is locked before there is a process, and stays so as long as one has it open: whoever comes when this
//! command was killed sees by that, and not by a number that was written down too late, that a broker is starting.

use crate::client::Client;
use crate::failure::Failure;
use crate::handover::journal::Server;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is looked whether it serves.
const POLL: Duration = Duration::from_millis(50);
/// Time from the start of the process to the first answer; loading many partitions takes a while.
const SERVE_TIME_MAX: Duration = Duration::from_secs(600);
/// The script of every release.
const SCRIPT: &str = "kafka-server-start.sh";
/// The end of its output that a failure shows, bytes.
const TAIL_BYTES: u64 = 8 << 10;
/// Lines of it.
const TAIL_LINES: usize = 3;

/// The point at which a test kills the command: the broker's process is there, and nothing says so.
pub const SPAWNED: &str = "spawned";

/// The command line by which the broker is started; `properties` is its last argument.
///
/// # Errors
/// When no command is given and Kafka's own script is not found.
pub fn command_line(given: Option<&str>, properties: &Path) -> Result<String, Failure> {
    let command = match given {
        Some(command) => command.to_owned(),
        None => quoted(&script()?),
    };
    Ok(format!("exec {command} {}", quoted(properties)))
}

/// `KAFKA_HOME/bin/kafka-server-start.sh`, or the one on PATH.
fn script() -> Result<PathBuf, Failure> {
    let home = std::env::var_os("KAFKA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        home.into_iter().chain(std::env::split_paths(&path)).map(|dir| dir.join(SCRIPT)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Failure::usage(
            format_args!("{SCRIPT} is neither in KAFKA_HOME/bin nor on PATH"),
            "set KAFKA_HOME, or say how the broker is started with --start-command; without --start the command is printed",
        )
    })
}

/// A word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Whether a process that was started with its output in `log` is still there. One that put its output elsewhere is not seen.
#[must_use]
pub fn is_alive(log: &Path) -> bool {
    File::open(log).is_ok_and(|file| flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK))
}

/// The process that [`is_alive`] sees; none when it is not this user's.
#[must_use]
pub fn process(log: &Path) -> Option<u32> {
    let log = fs::canonicalize(log).ok()?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
    let mut writing = numbered.filter(|(_, folder)| fs::read_link(folder.join("fd/1")).is_ok_and(|to| to == log));
    writing.next().map(|(pid, _)| pid)
}

/// Starts the broker; its output goes behind what is in `log`.
///
/// # Errors
/// When it cannot be started, or one that was started before is still there.
pub fn spawn(command: &str, log: &Path) -> Result<(Server, Child), Failure> {
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new("the broker is not started", cause, format_args!("start it by hand: {command}"))
    };
    let out = File::options().create(true).append(true).open(log).map_err(|cause| failed(&cause))?;
    // The lock belongs to the open file, which the process gets as its output, and not to this command.
    flock(&out, FlockOperation::NonBlockingLockExclusive).map_err(|cause| match cause {
        Errno::WOULDBLOCK => failed(&"the one that was started before is still there"),
        cause => failed(&format_args!("{} cannot be locked: {cause}", log.display())),
    })?;
    let err = out.try_clone().map_err(|cause| failed(&cause))?;
    // A session of its own: neither Ctrl-C here nor the end of a terminal reaches it.
    let spawned =
        Command::new("setsid").args(["/bin/sh", "-c", command]).stdin(Stdio::null()).stdout(out).stderr(err).spawn();
    let child = spawned.map_err(|cause| failed(&format_args!("setsid: {cause}")))?;
    let server = Server { pid: child.id(), command: command.to_owned(), log: log.to_owned(), ready_ms: None };
    Ok((server, child))
}

/// Waits until the broker at `address` answers; gives how long that took.
///
/// # Errors
/// When it ends, or does not answer in time.
pub fn await_serving(address: &str, mut child: Option<Child>, log: &Path) -> Result<Duration, Failure> {
    await_within(SERVE_TIME_MAX, address, child.as_mut(), log)
}

/// [`await_serving`], for at most `limit`.
///
/// # Errors
/// When it ends, or does not answer in time.
pub fn await_within(
    limit: Duration,
    address: &str,
    mut child: Option<&mut Child>,
    log: &Path,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let was_alive = is_alive(log);
    loop {
        let why = match Client::connect(address) {
            Ok(_) => return Ok(begun.elapsed()),
            Err(cause) => cause,
        };
        let ended = match child.as_mut() {
            Some(child) => child.try_wait().ok().flatten().map(|status| status.to_string()),
            None => (was_alive && !is_alive(log)).then(|| "it is gone".to_owned()),
        };
        if let Some(status) = ended {
            return Err(Failure::new(
                "the broker ended while it started",
                format_args!("{status}: {}", tail(log)),
                format_args!("its output is in {}; when it is mended run the same command again", log.display()),
            ));
        }
        if begun.elapsed() >= limit {
            let which = format!("{why}; its output is in {}", log.display());
            return Err(Failure::timed_out("the broker does not answer", which));
        }
        sleep(POLL);
    }
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let size = fs::metadata(path)?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_file_is_the_last_word_whatever_its_name_holds() {
        let line = command_line(Some("/opt/kafka/bin/kafka-server-start.sh"), Path::new("/etc/it's here/s.properties"))
            .unwrap();
        assert_eq!(line, r"exec /opt/kafka/bin/kafka-server-start.sh '/etc/it'\''s here/s.properties'");
        let said =
            Command::new("/bin/sh").args(["-c", &command_line(Some("echo"), Path::new("/a 'b")).unwrap()]).output();
        assert_eq!(String::from_utf8_lossy(&said.unwrap().stdout), "/a 'b\n");
    }

    #[test]
    fn a_broker_that_is_starting_is_seen_by_whoever_did_not_start_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        assert!(!is_alive(&log), "there is no file yet");
        let (_, mut child) = spawn("exec sleep 100", &log).unwrap();
        assert!(is_alive(&log), "and this process has nothing open any more");
        assert_eq!(process(&log), Some(child.id()));
        let refused = spawn("echo a second one", &log).unwrap_err().to_string();
        assert!(refused.contains("still there") && is_alive(&log), "{refused}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&log));
        spawn("true", &log).unwrap().1.wait().unwrap();
    }

    #[test]
    fn a_broker_that_ends_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        let (server, child) = spawn("echo first; echo last words; exit 3", &log).unwrap();
        assert!(server.pid > 0);
        let refused = await_serving("127.0.0.1:1", Some(child), &log).unwrap_err().to_string();
        assert!(refused.contains("last words") && refused.contains('3'), "{refused}");
    }
}
