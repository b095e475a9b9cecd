//! Where the folder of a drill may be: on the file system of the mirror's data, beside it, never in it.

use super::Asked;
use crate::failure::Failure;
use crate::handover::survey::device_of;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use twinlog_proto::assignment::Assignment;

/// A place.
#[derive(Debug)]
pub(super) struct Site {
    /// The folder in which that of the drill is made.
    pub(super) base: PathBuf,
    /// Owner and group of the mirror's data: links are theirs, so everything else is.
    pub(super) owner: (u32, u32),
}

/// Where this drill goes.
///
/// # Errors
/// Why it cannot be there, with the remedy.
pub(super) fn choose(assignment: &Assignment, asked: &Asked) -> Result<Site, Failure> {
    let partitions = assignment.topics.iter().flat_map(|topic| &topic.partitions);
    let data: BTreeSet<&Path> = partitions.map(|partition| Path::new(&partition.data_directory)).collect();
    let Some(first) = data.first() else {
        let remedy = "`twinlog topics start MIRROR --topic T` starts some";
        return Err(Failure::new("there is nothing to rehearse with", "the mirror has no partitions yet", remedy));
    };
    let base = base(first, asked)?;
    for own in data.iter().copied().chain([asked.state.as_path()]) {
        let own = real(own)?;
        if base.starts_with(&own) {
            return Err(refused(
                &base,
                format!("it is in {}, where only the mirror's files are", own.display()),
                "give another with --dir",
            ));
        }
    }
    let text = base.to_str().filter(|text| text.chars().all(|c| c.is_ascii_graphic() && !",\\".contains(c)));
    if text.is_none() {
        let why = "server.properties cannot name it: it has blanks, commas, backslashes or letters beyond ASCII";
        return Err(refused(&base, why.to_owned(), "give another with --dir"));
    }
    if !asked.copy {
        same_file_system(&base, &data, asked.dir.is_some())?;
    }
    let meta = fs::metadata(first).map_err(|cause| unseen(first, &cause))?;
    Ok(Site { base, owner: (meta.uid(), meta.gid()) })
}

/// The folder that was given, or the one that the data directory is in.
fn base(data: &Path, asked: &Asked) -> Result<PathBuf, Failure> {
    let base = match &asked.dir {
        Some(dir) => dir.clone(),
        None => real(data)?.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let base = real(&base)?;
    match base.is_dir() {
        true => Ok(base),
        false => Err(refused(&base, "it is no folder".to_owned(), "give a folder with --dir")),
    }
}

fn same_file_system(base: &Path, data: &BTreeSet<&Path>, is_given: bool) -> Result<(), Failure> {
    let own = device_of(base).map_err(|cause| unseen(base, &cause))?;
    for data in data {
        if device_of(data).map_err(|cause| unseen(data, &cause))? != own {
            let why = format!("{} is on another file system, so nothing of it can be linked", data.display());
            let remedy = match is_given {
                true => "give a folder on that file system with --dir, or copy everything with --copy",
                false => {
                    "give a folder on that file system with --dir (not in the data directory), or copy everything with --copy"
                }
            };
            return Err(refused(base, why, remedy));
        }
    }
    Ok(())
}

fn real(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|cause| unseen(path, &cause))
}

fn unseen(path: &Path, cause: &std::io::Error) -> Failure {
    let remedy =
        "give a folder that is there with --dir, and run this on the host of `twinlog up`, as its user or as root";
    Failure::new(format_args!("{} cannot be looked at", path.display()), cause, remedy)
}

fn refused(base: &Path, why: String, remedy: &str) -> Failure {
    Failure::new(format_args!("no drill is made in {}", base.display()), why, remedy)
}
