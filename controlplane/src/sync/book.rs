//! What syncs remember while the process runs: their status, and who is at work. Never written anywhere.

use crate::follow::rounds::Rounds;
use crate::sync::status::Statuses;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Offsets that were seen at the destination and are ours, by group, topic and partition.
pub type LastWritten = BTreeMap<String, BTreeMap<(String, i32), i64>>;

/// What one mirror's syncs know from run to run; whoever holds the lock is at work.
#[derive(Debug, Default)]
pub struct Memory {
    /// See [`LastWritten`].
    pub offsets: LastWritten,
}

/// The book.
#[derive(Debug, Default)]
pub struct Book {
    statuses: RefCell<Statuses>,
    mirrors: RefCell<BTreeMap<String, Arc<Mutex<Memory>>>>,
    rounds: Rounds,
}

impl Book {
    /// Lets `look` read the statuses.
    pub fn read<R>(&self, look: impl FnOnce(&Statuses) -> R) -> R {
        look(&self.statuses.borrow())
    }

    /// Lets `change` write the statuses.
    pub fn write<R>(&self, change: impl FnOnce(&mut Statuses) -> R) -> R {
        change(&mut self.statuses.borrow_mut())
    }

    /// What is remembered of the sources.
    #[must_use]
    pub fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// The memory of a mirror.
    #[must_use]
    pub fn memory(&self, mirror: &str) -> Arc<Mutex<Memory>> {
        Arc::clone(self.mirrors.borrow_mut().entry(mirror.to_owned()).or_default())
    }

    /// Forgets mirrors that are not there any more.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.statuses.borrow_mut().retain(&exists);
        self.mirrors.borrow_mut().retain(|mirror, _| exists(mirror));
    }
}
