//! What a reclaim holds and what outlives it: the locks, what is saved aside, the clean markers of the broker, the epochs that clients may have seen, the report.

use super::progress::{Reclaim, Taken};
use super::{Order, Preflight};
use crate::failure::Failure;
use crate::files;
use crate::handover::journal::{self, Journal};
use crate::handover::locks::{LockError, Locks};
use crate::handover::past_epochs::PastEpochs;
use crate::handover::preflight::Finding;
use crate::handover::promote::absolute;
use crate::handover::target;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use twinlog_proto::handover::plan::PlannedPartition;
use twinlog_proto::storage::leader_epochs::LeaderEpochs;
use twinlog_proto::storage::names;

/// A broker that starts and stops raises its epochs by so many beyond those that it wrote down.
const EPOCHS_UNSEEN: i32 = 10;

/// Locks the broker's log directories; no broker starts on them then.
pub(super) fn lock(log_dirs: &[PathBuf]) -> Result<Locks, Failure> {
    if let Some(missing) = log_dirs.iter().find(|dir| !dir.is_dir()) {
        return Err(Failure::new(
            format_args!("the log directory {} is not there", missing.display()),
            "nothing can be taken back from it",
            "mount it, or give the properties file of the node that has the topics",
        ));
    }
    Locks::take(log_dirs).map_err(|cause| {
        let what = match &cause {
            LockError::Taken { path } => format!("{} is in use", path.join(names::LOCK).display()),
            LockError::System { .. } => "the broker's log directories cannot be locked".to_owned(),
        };
        Failure::new(
            what,
            cause,
            "stop the broker (SIGTERM) and wait until its process is gone, or take copies with --clone",
        )
    })
}

/// Room for what is saved aside, outside of the directories in `own`.
pub(super) fn space_aside<'a>(
    order: &Order,
    own: impl Iterator<Item = &'a str>,
    judged: &mut Preflight,
) -> Result<(), Failure> {
    let Some(dir) = &order.save_aside else { return Ok(()) };
    let dir = absolute(dir)?;
    let nearest = dir.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    elsewhere(&dir, nearest, own, judged);
    let free = rustix::fs::statvfs(nearest).map_err(|cause| {
        Failure::new(format_args!("{} cannot be looked at", nearest.display()), cause, "give another --save-aside")
    })?;
    let free = i64::try_from(free.f_bavail.saturating_mul(free.f_frsize)).unwrap_or(i64::MAX);
    if free < judged.bytes {
        judged.blockers.push(Finding::new(
            format!("{}: {free} bytes are free, {} are to be saved there", dir.display(), judged.bytes),
            "make space, or give another --save-aside",
        ));
    }
    Ok(())
}

/// Partitions alone lie in data and log directories: no broker starts on another folder.
fn elsewhere<'a>(dir: &Path, nearest: &Path, own: impl Iterator<Item = &'a str>, judged: &mut Preflight) {
    let Ok(real) = fs::canonicalize(nearest) else { return };
    let all: BTreeSet<&str> = own.collect();
    let inside = all.into_iter().find(|own| fs::canonicalize(own).is_ok_and(|own| real.starts_with(own)));
    if let Some(own) = inside {
        judged.blockers.push(Finding::new(
            format!("--save-aside {} is in {own}, where only partitions are", dir.display()),
            "give a folder outside of the data directories and the broker's log directories",
        ));
    }
}

pub(super) fn make_aside(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = absolute(dir)?;
    target::make_dir(&dir)?;
    Ok(dir)
}

/// The clean markers that are there.
pub(super) fn markers(log_dirs: &[PathBuf]) -> Result<BTreeMap<PathBuf, String>, Failure> {
    let mut found = BTreeMap::new();
    for dir in log_dirs.iter().filter(|dir| target::is_marked_clean(dir)) {
        let path = dir.join(names::CLEAN_SHUTDOWN);
        let text = fs::read_to_string(&path).map_err(|cause| {
            Failure::new(format_args!("{} cannot be read", path.display()), cause, "run this as the broker's user")
        })?;
        found.insert(dir.clone(), text);
    }
    Ok(found)
}

/// The highest epochs that clients may have seen at the broker.
pub(super) fn epochs(journal: &Journal, taken: &[Taken], planned: &[PlannedPartition]) -> PastEpochs {
    let mut all = PastEpochs::new();
    for (taken, planned) in taken.iter().zip(planned) {
        let file = taken.log_dir.join(names::partition_dir(&taken.topic, taken.partition)).join(names::LEADER_EPOCHS);
        let written = fs::read(file).ok().and_then(|bytes| LeaderEpochs::parse(&bytes).ok());
        let written = written.and_then(|epochs| epochs.latest()).map_or(-1, |latest| latest.epoch);
        let batches = taken.epochs.last().copied().unwrap_or(-1);
        let partitions = journal.topics.iter().filter(|topic| topic.topic == taken.topic).flat_map(|t| &t.partitions);
        let told = partitions.filter(|p| p.partition == taken.partition).map(|p| p.epoch_max).max().unwrap_or(-1);
        let told = told.max(0).saturating_add(target::EPOCH_MARGIN);
        let highest = written.max(batches).max(told).saturating_add(EPOCHS_UNSEEN);
        all.entry(planned.topic_id.to_string()).or_default().insert(taken.partition, highest);
    }
    all
}

/// Keeps what was thrown away as a report, as JSON.
pub(super) fn report(order: &Order, done: &Reclaim) -> Result<(), Failure> {
    let path = report_path(order)?;
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::new(
            format_args!("the report {} cannot be written", path.display()),
            cause,
            "run the same command again",
        )
    };
    let mut bytes = serde_json::to_vec_pretty(done).map_err(|cause| failed(&cause))?;
    bytes.push(b'\n');
    files::replace(&path, &bytes).map_err(|cause| failed(&cause))
}

/// Where the report of the last reclaim is.
///
/// # Errors
/// When its folder cannot be made.
pub fn report_path(order: &Order) -> Result<PathBuf, Failure> {
    Ok(journal::make_subfolder(&order.state, "reclaimed")?.join(format!("{}.json", order.mirror)))
}
