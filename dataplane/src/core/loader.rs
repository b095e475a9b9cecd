//! Reads assignment files on a plain thread and hands them to the cores: no core waits for a file or decodes for another.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::mpsc::UnboundedSender;
use twinlog_proto::assignment::{self, FOLDER, SUFFIX};
use twinlog_proto::channel::progress::mirror_identity;
use twinlog_proto::messages::assignment::Assignment;

/// What a core gets from outside, apart from orders.
#[derive(Debug)]
pub enum Mail {
    /// An assignment, newer or the same as before.
    Assignment(Arc<Assignment>),
    /// The assignment of this mirror cannot be read.
    Unreadable {
        /// `mirror_identity` of its name.
        mirror: u64,
    },
    /// There is no assignment of this mirror any more.
    Gone {
        /// `mirror_identity` of its name.
        mirror: u64,
    },
    /// Finish and end.
    Stop,
}

/// What a core asks for.
#[derive(Debug)]
enum Ask {
    /// Everything that there is.
    All { core: usize },
    /// The file of one mirror, at this version or a newer one.
    One { core: usize, mirror: u64, version: u64 },
}

/// A core's way to ask. The thread ends when all of these are gone.
#[derive(Debug, Clone)]
pub struct Asker {
    core: usize,
    asks: Sender<Ask>,
}

impl Asker {
    /// Asks for all assignments.
    pub fn all(&self) {
        self.send(Ask::All { core: self.core });
    }

    /// Asks for the assignment of one mirror, which is `version` or newer now.
    pub fn one(&self, mirror: u64, version: u64) {
        self.send(Ask::One { core: self.core, mirror, version });
    }

    fn send(&self, ask: Ask) {
        if self.asks.send(ask).is_err() {
            tracing::error!("the thread that reads assignments is gone; assignments stay as they are");
        }
    }
}

/// Starts the thread; gives an asker for each core.
///
/// # Errors
/// The system has no thread left.
pub fn start(state: &Path, cores: Vec<UnboundedSender<Mail>>) -> io::Result<(JoinHandle<()>, Vec<Asker>)> {
    let (asks, inbox) = channel();
    let askers = (0..cores.len()).map(|core| Asker { core, asks: asks.clone() }).collect();
    let mut loader = Loader { folder: state.join(FOLDER), cores, known: HashMap::new() };
    let thread = std::thread::Builder::new().name("assignments".to_owned()).spawn(move || loader.run(&inbox))?;
    Ok((thread, askers))
}

struct Loader {
    folder: PathBuf,
    cores: Vec<UnboundedSender<Mail>>,
    known: HashMap<u64, Arc<Assignment>>,
}

impl Loader {
    fn run(&mut self, inbox: &Receiver<Ask>) {
        while let Ok(ask) = inbox.recv() {
            match ask {
                Ask::All { core } => {
                    for (mirror, path) in self.files().unwrap_or_default() {
                        self.hand_out(core, mirror, &path, 0);
                    }
                }
                Ask::One { core, mirror, version } => match self.files().map(|mut files| files.remove(&mirror)) {
                    Some(Some(path)) => self.hand_out(core, mirror, &path, version),
                    Some(None) => self.mail(core, Mail::Gone { mirror }),
                    None => self.mail(core, Mail::Unreadable { mirror }),
                },
            }
        }
    }

    /// The assignment files that there are, by the identity of their mirrors; `None` when they cannot be listed, which says
    /// nothing about whether one is gone.
    fn files(&self) -> Option<HashMap<u64, PathBuf>> {
        match list(&self.folder) {
            Ok(files) => Some(files),
            Err(error) => {
                let folder = self.folder.display();
                tracing::error!(%folder, "assignments cannot be listed; what was assigned before stays: {error}");
                None
            }
        }
    }

    fn hand_out(&mut self, core: usize, mirror: u64, path: &Path, version: u64) {
        // Several cores ask for the same file; one reading will do when it is new enough for all.
        let known =
            self.known.get(&mirror).filter(|known| version > 0 && known.assignment_version.cast_unsigned() >= version);
        if let Some(known) = known.cloned() {
            return self.mail(core, Mail::Assignment(known));
        }
        match read(path) {
            Ok(assignment) if mirror_identity(&assignment.mirror_name) == mirror => {
                let assignment = Arc::new(assignment);
                self.known.insert(mirror, Arc::clone(&assignment));
                self.mail(core, Mail::Assignment(assignment));
            }
            Ok(assignment) => {
                let (name, file) = (assignment.mirror_name, path.display());
                tracing::error!(%file, name, "an assignment belongs to another mirror than its file name says");
                self.mail(core, Mail::Unreadable { mirror });
            }
            Err(why) => {
                tracing::error!(file = %path.display(), "an assignment cannot be used; what was assigned before stays: {why}");
                self.mail(core, Mail::Unreadable { mirror });
            }
        }
    }

    fn mail(&self, core: usize, mail: Mail) {
        // A core that has ended needs none.
        self.cores[core].send(mail).ok();
    }
}

fn list(folder: &Path) -> io::Result<HashMap<u64, PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        entries => entries?,
    };
    let mut files = HashMap::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX)) {
            files.insert(mirror_identity(name), path);
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Assignment, Box<dyn std::error::Error>> {
    Ok(assignment::decode(&std::fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn assignments_that_cannot_be_listed_are_not_taken_for_gone() {
        let state = tempfile::tempdir().unwrap();
        let (core, mut mail) = unbounded_channel();
        let (thread, askers) = start(state.path(), vec![core]).unwrap();
        let mirror = mirror_identity("m");
        askers[0].one(mirror, 1);
        assert!(
            matches!(mail.blocking_recv(), Some(Mail::Gone { mirror: gone }) if gone == mirror),
            "no folder, no mirror"
        );
        std::fs::write(state.path().join(FOLDER), "not a folder").unwrap();
        askers[0].one(mirror, 2);
        assert!(matches!(mail.blocking_recv(), Some(Mail::Unreadable { mirror: bad }) if bad == mirror));
        drop(askers);
        thread.join().unwrap();
    }
}
