//! Which partitions are to be checked, and what the checkpoints of their data directory say about them.

use crate::failure::Failure;
use crate::handover::locks;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::assignment::{self, Assignment};
use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::names::{self, DirUse};
use twinlog_proto::storage::{checkpoint, clean_shutdown, meta_properties::MetaProperties};

/// A partition directory to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The directory.
    pub(super) directory: PathBuf,
    /// The topic.
    pub(super) topic: String,
    /// The partition.
    pub(super) partition: i32,
    /// The id that it must have, when that is known.
    pub(super) topic_id: Option<Uuid>,
}

/// What a data directory says about itself and its partitions.
#[derive(Debug, Default)]
pub(super) struct DataDirectory {
    /// A broker or data plane uses it now.
    pub(super) in_use: bool,
    /// It was closed in order.
    pub(super) clean: bool,
    /// Where logs start.
    pub(super) log_starts: Offsets,
    /// A log that is not among them starts with its first segment. Not so without the file, and while a broker moves log starts.
    pub(super) knows_log_starts: bool,
    /// Below these everything was synced.
    pub(super) recovery_points: Offsets,
    /// High watermarks.
    pub(super) high_watermarks: Offsets,
    /// Files that cannot be read, and why.
    pub(super) wrong: Vec<(String, String)>,
}

/// Offsets by topic and partition.
pub(super) type Offsets = BTreeMap<(String, i32), i64>;

/// The assignment of `mirror`.
///
/// # Errors
/// When there is none, or it cannot be read.
pub(super) fn assignment(state: &Path, mirror: &str) -> Result<Assignment, Failure> {
    let path = state.join(assignment::FOLDER).join(assignment::file_name(mirror));
    let bytes = fs::read(&path).map_err(|cause| {
        Failure::new(
            format_args!("the partitions of mirror {mirror} are not known: {} cannot be read", path.display()),
            cause,
            "give the mirror's name and the --state that `twinlog up` runs with; a mirror has partitions once a topic was started",
        )
    })?;
    assignment::decode(&bytes).map_err(|cause| {
        Failure::new(format_args!("{} cannot be used", path.display()), cause, "let the control plane write it again")
    })
}

/// The partitions of a mirror.
pub(super) fn of_mirror(assignment: &Assignment) -> impl Iterator<Item = Target> + '_ {
    assignment.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Target {
            directory: Path::new(&partition.data_directory).join(names::partition_dir(&topic.name, partition.index)),
            topic: topic.name.clone(),
            partition: partition.index,
            topic_id: Some(topic.topic_id),
        })
    })
}

/// The partitions in data directories, or partition directories themselves.
///
/// # Errors
/// When a directory cannot be read, or is neither.
pub(super) fn in_directories(directories: &[PathBuf]) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for directory in directories {
        let unreadable = |cause| {
            let what = format!("{} cannot be checked", directory.display());
            Failure::new(what, cause, "give a data directory, or the directory of a partition")
        };
        let directory = fs::canonicalize(directory).map_err(unreadable)?;
        if let Some(target) = target(&directory) {
            targets.push(target);
            continue;
        }
        let before = targets.len();
        for entry in fs::read_dir(&directory).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            targets.extend(Some(path).filter(|path| path.is_dir()).and_then(|path| target(&path)));
        }
        if targets.len() == before && !directory.join(names::META_PROPERTIES).exists() && !has_checkpoints(&directory) {
            return Err(unreadable(std::io::Error::other("there is no partition in it")));
        }
        targets[before..].sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    }
    Ok(targets)
}

fn has_checkpoints(directory: &Path) -> bool {
    [names::RECOVERY_POINTS, names::HIGH_WATERMARKS, names::LOG_STARTS].iter().any(|name| directory.join(name).exists())
}

fn target(directory: &Path) -> Option<Target> {
    let parsed =
        names::parse_partition_dir(directory.file_name()?.to_str()?).filter(|dir| dir.dir_use == DirUse::Live)?;
    let (topic, partition) = (parsed.topic.to_owned(), parsed.partition);
    // A data directory may have a name of this form too.
    let is_one = directory.join(names::PARTITION_METADATA).exists()
        || fs::read_dir(directory).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|e| e.file_name().to_str().and_then(names::parse_file_name).is_some()))
        });
    is_one.then_some(Target { directory: directory.to_owned(), topic, partition, topic_id: None })
}

impl DataDirectory {
    /// Reads what is there; a file that is missing says nothing.
    pub(super) fn read(path: &Path) -> Self {
        let mut found = Self { in_use: locks::is_taken(path), ..Self::default() };
        found.log_starts = found.offsets(path, names::LOG_STARTS);
        found.knows_log_starts = !found.in_use && path.join(names::LOG_STARTS).exists();
        found.recovery_points = found.offsets(path, names::RECOVERY_POINTS);
        found.high_watermarks = found.offsets(path, names::HIGH_WATERMARKS);
        found.offsets(path, names::CLEANER_OFFSETS);
        found.parsed(path, names::META_PROPERTIES, |bytes| MetaProperties::parse(bytes).map(drop));
        found.clean =
            found.parsed(path, names::CLEAN_SHUTDOWN, |bytes| clean_shutdown::parse(bytes).map(drop)).is_some();
        found
    }

    fn offsets(&mut self, path: &Path, name: &str) -> Offsets {
        let entries = self.parsed(path, name, checkpoint::parse).unwrap_or_default();
        entries.into_iter().map(|entry| ((entry.topic, entry.partition), entry.offset)).collect()
    }

    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        path: &Path,
        name: &str,
        parse: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Option<T> {
        let bytes = match fs::read(path.join(name)) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return None,
            Err(cause) => {
                self.wrong.push((name.to_owned(), cause.to_string()));
                return None;
            }
        };
        parse(&bytes).map_err(|cause| self.wrong.push((name.to_owned(), cause.to_string()))).ok()
    }
}
