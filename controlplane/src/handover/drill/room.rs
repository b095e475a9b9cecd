//! The folder of a drill: everything that it makes, with a marker by which the next one knows whose it was.
//!
//! The marker is locked as long as the drill runs. Removed is only a folder that has our name and an unlocked marker of ours, whose
//! broker is gone; what is not understood is named and left.

use super::broker::{self, Process};
use super::place::Site;
use crate::failure::Failure;
use crate::handover::journal::Server;
use crate::handover::{locks, start};
use crate::random;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What the names of such folders begin with.
const PREFIX: &str = "twinlog-drill-";
const MARKER: &str = "drill.json";
const VERSION: u32 = 1;
/// Only for the owner: what lies in it is the mirror's data.
const PRIVATE: u32 = 0o700;
/// The files of a killed process are closed a little after it is gone.
const FREE_TIME_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What stands in the marker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    version: u32,
    mirror: String,
    /// It is left on purpose.
    kept: bool,
    broker: Option<Process>,
}

/// The folder of a drill that runs.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    marker: Marker,
    /// Holds the lock.
    file: File,
    broker: Option<Child>,
    is_ended: bool,
}

impl Room {
    /// Makes it.
    pub(super) fn make(site: &Site, mirror: &str) -> Result<Self, Failure> {
        let name: String = random::uuid().0.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let path = site.base.join(format!("{PREFIX}{name}"));
        let failed = |cause: io::Error| {
            let remedy = "give a folder that this user may write with --dir, on the mirror's file system";
            Failure::new(format_args!("the folder {} cannot be made", path.display()), cause, remedy)
        };
        DirBuilder::new().mode(PRIVATE).create(&path).map_err(failed)?;
        let file = File::create_new(path.join(MARKER)).map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|cause| failed(cause.into()))?;
        let marker = Marker { version: VERSION, mirror: mirror.to_owned(), kept: false, broker: None };
        let room = Self { path: path.clone(), marker, file, broker: None, is_ended: false };
        room.write().map_err(failed)?;
        for own in [room.copies(), room.state(), room.logs(), room.kafka_logs()] {
            fs::create_dir(&own).and_then(|()| give(&own, site.owner)).map_err(failed)?;
        }
        give(&path, site.owner).map_err(failed)?;
        Ok(room)
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where partitions are copied to.
    pub(super) fn copies(&self) -> PathBuf {
        self.path.join("copies")
    }

    /// What a hand-over remembers.
    pub(super) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// The node's log directory.
    pub(super) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// What Kafka's start script writes.
    fn kafka_logs(&self) -> PathBuf {
        self.path.join("kafka-logs")
    }

    fn write(&self) -> io::Result<()> {
        // In place: the lock belongs to this very file. One that is written by half is not understood, and left.
        let mut bytes = serde_json::to_vec_pretty(&self.marker)?;
        bytes.push(b'\n');
        fs::write(self.path.join(MARKER), bytes)?;
        self.file.sync_all()
    }

    /// Starts the broker.
    pub(super) fn start(&mut self, command: &str, log: &Path) -> Result<Server, Failure> {
        let child = broker::start(command, log, &self.kafka_logs())?;
        let pid = child.id();
        self.marker.broker = Process::of(pid);
        self.broker = Some(child);
        self.write().map_err(|cause| {
            let what = format!("{} cannot be written", self.path.join(MARKER).display());
            Failure::new(what, cause, "make room, or choose another --dir")
        })?;
        Ok(Server { pid, command: command.to_owned(), log: log.to_owned(), ready_ms: None })
    }

    /// Waits until the broker answers.
    pub(super) fn await_serving(&mut self, limit: Duration, address: &str, log: &Path) -> Result<Duration, Failure> {
        start::await_within(limit, address, self.broker.as_mut(), log)
    }

    /// Ends the broker, and removes the folder unless it is kept.
    pub(super) fn end(&mut self, keep: bool) -> Result<(), Failure> {
        self.is_ended = true;
        if let Some(mut child) = self.broker.take() {
            broker::end(&mut child);
        }
        if keep {
            (self.marker.kept, self.marker.broker) = (true, None);
            return self.write().map_err(|cause| not_removed(&self.path, &cause));
        }
        remove(&self.path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.is_ended {
            // A panic is on its way out, which says enough; whatever is left is found by the next drill.
            self.end(false).ok();
        }
    }
}

fn give(path: &Path, owner: (u32, u32)) -> io::Result<()> {
    // Nobody but root may give files away, and nobody else needs to.
    if rustix::process::geteuid().is_root() { chown(path, Some(owner.0), Some(owner.1)) } else { Ok(()) }
}

/// Waits until no broker has it, and removes it. Links are not followed.
fn remove(path: &Path) -> Result<(), Failure> {
    let logs = path.join("logs");
    let begun = Instant::now();
    while locks::is_taken(&logs) {
        if begun.elapsed() >= FREE_TIME_MAX {
            let why = format!("a process that is not known to be its broker holds the lock in {}", logs.display());
            let remedy = "find it (`fuser` or `lsof` on that file), stop it, then run `twinlog drill MIRROR --clean`";
            return Err(Failure::new(format_args!("{} is not removed", path.display()), why, remedy));
        }
        sleep(POLL);
    }
    fs::remove_dir_all(path).map_err(|cause| not_removed(path, &cause))
}

fn not_removed(path: &Path, cause: &io::Error) -> Failure {
    let remedy = "mend it, then run `twinlog drill MIRROR --clean`, or remove the folder by hand";
    Failure::new(format_args!("{} cannot be cleaned up", path.display()), cause, remedy)
}

/// What became of a folder that an earlier drill left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleaned {
    /// The folder.
    pub folder: PathBuf,
    /// It is gone.
    pub removed: bool,
    /// Its broker was still there and was ended.
    pub broker_ended: bool,
    /// Why it is still there.
    pub why: Option<String>,
}

impl fmt::Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broker = if self.broker_ended { "the broker of an earlier drill was ended; " } else { "" };
        let folder = self.folder.display();
        match &self.why {
            None => write!(f, "{broker}{folder} of an earlier drill is removed"),
            Some(why) => write!(f, "{broker}{folder} is left: {why}"),
        }
    }
}

/// Ends what earlier drills left in `base`, and removes it; with `kept` also what was left on purpose.
///
/// # Errors
/// When the folder cannot be read, or what was left cannot be removed.
pub(super) fn clean(base: &Path, kept: bool) -> Result<Vec<Cleaned>, Failure> {
    let mut all = Vec::new();
    for entry in fs::read_dir(base).map_err(|cause| not_removed(base, &cause))? {
        let entry = entry.map_err(|cause| not_removed(base, &cause))?;
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(clean_one(&entry.path(), kept)?);
        }
    }
    Ok(all)
}

/// None when it is a drill's that runs, or was left on purpose and is not asked for.
fn clean_one(folder: &Path, kept: bool) -> Result<Option<Cleaned>, Failure> {
    let mut cleaned = Cleaned { folder: folder.to_owned(), removed: false, broker_ended: false, why: None };
    let left = |mut cleaned: Cleaned, why: &dyn fmt::Display| {
        cleaned.why = Some(why.to_string());
        Ok(Some(cleaned))
    };
    let path = folder.join(MARKER);
    let file = match File::open(&path) {
        // It was killed before it could say whose it is.
        Err(_missing) if fs::remove_dir(folder).is_ok() => return Ok(Some(Cleaned { removed: true, ..cleaned })),
        Err(cause) => return left(cleaned, &format_args!("its {MARKER} cannot be read ({cause}); remove it by hand")),
        Ok(file) => file,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let bytes = fs::read(&path).map_err(|cause| not_removed(folder, &cause))?;
    let marker: Marker = match serde_json::from_slice(&bytes) {
        Ok(marker) => marker,
        // Killed while it was written, when nothing was started yet.
        Err(_empty) if bytes.is_empty() => {
            Marker { version: VERSION, mirror: String::new(), kept: false, broker: None }
        }
        Err(cause) => return left(cleaned, &format_args!("its {MARKER} is none ({cause}); remove it by hand")),
    };
    if marker.version != VERSION {
        return left(cleaned, &format_args!("its {MARKER} is of version {}; remove it by hand", marker.version));
    }
    if marker.kept && !kept {
        return Ok(None);
    }
    if let Some(process) = &marker.broker {
        cleaned.broker_ended = process.end(folder)?;
    }
    remove(folder)?;
    cleaned.removed = true;
    Ok(Some(cleaned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    fn site(base: &Path) -> Site {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Site { base: base.to_owned(), owner }
    }

    /// As a drill that is killed leaves it.
    fn forget(mut room: Room) -> PathBuf {
        room.is_ended = true;
        room.path.clone()
    }

    #[test]
    fn what_a_killed_drill_left_is_found_and_removed_with_its_broker_and_what_runs_or_is_kept_is_not() {
        let base = tempfile::tempdir().unwrap();
        let mut room = Room::make(&site(base.path()), "dr").unwrap();
        let line = format!("sleep 600; : {}", room.path().display());
        let mut orphan = Command::new("/bin/sh").args(["-c", &line]).process_group(0).spawn().unwrap();
        room.marker.broker = Process::of(orphan.id());
        while !fs::read(format!("/proc/{}/cmdline", orphan.id())).unwrap().ends_with(b"\0") {
            sleep(POLL);
        }
        room.write().unwrap();
        assert_eq!(clean(base.path(), true).unwrap(), [], "it runs");
        let left = forget(room);
        let reaper = std::thread::spawn(move || orphan.wait());
        let cleaned = clean(base.path(), false).unwrap();
        assert_eq!(cleaned, [Cleaned { folder: left.clone(), removed: true, broker_ended: true, why: None }]);
        reaper.join().unwrap().unwrap();
        let mut kept = Room::make(&site(base.path()), "dr").unwrap();
        kept.end(true).unwrap();
        let kept = forget(kept);
        assert_eq!(clean(base.path(), false).unwrap(), []);
        assert!(kept.exists() && clean(base.path(), true).unwrap()[0].removed && !kept.exists() && !left.exists());
    }

    #[test]
    fn what_is_not_understood_is_named_and_left() {
        let base = tempfile::tempdir().unwrap();
        let own = |name: &str| base.path().join(format!("{PREFIX}{name}"));
        fs::create_dir(own("empty")).unwrap();
        fs::create_dir_all(own("strange/data")).unwrap();
        fs::create_dir(own("other")).unwrap();
        fs::write(own("other").join(MARKER), b"{\"version\":9,\"mirror\":\"m\",\"kept\":false,\"broker\":null}")
            .unwrap();
        fs::create_dir(base.path().join("nobodys")).unwrap();
        let mut found = clean(base.path(), true).unwrap();
        found.sort_by_key(|cleaned| cleaned.folder.clone());
        let whys: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(
            whys[0].contains("removed") && whys[1].contains("version 9") && whys[2].contains("by hand"),
            "{whys:?}"
        );
        assert!(!own("empty").exists() && own("strange/data").exists() && own("other").exists());
    }

    #[test]
    fn a_folder_that_somebody_uses_is_not_removed() {
        let base = tempfile::tempdir().unwrap();
        let room = Room::make(&site(base.path()), "dr").unwrap();
        let lock = locks::Locks::take(&[room.logs()]).unwrap();
        let path = forget(room);
        assert!(clean(base.path(), true).unwrap_err().to_string().contains("lock"));
        drop(lock);
        assert!(clean(base.path(), true).unwrap()[0].removed && !path.exists());
    }
}
