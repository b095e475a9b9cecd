//! A node that was promoted into before, or was a source once, and has no topic left: its metadata is laid out anew. What it was is kept in
//! STATE first, so that all of it can be put back until a broker is started.
//!
//! Whatever is kept of it is read from what lies in STATE, so that whoever was killed in the middle begins again with the same.

use crate::failure::Failure;
use crate::files;
use crate::handover::identity;
use crate::handover::journal::{self, Journal};
use crate::handover::layout::{self, Former};
use crate::handover::node::Node;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use twinlog_proto::storage::kraft::{BOOTSTRAP_CHECKPOINT, METADATA_LOG};

/// Where the metadata of the node is kept that this hand-over lays out anew.
#[must_use]
pub fn aside(journal: &Journal, state: &Path) -> PathBuf {
    state.join(journal::FOLDER).join(format!("{}-metadata-{}", journal.mirror, journal.begun_at_ms))
}

/// Keeps the metadata of the node and writes in its place what it begins with: what it held besides topics.
///
/// # Errors
/// When a file cannot be read or written; doing it again goes on.
pub fn lay_out(journal: &Journal, state: &Path, node: &Node) -> Result<(), Failure> {
    let aside = aside(journal, state);
    let from = &node.metadata_log_dir;
    if !aside.is_dir() {
        keep(from, &aside).map_err(|cause| failed("kept", &aside, &cause))?;
    }
    let former = layout::former(&aside.join(METADATA_LOG))?.unwrap_or_default();
    let bootstrap = layout::begin_anew(&former, node)?;
    clear(from).map_err(|cause| failed("taken away", from, &cause))?;
    let voters = bootstrap.voters.iter().map(|(path, snapshot)| (path, snapshot.write()));
    let records = bootstrap.formatted.iter().map(|snapshot| (&bootstrap.file, snapshot.write()));
    for (path, bytes) in voters.chain(records) {
        let folder = path.parent().unwrap_or(from);
        let written = identity::make_folder(folder).and_then(|()| identity::replace_private(path, &bytes));
        written.map_err(|cause| failed("written", path, &cause))?;
    }
    Ok(())
}

/// Puts the metadata back as it was.
///
/// # Errors
/// When a file cannot be read or written; doing it again goes on.
pub fn put_back(journal: &Journal, state: &Path) -> Result<(), Failure> {
    let (aside, to) = (aside(journal, state), &journal.metadata_log_dir);
    if !aside.is_dir() {
        return Ok(());
    }
    clear(to).map_err(|cause| failed("taken away", to, &cause))?;
    for path in listed(&aside).map_err(|cause| failed("read", &aside, &cause))? {
        let target = to.join(&path);
        let written = identity::make_folder(target.parent().unwrap_or(to))
            .and_then(|()| fs::read(aside.join(&path)))
            .and_then(|bytes| identity::replace_private(&target, &bytes));
        written.map_err(|cause| failed("put back", &target, &cause))?;
    }
    Ok(())
}

/// Whether the node's metadata is what it was when this hand-over began: nobody has started it since.
///
/// # Errors
/// When it cannot be read.
pub fn is_as_it_was(journal: &Journal, state: &Path) -> Result<bool, Failure> {
    let (aside, now) = (aside(journal, state), &journal.metadata_log_dir);
    if !aside.is_dir() {
        return Ok(true);
    }
    let sizes = |dir: &Path| -> io::Result<Vec<(PathBuf, u64)>> {
        listed(dir)?.into_iter().map(|path| Ok((path.clone(), fs::metadata(dir.join(path))?.len()))).collect()
    };
    // Whoever was killed while taking it away left a part of it.
    let same = sizes(&aside).and_then(|before| Ok(sizes(now)?.iter().all(|file| before.contains(file))));
    same.map_err(|cause| failed("read", now, &cause))
}

/// What the node knew, of what is kept.
///
/// # Errors
/// When it cannot be read.
pub fn former(journal: &Journal, state: &Path) -> Result<Option<Former>, Failure> {
    Ok(layout::former(&aside(journal, state).join(METADATA_LOG))?)
}

/// Copies the metadata, whole or not at all.
fn keep(from: &Path, aside: &Path) -> io::Result<()> {
    let half = aside.with_extension("half");
    if half.is_dir() {
        fs::remove_dir_all(&half)?;
    }
    fs::create_dir_all(half.join(METADATA_LOG))?;
    for path in listed(from)? {
        files::replace(&half.join(&path), &fs::read(from.join(&path))?)?;
    }
    fs::rename(&half, aside)?;
    files::sync_folder(aside.parent().unwrap_or(Path::new("/")))
}

/// The files of a node's metadata, by their place in the metadata log directory.
fn listed(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    match fs::read_dir(dir.join(METADATA_LOG)) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    all.push(Path::new(METADATA_LOG).join(entry.file_name()));
                }
            }
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => return Err(cause),
    }
    if dir.join(BOOTSTRAP_CHECKPOINT).exists() {
        all.push(PathBuf::from(BOOTSTRAP_CHECKPOINT));
    }
    all.sort();
    Ok(all)
}

/// Takes the metadata away.
fn clear(dir: &Path) -> io::Result<()> {
    let folder = dir.join(METADATA_LOG);
    if folder.is_dir() {
        fs::remove_dir_all(folder)?;
    }
    match fs::remove_file(dir.join(BOOTSTRAP_CHECKPOINT)) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    files::sync_folder(dir)
}

fn failed(what: &str, path: &Path, cause: &io::Error) -> Failure {
    Failure::new(
        format_args!("the node's metadata cannot be {what}: {}", path.display()),
        cause,
        "look for free space and rights, then run the same command again",
    )
}
