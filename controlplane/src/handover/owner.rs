//! Whose files are: what root hands over belongs to the owner of the directory that it comes into, for a broker that may not write what
//! it has takes its log directory offline. Anybody else may only hand over what is the broker's already, which the preflight sees to.
//!
//! Nothing is followed that is a link, and nothing is looked into but partition directories of the journal.

use crate::failure::Failure;
use crate::handover::journal::Journal;
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use twinlog_proto::storage::names;

/// Files of a log directory that we make or write anew.
const OF_A_DIRECTORY: [&str; 5] =
    [names::RECOVERY_POINTS, names::LOG_STARTS, names::HIGH_WATERMARKS, names::LOCK, names::CLEAN_SHUTDOWN];

/// Whether this process may give files away.
#[must_use]
pub fn may_give() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives the partition directories, in the log directories or `back` in the data directories, to the owner of these.
///
/// # Errors
/// As the file system says; may be done again.
pub fn give_partitions(journal: &Journal, back: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    for topic in &journal.topics {
        for partition in &topic.partitions {
            let parent = if back { &partition.from } else { &journal.log_dirs[partition.to] };
            all.push((parent.as_path(), names::partition_dir(&topic.topic, partition.partition)));
        }
    }
    give_directories(&all)
}

/// The same for these directories, by the one that they are in and their name.
///
/// # Errors
/// As the file system says; may be done again.
pub fn give_directories(all: &[(&Path, String)]) -> Result<(), Failure> {
    if !may_give() {
        return Ok(());
    }
    for (parent, name) in all {
        let directory = parent.join(name);
        give_tree(parent, &directory).map_err(|cause| not_given(&directory, &cause))?;
    }
    let parents: BTreeSet<&Path> = all.iter().map(|(parent, _)| *parent).collect();
    parents.into_iter().try_for_each(|parent| {
        give_files(parent)?;
        let durable = fs::File::open(parent).and_then(|folder| Ok(rustix::fs::syncfs(&folder)?));
        durable.map_err(|cause| not_given(parent, &cause))
    })
}

/// Gives the files of a log directory that are ours to its owner.
///
/// # Errors
/// As the file system says.
pub fn give_files(directory: &Path) -> Result<(), Failure> {
    if !may_give() {
        return Ok(());
    }
    let to = fs::metadata(directory).map_err(|cause| not_given(directory, &cause))?;
    OF_A_DIRECTORY
        .iter()
        .map(|name| directory.join(name))
        .try_for_each(|path| give(&path, &to).map_err(|cause| not_given(&path, &cause)))
}

/// A partition directory has files only.
fn give_tree(parent: &Path, directory: &Path) -> io::Result<()> {
    let to = fs::metadata(parent)?;
    give(directory, &to)?;
    fs::read_dir(directory)?.try_for_each(|entry| give(&entry?.path(), &to))
}

/// What is not there needs no owner.
fn give(path: &Path, to: &Metadata) -> io::Result<()> {
    let own = match fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        own => own?,
    };
    if own.is_symlink() || (own.uid(), own.gid()) == (to.uid(), to.gid()) {
        return Ok(());
    }
    lchown(path, Some(to.uid()), Some(to.gid()))
}

fn not_given(path: &Path, cause: &io::Error) -> Failure {
    Failure::new(
        format_args!("{} cannot be given to the owner of its directory", path.display()),
        cause,
        "mend it, then run the same command again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::journal::{Partition, Topic};
    use crate::handover::preflight::Mode;
    use std::os::unix::fs::chown;
    use std::path::PathBuf;

    fn owner(path: PathBuf) -> (u32, u32) {
        let own = fs::symlink_metadata(path).unwrap();
        (own.uid(), own.gid())
    }

    #[test]
    fn what_root_moves_belongs_to_whoever_has_the_directory_and_comes_back_so() {
        if !may_give() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (logs, data) = (folder.path().join("logs"), folder.path().join("data"));
        let partition = |parent: &Path| parent.join("t-0");
        for parent in [&logs, &data] {
            fs::create_dir(parent).unwrap();
            fs::create_dir(partition(parent)).unwrap();
            fs::write(partition(parent).join("0.log"), b"").unwrap();
            fs::write(parent.join(names::RECOVERY_POINTS), b"").unwrap();
            fs::write(parent.join("of nobody we know"), b"").unwrap();
        }
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, b"").unwrap();
        std::os::unix::fs::symlink(&elsewhere, partition(&logs).join("link")).unwrap();
        chown(&logs, Some(41), Some(42)).unwrap();
        chown(&data, Some(43), Some(44)).unwrap();
        let mut journal = Journal::begin("dr", Mode::Planned, 0);
        journal.log_dirs = vec![logs.clone()];
        let of = Partition {
            partition: 0,
            from: data.clone(),
            to: 0,
            log_start_offset: 0,
            last_mirrored_offset: 0,
            last_mirror_epoch: -1,
            epoch_max: -1,
            end_offset: None,
            samples: Vec::new(),
            segments: Vec::new(),
        };
        journal.topics = vec![Topic {
            topic: "t".into(),
            topic_id: String::new(),
            flowed: true,
            configs: std::collections::BTreeMap::new(),
            carried: std::collections::BTreeMap::new(),
            partitions: vec![of],
        }];
        give_partitions(&journal, false).unwrap();
        give_partitions(&journal, true).unwrap();
        for (parent, wanted) in [(&logs, (41, 42)), (&data, (43, 44))] {
            let ours = [partition(parent), partition(parent).join("0.log"), parent.join(names::RECOVERY_POINTS)];
            assert_eq!(ours.map(owner), [wanted; 3]);
            assert_eq!(owner(parent.join("of nobody we know")).0, 0);
        }
        assert_eq!((owner(partition(&logs).join("link")).0, owner(elsewhere).0), (0, 0));
    }
}
