//! The node that is promoted into: looked at, laid out, told of the topics, marked as cleanly closed; and all of that taken back.

use crate::clock::now_ms;
use crate::failure::Failure;
use crate::files;
use crate::handover::anew;
use crate::handover::facts::Node as Found;
use crate::handover::identity::{self, Identity, IdentityPartition, IdentityTopic};
use crate::handover::journal::{self, Acl, Journal, Topic};
use crate::handover::layout::{self, Asked, Layout};
use crate::handover::locks;
use crate::handover::node::Node;
use crate::handover::problem::Problem;
use crate::handover::release::Release;
use crate::handover::survey;
use crate::random;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use twinlog_proto::messages::kraft_records::ClientQuotaRecord;
use twinlog_proto::security::acl::{AclBinding, Codes};
use twinlog_proto::storage::{clean_shutdown, names};

/// The leader epochs that the node is told stand this far above all that anybody has seen; its start adds two.
pub const EPOCH_MARGIN: i32 = 10;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(problem.what, problem.why, problem.remedy)
    }
}

/// Looks at the node of `properties`; what keeps it from being laid out is among its problems. `data` are the data directories of the
/// mirror.
///
/// # Errors
/// When `release` is none, or a directory cannot be read.
pub fn look(properties: &Path, release: Option<&str>, data: &[PathBuf]) -> Result<Found, Failure> {
    let asked = Asked { release: parse(release)?, cluster_id: None };
    let node = match layout::read_node(properties) {
        Ok(node) => node,
        Err(problems) => {
            return Ok(Found {
                properties: properties.to_owned(),
                id: -1,
                cluster_id: None,
                release: None,
                share_groups: false,
                unformatted: Vec::new(),
                log_dirs: Vec::new(),
                metadata_log_dir: PathBuf::new(),
                is_metadata_locked: false,
                problems,
                former: None,
                plaintext: None,
                topic_defaults: BTreeMap::new(),
            });
        }
    };
    let layout = Layout::look(&node, &asked);
    let log_dirs = node.log_dirs.iter().map(|path| {
        survey::log_dir(path, data).map_err(|cause| {
            let remedy = "run this as the user of the broker, or as root";
            Failure::new(format_args!("{} cannot be looked at", path.display()), cause, remedy)
        })
    });
    let log_dirs = log_dirs.collect::<Result<_, _>>()?;
    let mut problems = layout.problems.clone();
    problems.extend(layout.foreign_partitions(&HashSet::new()));
    let formatted = layout.cluster_id.is_some();
    let apart = !node.log_dirs.contains(&node.metadata_log_dir);
    Ok(Found {
        properties: properties.to_owned(),
        id: node.id,
        is_metadata_locked: apart && locks::is_taken(&node.metadata_log_dir),
        metadata_log_dir: node.metadata_log_dir.clone(),
        release: layout.bootstrap.as_ref().filter(|_| formatted).map(|bootstrap| bootstrap.release.to_string()),
        share_groups: layout.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.release.has_share_groups()),
        cluster_id: layout.cluster_id,
        unformatted: layout.directories.into_iter().filter(|dir| dir.id.is_none()).map(|dir| dir.path).collect(),
        log_dirs,
        problems,
        former: layout.former,
        plaintext: node.plaintext(),
        topic_defaults: node.topic_defaults,
    })
}

fn parse(release: Option<&str>) -> Result<Option<Release>, Failure> {
    release.map(str::parse).transpose().map_err(|cause| {
        Failure::usage(format_args!("--release {}: {cause}", release.unwrap_or_default()), "give one as 4.1")
    })
}

/// The node as it is now, by the journal.
fn now(journal: &Journal) -> Result<(Node, Layout, Asked), Failure> {
    let node = layout::read_node(&journal.to).map_err(first)?;
    let asked = Asked { release: parse(journal.release.as_deref())?, cluster_id: Some(journal.cluster_id.clone()) };
    let layout = Layout::look(&node, &asked);
    Ok((node, layout, asked))
}

fn first(problems: Vec<Problem>) -> Failure {
    let problem = problems.into_iter().next();
    problem.map_or_else(|| Failure::new("the node", "it cannot be read", "look at its properties"), Failure::from)
}

/// A cluster id that nobody has.
#[must_use]
pub fn new_cluster_id() -> String {
    random::uuid().to_string()
}

/// Makes a log directory that is not there.
///
/// # Errors
/// As the file system says.
pub fn make_dir(path: &Path) -> Result<(), Failure> {
    identity::make_folder(path).map_err(|cause| {
        Failure::new(
            format_args!("the log directory {} cannot be made", path.display()),
            cause,
            "make it for the broker's user",
        )
    })
}

/// Refuses a node that a broker was started on meanwhile.
///
/// # Errors
/// That it was, or cannot be told.
pub fn not_started(journal: &Journal, state: &Path) -> Result<(), Failure> {
    if journal.anew && anew::is_as_it_was(journal, state)? {
        return Ok(());
    }
    let node = layout::read_node(&journal.to).map_err(first)?;
    Ok(layout::not_started(&node)?)
}

/// Refuses a node whose properties are not those any more with which the hand-over began: which partition goes where was decided by them.
///
/// # Errors
/// Which setting is another one.
pub fn is_same(journal: &Journal) -> Result<(), Failure> {
    let node = layout::read_node(&journal.to).map_err(first)?;
    let wanted = |what: &str, now: String, begun: String| {
        Err(Failure::new(
            format_args!("{what} in {} is {now}", journal.to.display()),
            format_args!("it was {begun} when the hand-over began, and all that was done goes by that"),
            "set it as it was, then run the same command again",
        ))
    };
    let listed = |dirs: &[PathBuf]| dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(",");
    if node.id != journal.node_id {
        return wanted("node.id", node.id.to_string(), journal.node_id.to_string());
    }
    if node.log_dirs != journal.log_dirs {
        return wanted("log.dirs", listed(&node.log_dirs), listed(&journal.log_dirs));
    }
    if node.metadata_log_dir != journal.metadata_log_dir {
        let dir = |dir: &Path| dir.display().to_string();
        return wanted("metadata.log.dir", dir(&node.metadata_log_dir), dir(&journal.metadata_log_dir));
    }
    Ok(())
}

/// Refuses a node that cannot be laid out, or that somebody gave other partitions meanwhile: its metadata begins with ours alone, so that they
/// would go stray.
fn fits(journal: &Journal, layout: &Layout) -> Result<(), Failure> {
    if let Some(problem) = layout.problems.first() {
        return Err(problem.clone().into());
    }
    let of = |topic: &Topic| {
        let partitions = topic.partitions.iter().map(|partition| partition.partition);
        partitions.map(|index| names::partition_dir(&topic.topic, index)).collect::<Vec<_>>()
    };
    let ours = journal.topics.iter().flat_map(of).collect();
    layout.foreign_partitions(&ours).into_iter().next().map_or(Ok(()), |problem| Err(problem.into()))
}

/// Whether a broker called partition directories stray: those of topics that it does not know.
#[must_use]
pub fn has_strays(log_dirs: &[PathBuf]) -> bool {
    let entries = log_dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.any(|name| names::parse_partition_dir(&name).is_some_and(|found| found.dir_use == names::DirUse::Stray))
}

/// Gives the node its identity, where it has none, and lays it out anew when it had another life. What it was is kept in `state`.
///
/// # Errors
/// When something of it keeps it from being laid out, or a file cannot be written.
pub fn lay_out(journal: &Journal, state: &Path) -> Result<(), Failure> {
    let (node, layout, _) = now(journal)?;
    fits(journal, &layout)?;
    if journal.anew {
        anew::lay_out(journal, state, &node)?;
    }
    let (node, layout, asked) = now(journal)?;
    fits(journal, &layout)?;
    identity::format(&node, &layout, &asked)?;
    Ok(())
}

/// Writes what the node's metadata begins with; gives how many records it has. What the format tool wrote is kept in `state`.
///
/// # Errors
/// When something keeps the node from being laid out, or the file cannot be written.
pub fn identify(journal: &Journal, state: &Path) -> Result<usize, Failure> {
    let (node, layout, _) = now(journal)?;
    fits(journal, &layout)?;
    let former = if journal.anew { anew::former(journal, state)? } else { None };
    let given_out = former.map_or(0, |former| former.next_producer_id);
    let identity = Identity {
        next_producer_id: journal.next_producer_id.max(given_out),
        topics: journal.topics.iter().map(|topic| self::topic(journal, topic)).collect(),
        quotas: journal.quotas.iter().map(ClientQuotaRecord::from).collect(),
        acls: journal.acls.iter().map(binding).collect::<Result<_, _>>()?,
        ..Identity::default()
    };
    let file = identity::build(&node, &layout, &identity, now_ms(), random::uuid)?;
    identity::write(&file, &keep(journal, state))?;
    Ok(file.records)
}

fn topic(journal: &Journal, topic: &Topic) -> IdentityTopic {
    let partition = |partition: &journal::Partition| IdentityPartition {
        index: partition.partition,
        leader_epoch: partition.epoch_max.max(0).saturating_add(EPOCH_MARGIN),
        directory: journal.log_dirs[partition.to].clone(),
    };
    IdentityTopic {
        name: topic.topic.clone(),
        id: topic.topic_id.parse().unwrap_or_default(),
        configs: topic.all_configs(),
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn binding(acl: &Acl) -> Result<AclBinding, Failure> {
    let codes = Codes {
        resource_type: acl.resource_type,
        pattern_type: acl.pattern_type,
        operation: acl.operation,
        permission: acl.permission_type,
    };
    AclBinding::from_codes(codes, &acl.resource_name, &acl.principal, &acl.host)
        .map_err(|bad| Failure::new("an access rule of the journal is none", bad, "take everything back with --undo"))
}

/// Where the format tool's file is kept.
fn keep(journal: &Journal, state: &Path) -> PathBuf {
    state.join(journal::FOLDER).join(format!("{}-format.checkpoint", journal.mirror))
}

/// Takes back what [`lay_out`] and [`identify`] did.
///
/// # Errors
/// When a file cannot be written or removed.
pub fn forget(journal: &Journal, state: &Path) -> Result<(), Failure> {
    if journal.anew {
        return anew::put_back(journal, state);
    }
    let (node, layout, _) = now(journal)?;
    let file = match layout.bootstrap {
        Some(bootstrap) => bootstrap.file,
        None => node.metadata_log_dir.join(twinlog_proto::storage::kraft::BOOTSTRAP_CHECKPOINT),
    };
    let made: Vec<PathBuf> = journal.unformatted.iter().map(|dir| dir.join(names::META_PROPERTIES)).collect();
    Ok(identity::undo(&file, &keep(journal, state), &made)?)
}

/// Says to the broker that everything in these directories is as it should be. The last thing of all.
///
/// # Errors
/// As the file system says.
pub fn mark_clean(log_dirs: &[PathBuf]) -> Result<(), Failure> {
    let mark = |dir: &PathBuf| {
        identity::replace_public(&dir.join(names::CLEAN_SHUTDOWN), clean_shutdown::to_text(None).as_bytes())
    };
    log_dirs.iter().try_for_each(mark).map_err(|cause| {
        Failure::new("the clean marker cannot be written", cause, "mend it, then run the same command again")
    })
}

/// Whether the marker is there: a broker takes it away as soon as it loads its logs.
#[must_use]
pub fn is_marked_clean(log_dir: &Path) -> bool {
    log_dir.join(names::CLEAN_SHUTDOWN).exists()
}

/// Takes the markers away.
///
/// # Errors
/// As the file system says.
pub fn unmark_clean(log_dirs: &[PathBuf]) -> Result<(), Failure> {
    let unmark = |dir: &PathBuf| match fs::remove_file(dir.join(names::CLEAN_SHUTDOWN)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| files::sync_folder(dir)),
    };
    log_dirs.iter().try_for_each(unmark).map_err(|cause| {
        Failure::new("the clean marker cannot be removed", cause, "mend it, then run the same command again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::preflight::Mode;
    use std::collections::BTreeMap;

    fn text(folder: &Path, id: i32, log_dirs: &str) -> String {
        let dirs: Vec<String> = log_dirs.split(',').map(|dir| folder.join(dir).display().to_string()).collect();
        format!(
            "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={id}@127.0.0.1:9093\n\
             listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n\
             log.dirs={}\n",
            dirs.join(",")
        )
    }

    fn journal(folder: &Path) -> Journal {
        let mut journal = Journal::begin("dr", Mode::Planned, 0);
        (journal.to, journal.node_id) = (folder.join("server.properties"), 1);
        journal.log_dirs = ["a", "b"].map(|dir| folder.join(dir)).to_vec();
        journal.metadata_log_dir = folder.join("a");
        journal.cluster_id = new_cluster_id();
        let partition = journal::Partition {
            partition: 0,
            from: "/data".into(),
            to: 1,
            log_start_offset: 0,
            last_mirrored_offset: 0,
            last_mirror_epoch: -1,
            epoch_max: -1,
            end_offset: None,
            samples: Vec::new(),
            segments: Vec::new(),
        };
        journal.topics = vec![Topic {
            topic: "orders".into(),
            topic_id: random::uuid().to_string(),
            flowed: true,
            configs: BTreeMap::new(),
            carried: BTreeMap::new(),
            partitions: vec![partition],
        }];
        fs::write(&journal.to, text(folder, 1, "a,b")).unwrap();
        journal
    }

    #[test]
    fn a_node_whose_properties_were_changed_since_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path());
        is_same(&journal).unwrap();
        let more = format!("{}metadata.log.dir={}\n", text(folder.path(), 1, "a,b"), folder.path().join("m").display());
        for (properties, sign) in [
            (text(folder.path(), 2, "a,b"), "node.id"),
            (text(folder.path(), 1, "b,a"), "log.dirs"),
            (text(folder.path(), 1, "a,b,c"), "log.dirs"),
            (more, "metadata.log.dir"),
        ] {
            fs::write(&journal.to, properties).unwrap();
            let refused = is_same(&journal).unwrap_err().to_string();
            assert!(refused.contains(sign), "{refused}");
        }
    }

    /// Two mirrors into one node: the second one's topics would go stray, for metadata begins with those of the first alone.
    #[test]
    fn a_node_that_took_other_partitions_meanwhile_is_refused_and_its_own_are_none_of_these() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path());
        fs::create_dir_all(folder.path().join("b/orders-0")).unwrap();
        lay_out(&journal, Path::new("/nowhere")).unwrap();
        fs::create_dir_all(folder.path().join("a/others-0")).unwrap();
        assert!(lay_out(&journal, Path::new("/nowhere")).unwrap_err().to_string().contains("others-0"));
        assert!(identify(&journal, folder.path()).unwrap_err().to_string().contains("others-0"));
        fs::remove_dir(folder.path().join("a/others-0")).unwrap();
        journal::make_folder(folder.path()).unwrap();
        identify(&journal, folder.path()).unwrap();
    }
}
