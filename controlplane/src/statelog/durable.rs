//! The state log as the driver has it: lent to a blocking thread for each write, compacted when it is long, and found writable
//! again after a failure that passed.
//!
//! Owned by the driver, and by nobody else: two of it would write over each other.

use crate::clock::now_ms;
use crate::mirror::catalog::{Catalog, StateRecord};
use crate::statelog::record;
use crate::statelog::recovery_point::RecoveryPoint;
use crate::statelog::snapshot::{self, NotCompacted};
use crate::statelog::writer::{LogWriter, Marks, WriteError};
use std::path::PathBuf;
use tracing::{info, warn};

/// The end of the log, and what is kept about it.
#[derive(Debug)]
pub struct Durable {
    /// The log and its recovery point; why there is none after a failure that only a restart mends.
    end: Result<Box<End>, String>,
    next_offset: i64,
    state: PathBuf,
    compacted_bytes: u64,
}

#[derive(Debug)]
struct End {
    log: LogWriter,
    point: RecoveryPoint,
}

impl Durable {
    /// Of the log in `state` whose end is `log`; right after a compaction it would have `compacted_bytes`. All of the log is on
    /// the disk, which `point` is told.
    #[must_use]
    pub fn new(state: PathBuf, log: LogWriter, mut point: RecoveryPoint, compacted_bytes: u64) -> Self {
        point.reached(log.next_offset());
        Self { next_offset: log.next_offset(), end: Ok(Box::new(End { log, point })), state, compacted_bytes }
    }

    /// The offset of the next record.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Makes `records` durable, and gives them back.
    ///
    /// # Errors
    /// See [`LogWriter::append`].
    pub async fn persist(&mut self, records: Vec<StateRecord>, is_end: bool) -> Result<Vec<StateRecord>, WriteError> {
        self.lend(move |end| {
            end.log.mark(if is_end { Marks::END } else { Marks::CHANGE });
            end.log.append(now_ms(), &record::encode_all(&records))?;
            end.point.passed(end.log.next_offset());
            Ok(records)
        })
        .await
    }

    /// Whether changes would be taken now, after some were not.
    ///
    /// # Errors
    /// As [`LogWriter::probe`].
    pub async fn probe(&mut self) -> Result<(), WriteError> {
        self.lend(|end| end.log.probe()).await
    }

    async fn lend<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut End) -> Result<R, WriteError> + Send + 'static,
    ) -> Result<R, WriteError> {
        let mut end = self.take()?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&mut end);
            (end, result)
        });
        let (end, result) = done.await.map_err(|cause| self.lost(cause.to_string()))?;
        self.next_offset = end.log.next_offset();
        self.end = Ok(end);
        result
    }

    fn take(&mut self) -> Result<Box<End>, WriteError> {
        let away = || Err("its end was lost in an earlier failure".to_owned());
        match std::mem::replace(&mut self.end, away()) {
            Ok(end) => Ok(end),
            Err(why) => Err(self.lost(why)),
        }
    }

    fn lost(&mut self, why: String) -> WriteError {
        self.end = Err(why.clone());
        WriteError::Poisoned(why)
    }

    /// Replaces a log that has become long by what `catalog` says. An empty log would not say where its offsets go on, so
    /// something has to be left.
    ///
    /// # Errors
    /// When nobody knows what is on the disk now. A new log that there is no room for is no error: the long one stays in use.
    pub async fn compact_if_due(&mut self, catalog: &Catalog) -> Result<(), WriteError> {
        let mut end = self.take()?;
        if !snapshot::is_due(end.log.size_bytes(), self.compacted_bytes) || catalog.facts() == 0 {
            self.end = Ok(end);
            return Ok(());
        }
        let (state, catalog) = (self.state.clone(), catalog.clone());
        let compacted = tokio::task::spawn_blocking(move || {
            let before_bytes = end.log.size_bytes();
            let replaced = snapshot::replace(&state, end.log.next_offset(), now_ms(), catalog.records());
            let result = replaced.map(|log| {
                end.log = log;
                end.point.reached(end.log.next_offset());
            });
            (end, before_bytes, result)
        });
        let (end, before_bytes, result) = compacted.await.map_err(|cause| self.lost(cause.to_string()))?;
        match result {
            Ok(()) => info!(before_bytes, after_bytes = end.log.size_bytes(), "compacted the state log"),
            Err(cause @ NotCompacted::Unknown(_)) => return Err(self.lost(cause.to_string())),
            Err(cause @ NotCompacted::OldStays(_)) => {
                warn!(%cause, "the state log could not be compacted; the long one stays in use");
            }
        }
        self.compacted_bytes = end.log.size_bytes();
        self.next_offset = end.log.next_offset();
        self.end = Ok(end);
        Ok(())
    }
}
