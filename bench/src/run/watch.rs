//! Looks at the data plane's board as an observer.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use twinlog_proto::channel::attach::{AttachError, Observer, SOCKET_NAME, attach_observer};
use twinlog_proto::channel::board::Seen;
use twinlog_proto::channel::progress::{PartitionProgress, SlotState, identity};
use twinlog_proto::ids::Uuid;

use super::RunError;
use crate::limits::ATTACH_MAX;

const ATTACH_POLL: Duration = Duration::from_millis(20);
/// Between two searches for slots: less than the looks of a run are apart.
const SEARCH_EVERY: Duration = Duration::from_micros(200);

/// A partition that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its topic.
    pub topic: String,
    /// The topic's id.
    pub topic_id: Uuid,
    /// Its number.
    pub partition: i32,
    /// Where it starts at the source.
    pub start: i64,
    /// Where it ended at the source when the run began.
    pub end: i64,
}

/// The board, and where the watched partitions are on it.
#[derive(Debug)]
pub struct Board {
    observer: Observer,
    slots: Vec<Option<u32>>,
    identities: Vec<u64>,
    /// The watched partitions by identity: there may be many thousand, and as many slots.
    by_identity: HashMap<u64, usize>,
    /// When their slots were looked for the last time.
    searched: Option<Instant>,
}

impl Board {
    /// Attaches to the data plane of `state`.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub fn attach(state: &Path, partitions: &[Watched]) -> Result<Self, AttachError> {
        let deadline = Instant::now() + ATTACH_MAX;
        let observer = loop {
            match attach_observer(&state.join(SOCKET_NAME)) {
                Err(AttachError::NotRunning { .. }) if Instant::now() < deadline => std::thread::sleep(ATTACH_POLL),
                other => break other?,
            }
        };
        let identities: Vec<u64> = partitions.iter().map(|each| identity(each.topic_id, each.partition)).collect();
        let by_identity = identities.iter().zip(0..).map(|(identity, at)| (*identity, at)).collect();
        Ok(Self { observer, slots: vec![None; partitions.len()], identities, by_identity, searched: None })
    }

    /// The data plane's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.observer.view.stamp().pid
    }

    /// Bytes of the shared region.
    #[must_use]
    pub fn region_bytes(&self) -> u64 {
        self.observer.view.bytes() as u64
    }

    /// The progress of watched partition number `at`; none while it has none, or is being written.
    ///
    /// # Errors
    /// When the partition failed, or the data plane is gone.
    pub fn look(&mut self, at: usize) -> Result<Option<PartitionProgress>, RunError> {
        if let Some(slot) = self.slots[at] {
            match self.observer.view.board().read(slot) {
                Ok(Seen::Value(progress)) if progress.identity == self.identities[at] => return healthy(progress),
                Ok(Seen::Busy) => return Ok(None),
                _ => self.slots[at] = None,
            }
        }
        if self.observer.is_over() {
            return Err(RunError::Planes("the data plane is gone".into()));
        }
        // Not for each that has none: all are found at once.
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH_EVERY) {
            self.find_slots();
            self.searched = Some(Instant::now());
        }
        Ok(None)
    }

    fn find_slots(&mut self) {
        for (slot, seen) in self.observer.view.board().occupied(0) {
            if let Seen::Value(progress) = seen
                && let Some(&at) = self.by_identity.get(&progress.identity)
            {
                self.slots[at] = Some(slot);
            }
        }
    }
}

fn healthy(progress: PartitionProgress) -> Result<Option<PartitionProgress>, RunError> {
    if progress.state == SlotState::Failed {
        let fault = progress.fault;
        return Err(RunError::Planes(format!("a partition failed: {}: {}", fault.name(), fault.meaning())));
    }
    Ok(Some(progress))
}
