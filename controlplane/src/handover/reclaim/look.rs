//! What a broker has left of the partitions that were handed over to it, compared with what the journal says. Changes nothing.

use super::peer::Cuts;
use super::progress::Taken;
use super::{Order, Preflight, broker_files};
use crate::client::Client;
use crate::failure::Failure;
use crate::handover::journal::{Journal, Partition, Topic};
use crate::handover::layout::{self, Asked, Layout};
use crate::handover::node::Node;
use crate::handover::preflight::Finding;
use crate::handover::problem::Problem;
use crate::handover::{owner, segments, survey, target};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use twinlog_proto::assignment::Assignment;
use twinlog_proto::handover::plan::PlannedPartition;
use twinlog_proto::storage::{names, partition_metadata};

/// Space that the work needs on each file system, bytes.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Reads the node's properties.
///
/// # Errors
/// When they cannot be read.
pub(super) fn node(order: &Order) -> Result<Node, Failure> {
    layout::read_node(&order.from).map_err(|problems| match problems.into_iter().next() {
        Some(Problem { what, why, remedy }) => Failure::new(what, why, remedy),
        None => Failure::new(order.from.display(), "it cannot be read", "give the node's server.properties"),
    })
}

/// Adds what keeps the node from being the one that the topics were handed over to.
pub(super) fn identity(node: &Node, journal: &Journal, blockers: &mut Vec<Finding>) {
    let path = node.properties.display();
    if node.id != journal.node_id {
        blockers.push(Finding::new(
            format!("{path} is of node {}, but the topics were handed over to node {}", node.id, journal.node_id),
            format!("give the properties file of that node, such as {}", journal.to.display()),
        ));
    }
    let found = Layout::look(node, &Asked::default()).cluster_id;
    if found.as_deref() != Some(journal.cluster_id.as_str()) {
        let found = found.unwrap_or_else(|| "no cluster".to_owned());
        blockers.push(Finding::new(
            format!("the log directories of {path} belong to {found}, not to cluster {}", journal.cluster_id),
            "give the properties file of the node that has the topics",
        ));
    }
}

/// Looks at the partitions of the chosen topics; adds what blocks and what is to be known.
pub(super) struct Look<'a> {
    pub(super) order: &'a Order,
    pub(super) journal: &'a Journal,
    pub(super) node: &'a Node,
    pub(super) judged: &'a mut Preflight,
    /// Where the other side says that mirroring ended; none when our own word holds.
    pub(super) cuts: Option<&'a Cuts>,
    pub(super) planned: Vec<PlannedPartition>,
}

impl Look<'_> {
    /// Looks at everything.
    ///
    /// # Errors
    /// When the control plane does not answer, or the mirror's assignment cannot be read.
    pub(super) fn all(&mut self, client: &mut Client, chosen: &[&Topic]) -> Result<(), Failure> {
        // A mirror that never had these topics has no assignment yet, and the control plane knows nothing of them.
        let assignment = match self.journal.was_never_promoted() {
            true => Assignment::default(),
            false => {
                self.recorded(client, chosen)?;
                survey::read_assignment(&self.order.state, &self.order.mirror)?
            }
        };
        for topic in chosen {
            let shape = survey::shape(&assignment, &topic.topic);
            for partition in &topic.partitions {
                match self.partition(topic, partition) {
                    Ok((taken, planned)) => {
                        self.planned.push(PlannedPartition {
                            segment_bytes: shape.segment_bytes,
                            segment_index_bytes: shape.segment_index_bytes,
                            index_interval_bytes: shape.index_interval_bytes,
                            ..planned
                        });
                        self.judged.partitions.push(taken);
                    }
                    Err(finding) => self.judged.blockers.push(finding),
                }
            }
        }
        if self.cuts.is_some() {
            broker_files::spoilt(self.journal, self.judged);
        }
        if !self.order.clone {
            self.others(chosen);
            self.space();
        }
        Ok(())
    }

    /// What the control plane knows of the topics must be what the journal says.
    fn recorded(&mut self, client: &mut Client, chosen: &[&Topic]) -> Result<(), Failure> {
        let names: Vec<String> = chosen.iter().map(|topic| topic.topic.clone()).collect();
        let described = survey::describe(client, &self.order.mirror, &names)?;
        for topic in chosen {
            let found = described.topics.iter().find(|found| found.topic_name == topic.topic);
            let to = found.and_then(|found| found.handed_over_to.as_deref());
            if to != Some(self.journal.handed_over_to.as_str()) {
                let to = to.map_or_else(|| "nobody".to_owned(), ToOwned::to_owned);
                self.judged.blockers.push(Finding::new(
                    format!(
                        "topic {} is handed over to {to} as the control plane knows, and to {} by the journal",
                        topic.topic, self.journal.handed_over_to
                    ),
                    "leave it out: name the others with --topic",
                ));
            }
            for partition in found.map(|found| found.partitions.as_slice()).unwrap_or_default() {
                let before = topic.partitions.iter().find(|known| known.partition == partition.partition_index);
                let same = before.is_some_and(|known| known.last_mirrored_offset == partition.last_mirror_offset);
                if !same {
                    self.judged.blockers.push(Finding::new(
                        format!(
                            "mirroring of {}-{} ended at {} as the control plane knows, but not by the journal",
                            topic.topic, partition.partition_index, partition.last_mirror_offset
                        ),
                        "restore the state directory as it was at the hand-over, or mirror the topic from scratch",
                    ));
                }
            }
        }
        Ok(())
    }

    fn partition(&mut self, topic: &Topic, partition: &Partition) -> Result<(Taken, PlannedPartition), Finding> {
        let name = names::partition_dir(&topic.topic, partition.partition);
        let scratch = match self.journal.was_never_promoted() {
            true => "leave the topic out: name the others with --topic, and mirror it from scratch",
            false => "give the topic up with --from-scratch, or take the others back with --topic",
        };
        let data = partition.from.join(&name);
        let Some(log_dir) = self.node.log_dirs.iter().find(|dir| dir.join(&name).is_dir()) else {
            let what = format!("no log directory of {} holds {name}", self.node.properties.display());
            return Err(Finding::new(
                what,
                format!("look for it among directories called {name}.*-stray; or {scratch}"),
            ));
        };
        let dir = log_dir.join(&name);
        if data.exists() {
            let what = format!("both {} and {} are there", dir.display(), data.display());
            let remedy = "move the one away that is not the mirror's; or, when the mirror has the topic already, name the others with --topic";
            return Err(Finding::new(what, remedy));
        }
        let unreadable = |cause: io::Error| {
            Finding::new(format!("{} cannot be read: {cause}", dir.display()), "run this as the broker's user")
        };
        let found =
            if self.order.clone { readable(&dir, &partition.from) } else { rights(&dir, log_dir, &partition.from) };
        found.map_err(unreadable)?.map_or(Ok(()), Err)?;
        same_topic(&dir, &topic.topic_id, scratch)?;
        let own = (partition.last_mirrored_offset, partition.last_mirror_epoch);
        let told = self.cuts.and_then(|cuts| cuts.get(&(topic.topic.clone(), partition.partition)));
        let (end, epoch) = told.copied().unwrap_or(own);
        let is_clean = target::is_marked_clean(log_dir);
        let verify_from = match self.cuts {
            Some(_) => {
                broker_files::verify_from(log_dir, is_clean, &topic.topic, partition.partition).map_err(unreadable)?
            }
            None => -1,
        };
        let now = segments::list(&dir).map_err(unreadable)?;
        let first = segments::left(&partition.segments, &now, own.0).map_err(|why| {
            let what = format!("what was mirrored of {name} was changed at the broker: {}: {why}", dir.display());
            Finding::new(what, scratch)
        })?;
        let log_start_offset = first.max(partition.log_start_offset).min(end);
        self.retention(&name, partition.log_start_offset, log_start_offset);
        let planned = PlannedPartition {
            topic: topic.topic.clone(),
            index: partition.partition,
            topic_id: topic.topic_id.parse().unwrap_or_default(),
            data_directory: partition.from.display().to_string(),
            log_directory: log_dir.display().to_string(),
            log_start_offset,
            last_mirrored_offset: end,
            last_mirror_epoch: epoch,
            verify_from,
            ..PlannedPartition::default()
        };
        let taken = Taken {
            topic: topic.topic.clone(),
            partition: partition.partition,
            log_dir: log_dir.clone(),
            log_start_offset,
            last_mirrored_offset: end,
            last_mirror_epoch: epoch,
            end_offset: -1,
            records: 0,
            bytes: 0,
            epochs: Vec::new(),
        };
        Ok((taken, planned))
    }

    /// Says what the broker removed from the beginning.
    fn retention(&mut self, name: &str, before: i64, now: i64) {
        if now > before {
            self.judged.warnings.push(Finding::new(
                format!("the broker removed offsets {before} to {now} of {name}, and the mirror begins behind them"),
                "mirror the topic from scratch if they are wanted and the source has them",
            ));
        }
    }

    /// Partitions of the node that were never ours.
    fn others(&mut self, chosen: &[&Topic]) {
        let ours: BTreeSet<String> = chosen
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|p| names::partition_dir(&topic.topic, p.partition)))
            .collect();
        let entries = self.node.log_dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut others: Vec<String> = names
            .filter(|name| names::parse_partition_dir(name).is_some() && !ours.contains(name))
            .filter(|name| name != twinlog_proto::storage::kraft::METADATA_LOG)
            .collect();
        others.sort();
        if let Some(first) = others.first() {
            self.judged.warnings.push(Finding::new(
                format!("{} partition directories stay at the broker, {first} among them", others.len()),
                "move away what is wanted of them: a node with topics of its own is not promoted into again",
            ));
        }
    }

    fn space(&mut self) {
        let dirs: BTreeSet<PathBuf> = self.judged.partitions.iter().map(|taken| taken.log_dir.clone()).collect();
        for dir in dirs {
            match rustix::fs::statvfs(&dir).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)) {
                Ok(free) if free >= FREE_BYTES_MIN => {}
                Ok(free) => self.judged.blockers.push(Finding::new(
                    format!("{}: {free} bytes are free, {FREE_BYTES_MIN} are needed", dir.display()),
                    "make space on its file system",
                )),
                Err(cause) => self.judged.blockers.push(Finding::new(
                    format!("{} cannot be looked at: {cause}", dir.display()),
                    "run this as the broker's user",
                )),
            }
        }
    }
}

/// The directory must be the topic's.
fn same_topic(dir: &Path, topic_id: &str, remedy: &str) -> Result<(), Finding> {
    let id = fs::read(dir.join(names::PARTITION_METADATA)).ok();
    let id = id.and_then(|bytes| partition_metadata::parse(&bytes).ok()).map(|id| id.to_string());
    if id.as_deref() == Some(topic_id) {
        return Ok(());
    }
    let id = id.unwrap_or_else(|| "none".to_owned());
    Err(Finding::new(format!("{} belongs to topic id {id}, not to {topic_id}", dir.display()), remedy))
}

/// Why the directory cannot be copied by this user for the data plane, while a broker may roll and remove files.
fn readable(dir: &Path, data: &Path) -> io::Result<Option<Finding>> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_file = match fs::symlink_metadata(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            meta => meta?.is_file(),
        };
        if !is_file {
            let what = format!("{} is no file, which no broker leaves there", path.display());
            return Ok(Some(Finding::new(what, "look what it is, and move it away")));
        }
    }
    if rustix::fs::access(data, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok() {
        return Ok(None);
    }
    let what = format!("{} cannot be written by this user", data.display());
    Ok(Some(Finding::new(what, "run this as the user of `twinlog up`, or as root")))
}

/// Why the directory cannot be cut and renamed by this user for the data plane.
fn rights(dir: &Path, log_dir: &Path, data: &Path) -> io::Result<Option<Finding>> {
    let (own, target) = (fs::metadata(dir)?, fs::metadata(data)?);
    if own.dev() != target.dev() {
        let what = format!("{} lies on another file system than {}", dir.display(), data.display());
        return Ok(Some(Finding::new(what, "move it to a log directory on that file system, with the broker stopped")));
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if !meta.is_file() {
            // It would be followed when files are cut, as root perhaps.
            let what = format!("{} is no file, which no broker leaves there", entry.path().display());
            return Ok(Some(Finding::new(what, "look what it is, and move it away")));
        }
        if meta.uid() != target.uid() && !owner::may_give() {
            let what = format!(
                "{} belongs to user {}, and {} to user {}",
                entry.path().display(),
                meta.uid(),
                data.display(),
                target.uid()
            );
            return Ok(Some(Finding::new(what, format!("chown -R {} {}", target.uid(), dir.display()))));
        }
    }
    let may =
        |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    let shut = [dir, log_dir, data].into_iter().find(|path| !may(path));
    Ok(shut.map(|path| {
        let what = format!("{} cannot be written by this user", path.display());
        Finding::new(what, "run this as the user of the broker and of `twinlog up`, or as root")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_directory_with_a_link_in_it_is_not_taken_back() {
        let logs = tempfile::tempdir().unwrap();
        let (dir, elsewhere) = (logs.path().join("orders-0"), logs.path().join("elsewhere"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("00000000000000000000.log"), b"").unwrap();
        assert_eq!(rights(&dir, logs.path(), logs.path()).unwrap(), None);
        std::os::unix::fs::symlink(elsewhere, dir.join("00000000000000000000.index")).unwrap();
        let found = rights(&dir, logs.path(), logs.path()).unwrap().unwrap();
        assert!(found.what.contains("00.index is no file"), "{}", found.what);
    }
}
