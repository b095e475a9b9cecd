//! pure: the file that a node's metadata begins with, and what is in it.
//!
//! Up to 4.3 it is `bootstrap.checkpoint`; a snapshot of the empty metadata log beside it holds the voters of a dynamic quorum and nothing
//! else. From 4.4 on it is that snapshot, and then the older file is not looked at by the node.

use super::Files;
use crate::handover::node::{Node, Quorum};
use crate::handover::problem::Problem;
use crate::handover::release::Release;
use std::path::{Path, PathBuf};
use twinlog_proto::ids::Uuid;
use twinlog_proto::storage::kraft::records::{METADATA_VERSION, MetadataRecord};
use twinlog_proto::storage::kraft::snapshot::Snapshot;

/// Level of metadata.version from which on a partition says in which directory it lies (3.7-IV2): a node without that cannot be laid out.
const LEVEL_MIN: i16 = 17;
const ANEW: &str = "format an empty directory with the kafka-storage of the node's release";

/// What the node's metadata begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Bootstrap {
    /// The file that records are added to.
    pub file: PathBuf,
    /// What `kafka-storage format` wrote into it, without what we added; none when the tool was not used.
    pub formatted: Option<Snapshot>,
    /// Level of metadata.version.
    pub level: i16,
    /// The release that has this level.
    pub release: Release,
    /// Records of an earlier attempt of ours that are in the file.
    pub added: usize,
    /// The file with the voters beside it, when there is to be one and is none yet.
    pub voters: Option<(PathBuf, Snapshot)>,
}

impl Bootstrap {
    /// The same, unless another release was asked for.
    ///
    /// # Errors
    /// That it was.
    pub(super) fn fits(self, asked: Option<Release>) -> Result<Self, Problem> {
        release(&self.file, self.level, asked)?;
        Ok(self)
    }
}

/// Judges what was found in the metadata log directory, whose id is `directory` when it is formatted.
pub(super) fn judge(
    node: &Node,
    asked: Option<Release>,
    directory: Option<Uuid>,
    files: Files,
) -> Result<Bootstrap, Problem> {
    let Files { first, first_bytes, legacy, legacy_bytes } = files;
    let first_snapshot = read(&first, first_bytes.as_deref())?;
    let legacy_snapshot = read(&legacy, legacy_bytes.as_deref())?;
    let dynamic = node.quorum == Quorum::Dynamic;
    if directory.is_none()
        && let Some(path) = first_snapshot.is_some().then_some(&first).or(legacy_snapshot.is_some().then_some(&legacy))
    {
        return Err(Problem::new(path.display(), "its directory has no meta.properties", ANEW));
    }
    if dynamic {
        check_voters(node, &first, first_snapshot.as_ref(), directory)?;
    }
    let (file, found) = match (first_snapshot, legacy_snapshot) {
        (Some(snapshot), _) if !snapshot.is_empty() => (first, snapshot),
        (_, Some(snapshot)) => (legacy, snapshot),
        (Some(_), None) => return Err(Problem::new(first.display(), "it has no feature levels", ANEW)),
        // A node that nobody formatted, or that we formatted in an earlier attempt.
        (None, None) => {
            let release = asked.unwrap_or_default();
            let level = release.levels()[0].1;
            return Ok(Bootstrap { file: legacy, formatted: None, level, release, added: 0, voters: None });
        }
    };
    let contents = contents(&file, &found)?;
    let release = release(&file, contents.level, asked)?;
    let mut formatted = found;
    formatted.truncate(contents.formatted);
    Ok(Bootstrap {
        file,
        formatted: Some(formatted),
        level: contents.level,
        release,
        added: contents.added,
        voters: None,
    })
}

fn read(path: &Path, bytes: Option<&[u8]>) -> Result<Option<Snapshot>, Problem> {
    let snapshot = bytes.map(Snapshot::read).transpose();
    snapshot.map_err(|cause| Problem::new(path.display(), cause, ANEW))
}

/// A dynamic quorum must know the node as its only voter, by the id of its directory: it would wait for others for ever.
fn check_voters(node: &Node, path: &Path, found: Option<&Snapshot>, directory: Option<Uuid>) -> Result<(), Problem> {
    const REMEDY: &str =
        "format an empty directory with `kafka-storage format --standalone`, or set controller.quorum.voters";
    let wrong = |why: String| Err(Problem::new(path.display(), why, REMEDY));
    let Some(voters) = found.and_then(Snapshot::voters) else {
        let properties = node.properties.display();
        return wrong(format!("it has no voters, and {properties} has no controller.quorum.voters"));
    };
    match &voters.voters[..] {
        [only] if only.voter_id == node.id && Some(only.voter_directory_id) == directory => Ok(()),
        [only] if only.voter_id == node.id => {
            wrong(format!("its voter is of the directory {}, not of this one", only.voter_directory_id))
        }
        all => {
            let ids: Vec<_> = all.iter().map(|voter| voter.voter_id.to_string()).collect();
            wrong(format!("its voters are the nodes {}, and not node {} alone", ids.join(", "), node.id))
        }
    }
}

/// What is in a file: the tool's records, then ours.
struct Contents {
    formatted: usize,
    added: usize,
    level: i16,
}

fn contents(path: &Path, snapshot: &Snapshot) -> Result<Contents, Problem> {
    let (mut formatted, mut level) = (0, None);
    for value in snapshot.values() {
        match MetadataRecord::decode(value).map_err(|cause| Problem::new(path.display(), cause, ANEW))? {
            MetadataRecord::ProducerIds(_) => break,
            MetadataRecord::Topic(topic) => {
                return Err(Problem::new(path.display(), format_args!("it has the topic {}", topic.name), ANEW));
            }
            MetadataRecord::FeatureLevel(feature) if feature.name == METADATA_VERSION => {
                level = Some(feature.feature_level);
            }
            _ => {}
        }
        formatted += 1;
    }
    let level = level.ok_or_else(|| Problem::new(path.display(), "it has no metadata.version", ANEW))?;
    Ok(Contents { formatted, added: snapshot.len() - formatted, level })
}

fn release(path: &Path, level: i16, asked: Option<Release>) -> Result<Release, Problem> {
    let wrong = |why: String, remedy: &str| Err(Problem::new(path.display(), why, remedy));
    if level < LEVEL_MIN {
        return wrong(format!("metadata.version {level} is older than 3.7-IV2"), ANEW);
    }
    match (Release::of_level(level), asked) {
        (None, _) => {
            let remedy = "format an empty directory with --release-version of 4.4 or older";
            wrong(format!("metadata.version {level} is newer than 4.4"), remedy)
        }
        (Some(found), Some(asked)) if found != asked => {
            let why = format!("it was formatted for {found} (metadata.version {level}), not for {asked}");
            wrong(why, "leave --release out")
        }
        (Some(found), _) => Ok(found),
    }
}
