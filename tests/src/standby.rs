//! A stock broker started clean on a folder of mirrored partitions, and what that may change there.

use crate::genesis::{self, Topic};
use crate::kafka::{Broker, Spec};
use crate::kafka_log::{Log, epoch_file, offset_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The metadata's leader epochs stand this far above the mirrored ones, as a hand-over would have it.
const EPOCH_MARGIN: i32 = 10;

/// A topic that the standby is to serve.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Name.
    pub name: String,
    /// Id at the source.
    pub id: String,
    /// Partitions.
    pub partitions: i32,
    /// Configs.
    pub configs: Vec<(String, String)>,
}

/// Formats `data` (partition folders and checkpoints only) for a node that lives in `dir`, tells it of `topics`, marks the folder as
/// cleanly closed and starts the node. Checks that the start was clean: recovery skipped, all records of the metadata loaded, no folder
/// stray, none rebuilt.
///
/// # Panics
/// When it was not.
#[must_use]
pub fn start(dir: &Path, data: &Path, topics: &[Expected]) -> Broker {
    let mut broker = Broker::prepare(Spec::new(dir).log_dirs(vec![data.to_path_buf()]));
    let topics: Vec<_> = topics.iter().map(|t| known(data, t)).collect();
    let records = genesis::write(data, 1, &topics);
    std::fs::write(data.join(".kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":-1}"#)
        .expect("the clean marker written");
    resume(&mut broker, data, records);
    broker
}

/// Starts a node whose metadata begins with `records` data records, and checks that the start was clean, as [`start`] does.
///
/// # Panics
/// When it was not.
pub fn resume(broker: &mut Broker, data: &Path, records: usize) {
    broker.resume();
    let file = broker.dir().join("server.log");
    let log = broker.log();
    let loaded = format!("Appending {records} bootstrap record(s)");
    assert!(log.contains(&loaded), "{loaded:?} is not in {}", file.display());
    assert!(log.contains("Skipping recovery"), "the start was not clean: {}", file.display());
    let signs = ["stray", "Recovering unflushed", "ebuilding index", "Found invalid", "orrupt", "Deleting stale"];
    let bad: Vec<_> =
        log.lines().filter(|l| signs.iter().any(|s| l.contains(s)) && !l.contains("stray log dir")).collect();
    assert!(bad.is_empty(), "the broker complains: {bad:#?}");
    let strays: Vec<_> = folder_names(data).into_iter().filter(|n| n.contains("-stray")).collect();
    assert!(strays.is_empty(), "stray folders: {strays:?}");
}

fn known(data: &Path, topic: &Expected) -> Topic {
    let epoch = |index: i32| {
        let log = Log::read(&data.join(format!("{}-{index}", topic.name))).unwrap_or_else(|why| panic!("{why}"));
        log.epoch_max().max(0) + EPOCH_MARGIN
    };
    let leader_epochs = (0..topic.partitions).map(epoch).collect();
    Topic { name: topic.name.clone(), id: topic.id.clone(), configs: topic.configs.clone(), leader_epochs }
}

fn folder_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Length and checksum of every file of the partition folders, with their epoch histories and log starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    files: BTreeMap<PathBuf, (u64, u32)>,
    epochs: BTreeMap<PathBuf, Vec<(i32, i64)>>,
    starts: BTreeMap<PathBuf, i64>,
}

/// Takes the fingerprint of the folders `topic-N` in `data`.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn fingerprint(data: &Path, topics: &[Expected]) -> Fingerprint {
    let mut out = Fingerprint { files: BTreeMap::new(), epochs: BTreeMap::new(), starts: BTreeMap::new() };
    let starts = offset_file(data, "log-start-offset-checkpoint").unwrap_or_else(|why| panic!("{why}"));
    for topic in topics {
        for index in 0..topic.partitions {
            let name = format!("{}-{index}", topic.name);
            let dir = data.join(&name);
            let start = starts.get(&name).copied();
            let name = PathBuf::from(name);
            let first = Log::read(&dir).unwrap_or_else(|why| panic!("{why}")).segments.first().map_or(0, |s| s.base);
            out.starts.insert(name.clone(), start.unwrap_or(first));
            for file in folder_names(&dir) {
                let bytes = std::fs::read(dir.join(&file)).unwrap_or_else(|e| panic!("{}/{file}: {e}", dir.display()));
                out.files.insert(name.join(file), (bytes.len() as u64, crc32c::crc32c(&bytes)));
            }
            let epochs = if dir.join("leader-epoch-checkpoint").exists() { epoch_file(&dir) } else { Ok(Vec::new()) };
            out.epochs.insert(name, epochs.unwrap_or_else(|why| panic!("{why}")));
        }
    }
    out
}

impl Fingerprint {
    /// What a clean start, reading, and a clean stop of a stock broker changed in our files (`self` before, `after` after), beyond what
    /// they must:
    /// - the epoch history gets the broker's own epoch at the log end, in place of one that began there;
    /// - a segment without records may get empty indexes, an empty partition a snapshot of no producers;
    /// - a snapshot at the log start goes: it says nothing that is still there.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Vec<String> {
        const EPOCHS: &str = "leader-epoch-checkpoint";
        const NO_PRODUCERS_BYTES: u64 = 10;
        let mut out = Vec::new();
        for (file, was) in self.files.iter().filter(|(f, _)| !f.ends_with(EPOCHS)) {
            match after.files.get(file) {
                Some(is) if is == was => {}
                None if self.is_spent_snapshot(file) => {}
                Some(is) => out.push(format!("{} changed from {was:?} to {is:?}", file.display())),
                None => out.push(format!("{} is gone", file.display())),
            }
        }
        for (file, is) in after.files.iter().filter(|(f, _)| !self.files.contains_key(*f) && !f.ends_with(EPOCHS)) {
            let extension = file.extension().and_then(|x| x.to_str()).unwrap_or_default();
            let may = matches!((extension, is.0), ("index" | "timeindex", 0) | ("snapshot", NO_PRODUCERS_BYTES));
            if !may {
                out.push(format!("{} is new: {is:?}", file.display()));
            }
        }
        for (dir, was) in &self.epochs {
            let is = after.epochs.get(dir).cloned().unwrap_or_default();
            let kept = is.len().saturating_sub(1);
            let own = is.last().map_or(i64::MAX, |last| last.1);
            let before: Vec<_> = was.iter().filter(|entry| entry.1 < own).copied().collect();
            if is[..kept] != before {
                out.push(format!("{}: epochs were {was:?}, are {is:?}", dir.display()));
            }
        }
        out
    }

    fn is_spent_snapshot(&self, file: &Path) -> bool {
        let start = file.parent().and_then(|dir| self.starts.get(dir));
        let offset: Option<i64> = file.file_stem().and_then(|s| s.to_str()?.parse().ok());
        file.extension().is_some_and(|x| x == "snapshot") && offset <= start.copied()
    }
}
