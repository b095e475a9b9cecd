//! Tells the data plane what should be: the assignment file first, then the order that says it is current.
//!
//! Orders state what should be, so all of them are sent again whenever a data plane attaches, and again when a ring was
//! full. A file that could not be written stays on the list; `again` is called at every look at the board.

use crate::files;
use crate::mirror::catalog::Catalog;
use crate::plane::assignments::assignment;
use crate::plane::attachment::Link;
use crate::steps::{self, Step};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tracing::{info, warn};
use twinlog_proto::assignment::{self, FOLDER, SUFFIX, file_name};
use twinlog_proto::channel::message::Order;
use twinlog_proto::channel::progress::mirror_identity;

/// The way to the data plane.
#[derive(Debug)]
pub struct Sender {
    folder: PathBuf,
    link: Rc<Link>,
    unwritten: RefCell<BTreeSet<String>>,
    trouble: RefCell<Option<String>>,
    announced_to: Cell<u64>,
    all_again: Cell<bool>,
}

impl Sender {
    /// A sender that writes below `state` and announces over `link`.
    #[must_use]
    pub fn new(state: &Path, link: Rc<Link>) -> Self {
        Self {
            folder: state.join(FOLDER),
            link,
            unwritten: RefCell::default(),
            trouble: RefCell::new(None),
            announced_to: Cell::new(0),
            all_again: Cell::new(true),
        }
    }

    /// Why an assignment could not be written; `None` when all are.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// An assignment that is newer than what a replayed log up to `next_offset` (exclusive) knows, with its version: proof that
    /// the log has lost what was durable before the assignment was written. Files that cannot be read prove nothing.
    #[must_use]
    pub fn newer_than(&self, catalog: &Catalog, next_offset: i64) -> Option<(PathBuf, i64)> {
        let files = std::fs::read_dir(&self.folder).ok()?;
        files.flatten().map(|file| file.path()).find_map(|path| {
            let mirror = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.to_owned();
            let found = assignment::decode(&std::fs::read(&path).ok()?).ok()?.assignment_version;
            // A deleted mirror's file may be left over; its version is still below the offsets that the log has seen.
            let newest = catalog.mirror(&mirror).map_or(next_offset - 1, |known| known.facts.assignment_version);
            (found > newest).then_some((path, found))
        })
    }

    /// Brings the folder in line with a replayed catalog: missing and outdated files are written, others removed. What does
    /// not fit on a full disk is written later, as while the process runs.
    ///
    /// # Errors
    /// When the folder cannot be made, read or written for another reason, with the path.
    pub fn restore(&self, catalog: &Catalog) -> io::Result<()> {
        let at = |path: &Path, cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
        std::fs::create_dir_all(&self.folder).map_err(|cause| at(&self.folder, cause))?;
        for entry in std::fs::read_dir(&self.folder).map_err(|cause| at(&self.folder, cause))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let known = name.strip_suffix(SUFFIX).and_then(|mirror| catalog.mirror(mirror));
            if known.is_none() {
                info!(file = %path.display(), "removed an assignment that belongs to no mirror");
                std::fs::remove_file(&path).map_err(|cause| at(&path, cause))?;
            }
        }
        for (name, mirror) in catalog.mirrors() {
            let bytes = assignment::encode(&assignment(name, mirror)).map_err(io::Error::other)?;
            let path = self.folder.join(file_name(name));
            if std::fs::read(&path).ok().as_ref() == Some(&bytes) {
                continue;
            }
            match files::replace(&path, &bytes) {
                Ok(()) => {}
                Err(cause) if matches!(cause.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                    self.put_off(name, &cause);
                }
                Err(cause) => return Err(at(&path, cause)),
            }
        }
        Ok(())
    }

    /// Writes the assignment of `mirror` and announces it.
    pub async fn send(&self, catalog: &Catalog, mirror: &str) {
        let Some(known) = catalog.shared_mirror(mirror) else { return };
        let version = known.facts.assignment_version;
        let (name, path) = (mirror.to_owned(), self.folder.join(file_name(mirror)));
        let written = tokio::task::spawn_blocking(move || {
            let content = assignment(&name, &known);
            files::write_aside(&path, &assignment::encode(&content).map_err(io::Error::other)?)?;
            steps::passed(Step::AssignmentAside);
            files::put_in_place(&path, Step::AssignmentRenamed)
        });
        match written.await.map_err(io::Error::other).and_then(|result| result) {
            Ok(()) => {
                self.unwritten.borrow_mut().remove(mirror);
                steps::passed(Step::AssignmentDurable);
                self.announce(mirror, version);
                steps::passed(Step::OrderSent);
            }
            Err(cause) => self.put_off(mirror, &cause),
        }
        if self.unwritten.borrow().is_empty() {
            *self.trouble.borrow_mut() = None;
        }
    }

    fn put_off(&self, mirror: &str, cause: &io::Error) {
        let remedy = files::remedy(cause);
        // It is tried again many times a second, and said once.
        if self.unwritten.borrow_mut().insert(mirror.to_owned()) {
            warn!(mirror, %cause, "an assignment cannot be written; {remedy}");
        }
        // Shown to everybody who may describe the node, who may not know of the mirror: the log names it.
        let text = format!("the assignment of a mirror cannot be written: {cause}; {remedy}");
        *self.trouble.borrow_mut() = Some(text);
    }

    /// Takes the assignment of a deleted mirror away and says so.
    pub async fn remove(&self, mirror: &str) {
        self.unwritten.borrow_mut().remove(mirror);
        let (path, folder) = (self.folder.join(file_name(mirror)), self.folder.clone());
        let removed = tokio::task::spawn_blocking(move || match std::fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
            _ => files::sync_folder(&folder),
        });
        if let Err(cause) = removed.await.map_err(io::Error::other).and_then(|result| result) {
            warn!(mirror, %cause, "the assignment of a deleted mirror stays until the next start");
        }
        steps::passed(Step::AssignmentGone);
        if !self.link.announce(&Order::AssignmentRemoved { mirror: mirror_identity(mirror) }) {
            self.all_again.set(true);
        }
        steps::passed(Step::RemovalSent);
    }

    /// Does again what did not succeed, and tells a data plane that has just attached everything.
    pub async fn again(&self, catalog: &Catalog) {
        let unwritten: Vec<String> = self.unwritten.borrow().iter().cloned().collect();
        for mirror in unwritten {
            self.send(catalog, &mirror).await;
        }
        let arrivals = self.link.arrivals();
        let fresh = self.announced_to.replace(arrivals) != arrivals;
        if fresh || self.all_again.replace(false) {
            for (name, mirror) in catalog.mirrors() {
                self.announce(name, mirror.facts.assignment_version);
            }
        }
    }

    fn announce(&self, mirror: &str, version: i64) {
        let order = Order::AssignmentCurrent { mirror: mirror_identity(mirror), version: version.cast_unsigned() };
        if !self.link.announce(&order) {
            self.all_again.set(true);
        }
    }
}
