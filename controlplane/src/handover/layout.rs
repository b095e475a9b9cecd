//! What lies in the log directories of a node before topics are handed over to it. Looks only; `identity.rs` writes.
//!
//! The records that `kafka-storage format` wrote are told from ours by the first record of producer ids, which the tool never writes and
//! ours begin with. So an earlier attempt is known by the file itself, and the same attempt again ends with the same file.

mod bootstrap;
mod former;
mod used;

pub use bootstrap::Bootstrap;
pub use former::Former;

use crate::clock::now_ms;
use crate::handover::node::Node;
use crate::handover::problem::Problem;
use crate::handover::release::Release;
use crate::limits::METADATA_SNAPSHOT_BYTES_MAX;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::kraft::{BOOTSTRAP_CHECKPOINT, FIRST_SNAPSHOT, METADATA_LOG};
use twinlog_proto::storage::meta_properties::MetaProperties;
use twinlog_proto::storage::names;

/// Refuses a node that was started: its metadata log has records then.
///
/// # Errors
/// That it was, or cannot be told.
pub fn not_started(node: &Node) -> Result<(), Problem> {
    let folder = node.metadata_log_dir.join(METADATA_LOG);
    used::read(&folder)?.map_or(Ok(()), |former| Err(former::of_its_own(&folder, &former)))
}

/// What the metadata log in `folder` held; none when the node was never started.
///
/// # Errors
/// When it cannot be read to its end.
pub fn former(folder: &Path) -> Result<Option<Former>, Problem> {
    used::read(folder)
}

/// What the metadata of `node` begins with when it is laid out anew, after what it held before.
///
/// # Errors
/// When the node cannot be: it was one of several, say.
pub fn begin_anew(former: &Former, node: &Node) -> Result<Bootstrap, Problem> {
    let (meta, _) = look_at(&node.metadata_log_dir)?;
    former.bootstrap(node, meta.and_then(|meta| meta.directory_id), now_ms())
}

/// What a person asked for on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// The release whose levels a new node begins with; one that is formatted must fit.
    pub release: Option<Release>,
    /// The cluster id of a new node; one that is formatted must have it.
    pub cluster_id: Option<String>,
}

/// The node's directories as they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Each directory that has or needs a `meta.properties`: the log directories in their order, then that of the metadata log when it is
    /// another.
    pub directories: Vec<Directory>,
    /// The cluster; none while no directory is formatted.
    pub cluster_id: Option<String>,
    /// The file that the node's metadata begins with; none when a problem says why.
    pub bootstrap: Option<Bootstrap>,
    /// What its metadata held when it was last stopped: it is to be laid out anew. None when it was never started.
    pub former: Option<Former>,
    /// Everything that keeps the node from being laid out.
    pub problems: Vec<Problem>,
}

/// A directory of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// Its id; none while it is not formatted.
    pub id: Option<Uuid>,
    /// Partition directories in it, by name, those included that are going away or stray.
    pub partitions: Vec<String>,
}

impl Layout {
    /// Looks at all directories of the node.
    #[must_use]
    pub fn look(node: &Node, asked: &Asked) -> Self {
        let mut problems = Vec::new();
        let mut metas = Vec::new();
        let mut directories = Vec::new();
        for path in node.directories() {
            let found = look_at(path).unwrap_or_else(|problem| {
                problems.push(problem);
                (None, Vec::new())
            });
            directories.push(Directory {
                path: path.to_owned(),
                id: found.0.as_ref().and_then(|meta| meta.directory_id),
                partitions: found.1,
            });
            metas.extend(found.0.map(|meta| (path, meta)));
        }
        problems.extend(disagreements(node, asked, &metas));
        let cluster_id = metas.first().map(|(_, meta)| meta.cluster_id.clone());
        let own = directories.iter().find(|directory| directory.path == node.metadata_log_dir);
        let own = own.and_then(|directory| directory.id);
        let folder = node.metadata_log_dir.join(METADATA_LOG);
        let former = used::read(&folder).map_err(|problem| problems.push(problem)).ok().flatten();
        if let Some(former) = former.as_ref().filter(|_| directories.iter().any(|dir| !dir.partitions.is_empty())) {
            problems.push(former::of_its_own(&folder, former));
        }
        let bootstrap = match &former {
            Some(former) => former.bootstrap(node, own, now_ms()).and_then(|found| found.fits(asked.release)),
            None => files(&node.metadata_log_dir).and_then(|files| bootstrap::judge(node, asked.release, own, files)),
        };
        let bootstrap = bootstrap.map_err(|problem| problems.push(problem)).ok();
        Self { directories, cluster_id, bootstrap, former, problems }
    }

    /// Whether every directory has its `meta.properties`.
    #[must_use]
    pub fn is_formatted(&self) -> bool {
        self.directories.iter().all(|directory| directory.id.is_some())
    }

    /// The id of a directory; none when it is none of the node's, or not formatted.
    #[must_use]
    pub fn directory_id(&self, path: &Path) -> Option<Uuid> {
        self.directories.iter().find(|directory| directory.path == path)?.id
    }

    /// A problem for each directory that holds partitions besides `expected` (names of partition directories): they would go stray when the
    /// node starts.
    #[must_use]
    pub fn foreign_partitions(&self, expected: &HashSet<String>) -> Vec<Problem> {
        const SHOWN_MAX: usize = 5;
        let mut problems = Vec::new();
        for directory in &self.directories {
            let foreign: Vec<_> =
                directory.partitions.iter().filter(|name| !expected.contains(*name)).map(String::as_str).collect();
            if foreign.is_empty() {
                continue;
            }
            let shown = foreign[..foreign.len().min(SHOWN_MAX)].join(", ");
            let more = match foreign.len() - foreign.len().min(SHOWN_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            problems.push(Problem::new(
                directory.path.display(),
                format_args!("it has partitions of its own: {shown}{more}"),
                "hand over to a node whose log.dirs are empty: what it knows of its own topics would be gone",
            ));
        }
        problems
    }
}

/// `meta.properties` and partition directories of one directory; nothing of one that does not exist.
fn look_at(path: &Path) -> Result<(Option<MetaProperties>, Vec<String>), Problem> {
    let meta_path = path.join(names::META_PROPERTIES);
    let meta = match read_bounded(&meta_path).map_err(|cause| unreadable(&meta_path, &cause))? {
        None => None,
        Some(bytes) => Some(MetaProperties::parse(&bytes).map_err(|cause| {
            Problem::new(
                meta_path.display(),
                cause,
                "format the directory anew with kafka-storage, or restore the file",
            )
        })?),
    };
    let partitions = partitions(path).map_err(|cause| unreadable(path, &cause))?;
    Ok((meta, partitions))
}

fn partitions(path: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != METADATA_LOG && names::parse_partition_dir(&name).is_some() && entry.file_type()?.is_dir() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Where the directories say something else than the node's settings, the command line, or each other.
fn disagreements(node: &Node, asked: &Asked, metas: &[(&Path, MetaProperties)]) -> Vec<Problem> {
    const ANEW: &str = "format the directory anew with kafka-storage, or give the server.properties that belongs to it";
    let mut problems = Vec::new();
    let mut ids = BTreeSet::new();
    for (path, meta) in metas {
        let file = path.join(names::META_PROPERTIES);
        let mut wrong = |why: &dyn std::fmt::Display, remedy: &str| {
            problems.push(Problem::new(file.display(), why, remedy));
        };
        if meta.node_id != node.id {
            wrong(
                &format_args!("node.id is {}, but {} says {}", meta.node_id, node.properties.display(), node.id),
                ANEW,
            );
        }
        if let Some((first, other)) = metas.first().filter(|(_, other)| other.cluster_id != meta.cluster_id) {
            let why =
                format_args!("cluster.id is {}, but {} has {}", meta.cluster_id, first.display(), other.cluster_id);
            wrong(&why, ANEW);
        }
        match meta.directory_id {
            None => wrong(&"directory.id is missing", "format the directory anew with kafka-storage of 4.0 or newer"),
            Some(id) if !ids.insert(id) => wrong(&format_args!("directory.id {id} is that of another directory"), ANEW),
            Some(_) => {}
        }
    }
    if let (Some(asked), Some((path, meta))) = (&asked.cluster_id, metas.first())
        && *asked != meta.cluster_id
    {
        problems.push(Problem::new(
            format_args!("--cluster-id {asked}"),
            format_args!("{} was formatted for cluster {}", path.display(), meta.cluster_id),
            "leave --cluster-id out",
        ));
    }
    if let Some(asked) = &asked.cluster_id
        && asked.parse::<Uuid>().is_err()
    {
        let remedy = "give one as `kafka-storage random-uuid` prints it, or leave it out for a new one";
        problems.push(Problem::new(
            format_args!("--cluster-id {asked}"),
            "it is no id of 22 base64url characters",
            remedy,
        ));
    }
    problems
}

/// The two files in which the records of a format may be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    first: PathBuf,
    first_bytes: Option<Vec<u8>>,
    legacy: PathBuf,
    legacy_bytes: Option<Vec<u8>>,
}

fn files(directory: &Path) -> Result<Files, Problem> {
    let first = directory.join(METADATA_LOG).join(FIRST_SNAPSHOT);
    let legacy = directory.join(BOOTSTRAP_CHECKPOINT);
    let first_bytes = read_bounded(&first).map_err(|cause| unreadable(&first, &cause))?;
    let legacy_bytes = read_bounded(&legacy).map_err(|cause| unreadable(&legacy, &cause))?;
    Ok(Files { first, first_bytes, legacy, legacy_bytes })
}

/// A file of at most [`METADATA_SNAPSHOT_BYTES_MAX`]; none when it does not exist.
fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(METADATA_SNAPSHOT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > METADATA_SNAPSHOT_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {METADATA_SNAPSHOT_BYTES_MAX} bytes")));
    }
    Ok(Some(bytes))
}

fn unreadable(path: &Path, cause: &io::Error) -> Problem {
    Problem::new(
        format_args!("{} cannot be read", path.display()),
        cause,
        "run this as the user of the broker, or as root",
    )
}

/// Reads the `server.properties` of a node.
///
/// # Errors
/// Everything that keeps the node from being laid out.
pub fn read_node(path: &Path) -> Result<Node, Vec<Problem>> {
    let remedy = "give the path of the node's server.properties";
    match read_bounded(path) {
        Ok(Some(bytes)) => Node::parse(path, &bytes),
        Ok(None) => Err(vec![Problem::new(path.display(), "there is no such file", remedy)]),
        Err(cause) => Err(vec![unreadable(path, &cause)]),
    }
}

#[cfg(test)]
pub(super) mod tests;
