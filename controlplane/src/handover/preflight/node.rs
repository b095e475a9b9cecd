//! pure: what keeps a node from taking the topics.

use super::{Finding, Wishes};
use crate::handover::facts::{Facts, LogDir, Node, Topic};
use crate::handover::problem::Problem;
use crate::mirror::internal::is_internal_name;
use std::path::Path;
use twinlog_proto::ids::Uuid;

/// Space that a start needs whatever the topics are, bytes.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Space that each partition may need: markers, snapshots, small files, blocks of new indexes.
const FREE_BYTES_A_PARTITION: u64 = 64 << 10;

/// Adds what blocks and what is to be known.
pub(super) fn judge(facts: &Facts, wishes: &Wishes, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let node = &facts.node;
    let name = node.properties.display();
    let finding = |problem: &Problem| Finding::new(format!("{}: {}", problem.what, problem.why), &problem.remedy);
    blockers.extend(node.problems.iter().map(finding));
    if let (Some(wanted), Some(found)) = (&wishes.cluster_id, &node.cluster_id)
        && wanted != found
    {
        blockers.push(Finding::new(
            format!("{name}: the node is formatted for cluster {found}, not {wanted}"),
            "leave out --cluster-id, or give the properties file of the right node",
        ));
    }
    former(facts, blockers, warnings);
    node.log_dirs.iter().for_each(|dir| log_dir(dir, blockers));
    if node.is_metadata_locked {
        blockers.push(in_use(&node.metadata_log_dir));
    }
    space(facts, blockers);
    owners(facts, blockers, warnings);
    devices(facts, blockers);
}

/// What a node knew is gone when it is laid out anew: nothing may be among it that is not the mirror's.
fn former(facts: &Facts, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let node = &facts.node;
    let Some(former) = &node.former else { return };
    let dir = node.metadata_log_dir.display();
    let is_ours = |id: &Uuid, name: &String| {
        is_internal_name(name) || facts.left.contains(name) || facts.topics.iter().any(|topic| topic.id == *id)
    };
    if let Some((_, own)) = former.topics.iter().find(|(id, name)| !is_ours(id, name)) {
        blockers.push(Finding::new(
            format!(
                "{dir}: the node was started before and has topics of its own: {own}, whose directories are missing"
            ),
            "find its directories, or delete the topic at the node; else hand over to another node",
        ));
        return;
    }
    warnings.push(Finding::new(
        format!(
            "{dir}: the node was started before and has no topic left: it is laid out anew, with its ids, levels, settings, access rules, \
             quotas and passwords"
        ),
        "nothing: what it was is kept in the state directory",
    ));
    if former.tokens > 0 {
        warnings.push(Finding::new(
            format!("{dir}: {} delegation tokens do not come along", former.tokens),
            "have clients ask for new ones",
        ));
    }
}

fn log_dir(dir: &LogDir, blockers: &mut Vec<Finding>) {
    let path = dir.path.display();
    if dir.is_data {
        blockers.push(Finding::new(
            format!("{path} is or lies in a data directory of the mirror, which the data plane uses"),
            "give the node log.dirs of its own, on the same file system",
        ));
        return;
    }
    if dir.is_locked {
        blockers.push(in_use(&dir.path));
    }
    if let Some(foreign) = dir.foreign.first() {
        blockers.push(Finding::new(
            format!("{path} holds the directory {foreign}, with which no broker starts"),
            "move it away: only partition directories may be in a log directory",
        ));
    }
    if !dir.is_writable {
        blockers.push(Finding::new(
            format!("{path} cannot be written by this user"),
            "run this as the user of the broker, or as root",
        ));
    }
}

fn in_use(path: &Path) -> Finding {
    Finding::new(
        format!("{} is used by another process: the lock on its file .lock is held", path.display()),
        "stop the broker that runs on it; a node that runs cannot be promoted into",
    )
}

fn space(facts: &Facts, blockers: &mut Vec<Finding>) {
    let partitions: usize = facts.topics.iter().map(|topic| topic.partitions.len()).sum();
    let needed = FREE_BYTES_MIN + FREE_BYTES_A_PARTITION * partitions as u64;
    for dir in facts.node.log_dirs.iter().filter(|dir| dir.free_bytes < needed) {
        blockers.push(Finding::new(
            format!("{}: {} bytes are free, {needed} are needed", dir.path.display(), dir.free_bytes),
            "make space on its file system",
        ));
    }
}

/// A broker that may not write what it takes over stops, or takes its log directory offline. Root gives it away, nobody else can.
fn owners(facts: &Facts, blockers: &mut Vec<Finding>, warnings: &mut Vec<Finding>) {
    let Some(dir) = facts.node.log_dirs.first() else { return };
    let files = || facts.topics.iter().flat_map(Topic::files).map(|(_, files)| files);
    if let Some(other) = files().find(|files| files.owner.0 != dir.owner.0) {
        let count = files().filter(|files| files.owner.0 != dir.owner.0).count();
        let (found, remedy) = match facts.user {
            0 => (warnings, "the log directory's owner is given all of them; the broker must run as that user"),
            _ => (
                &mut *blockers,
                "run this as root, which gives them to the log directory's owner, or run the broker and twinlog as the same user",
            ),
        };
        found.push(Finding::new(
            format!(
                "{} belongs to user {}, and {} to user {}; so do {} partition directories in all",
                other.directory.display(),
                other.owner.0,
                dir.path.display(),
                dir.owner.0,
                count
            ),
            remedy,
        ));
    }
    if let Some(shut) = files().find(|files| !files.is_writable) {
        blockers.push(Finding::new(
            format!("{} cannot be changed and renamed by this user", shut.directory.display()),
            "run this as the user of `twinlog up`, or as root",
        ));
    }
}

fn devices(facts: &Facts, blockers: &mut Vec<Finding>) {
    let files = facts.topics.iter().flat_map(Topic::files).map(|(_, files)| files);
    let away = |device: u64| !facts.node.log_dirs.iter().any(|dir| dir.device == device);
    let Some(away) = files.into_iter().find(|files| away(files.device)) else { return };
    blockers.push(Finding::new(
        format!(
            "{} is on another file system than the node's log.dirs, so it cannot be renamed into one",
            away.directory.display()
        ),
        "give the node a log directory on the file system of the mirror's data directory",
    ));
}

/// The log directory for each partition, by its place among [`Node::log_dirs`]: of those on its file system the one with the
/// fewest so far. Partitions come in the order of the facts; `None` when there is no such directory.
#[must_use]
pub fn places(node: &Node, devices: impl Iterator<Item = u64>) -> Vec<Option<usize>> {
    let mut counts = vec![0_usize; node.log_dirs.len()];
    let place = |device: u64| {
        let fitting = node.log_dirs.iter().enumerate().filter(|(_, dir)| dir.device == device).map(|(at, _)| at);
        let place = fitting.min_by_key(|at| counts[*at])?;
        counts[place] += 1;
        Some(place)
    };
    devices.map(place).collect()
}
