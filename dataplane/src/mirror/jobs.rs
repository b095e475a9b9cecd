//! Jobs on a partition's log that await: open, make, finish, cut. One at a time per partition, a bounded number per core.

use std::rc::Rc;
use std::time::Instant;

use twinlog_proto::channel::progress::{FaultCode, identity};

use super::partition::Partition;
use super::plan::Doing;
use crate::checkpoints::CheckpointError;
use crate::core::shared::{Shared, now_ms};
use crate::disk::Disk;
use crate::fault::Fault;
use crate::housekeeping::Tracked;
use crate::log::{PartitionLog, discard};

/// Looks for the partition's directory; opens and recovers the log that is there.
///
/// # Errors
/// The log cannot be opened.
pub async fn open<D: Disk>(shared: &Shared<D>, partition: &Partition<D>) -> Result<(), Fault> {
    if !partition.place.directory().is_dir() {
        partition.set_absent();
        return Ok(());
    }
    let (recovery_point, log_start) = shared.known_of(partition);
    let on_file = shared.recovery_point_on_file(partition);
    let log = PartitionLog::open(&shared.home, shared.log_spec(partition, recovery_point, log_start)).await?;
    let progress = log.progress();
    tracing::debug!(
        topic = &*partition.place.topic,
        partition = partition.place.index,
        log_start = progress.log_start,
        leo = progress.leo,
        "log opened"
    );
    partition.put_log(Box::new(log));
    // What recovery found may not be durable yet, and no append may follow that would say so.
    shared.dirty(partition, Instant::now());
    track(shared, partition, on_file).await
}

/// Makes a log that begins and ends at `start`, the source's log start.
///
/// # Errors
/// The directory or its files cannot be made.
pub async fn make<D: Disk>(shared: &Shared<D>, partition: &Partition<D>, start: i64) -> Result<(), Fault> {
    let on_file = shared.recovery_point_on_file(partition);
    let log = PartitionLog::open(&shared.home, shared.log_spec(partition, 0, start)).await?;
    tracing::debug!(topic = &*partition.place.topic, partition = partition.place.index, start, "log made");
    partition.put_log(Box::new(log));
    // The new directory's entries are not durable yet.
    shared.dirty(partition, Instant::now());
    track(shared, partition, on_file).await
}

/// Finishes the files and closes the log: a broker may take them over, so nothing is believed of them afterwards.
///
/// # Errors
/// Bytes could not be written or made durable.
pub async fn stop<D: Disk>(shared: &Shared<D>, partition: &Partition<D>) -> Result<(), Fault> {
    on_log(partition, async |log| {
        log.settle().await?;
        log.flush().await?;
        log.finish().await
    })
    .await?;
    shared.complete(partition, Instant::now());
    partition.note_progress(now_ms());
    drop(partition.take_log());
    partition.set_closed();
    partition.rest(Doing::Stopped);
    Ok(())
}

/// Throws the partition's folder away, whosever it is, and whatever state it is in. Afterwards there is none, and the checkpoints
/// know of none, so that a log that is made in its place is believed nothing that it is not.
///
/// # Errors
/// The folder could not be removed, or the checkpoints could not be written; done again it goes on.
pub async fn discard<D: Disk>(shared: &Shared<D>, partition: &Partition<D>) -> Result<(), Fault> {
    let (wish, place) = (partition.wish(), &partition.place);
    if let Some(mut log) = partition.take_log() {
        log.abandon().await;
    }
    let known = partition.last_progress();
    let gone = discard::discard(&place.data_dir, (&place.topic, place.index)).await?;
    shared.note_discarded(partition);
    partition.set_discarded(wish);
    shared.publish(partition);
    if let Some(gone) = gone {
        let (from, upto) = known.map_or((gone.first_base, -1), |known| (known.log_start, known.leo));
        let (dir, last_segment, bytes) = (place.directory(), gone.last_base, gone.bytes);
        let topic_id = gone.topic_id.map(|id| id.to_string());
        tracing::warn!(dir = %dir.display(), topic_id, from, upto, last_segment, bytes, "folder thrown away by order");
    }
    let (slot, on_file) = (place.slot, tracked(partition));
    shared.tracker.track(slot, on_file).await.map_err(checkpoint_fault)?;
    shared.tracker.before_cut(slot, 0).await.map_err(checkpoint_fault)?;
    shared.tracker.forget(slot);
    Ok(())
}

/// Cuts the log; what lies behind `offset` is gone.
///
/// # Errors
/// The files could not be cut, or the cut could not be made durable.
pub async fn cut<D: Disk>(shared: &Shared<D>, partition: &Partition<D>, offset: i64) -> Result<(), Fault> {
    let attempt = partition.wish().attempt;
    shorten(shared, partition, offset, async |log| {
        let before = log.next_offset();
        if offset < log.progress().log_start {
            log.restart_at(offset).await?;
        } else if offset < before {
            log.cut(offset).await?;
        }
        let (dir, after) = (log.dir().display(), log.next_offset());
        tracing::warn!(%dir, before, after, "log cut by order");
        Ok(())
    })
    .await?;
    partition.set_cut(offset, attempt);
    if partition.have().doing == Doing::Stopped {
        // It was opened for the cut alone: it is to be finished and closed again.
        partition.rest(Doing::Nothing);
    }
    Ok(())
}

/// Throws the log away and begins anew at `offset`; only for a log that never held anything.
///
/// # Errors
/// The files could not be made anew.
pub async fn restart<D: Disk>(shared: &Shared<D>, partition: &Partition<D>, offset: i64) -> Result<(), Fault> {
    shorten(shared, partition, offset, async |log| log.restart_at(offset).await).await
}

/// Works on the log so that it may end earlier: the checkpoints learn of it before.
async fn shorten<D: Disk>(
    shared: &Shared<D>,
    partition: &Partition<D>,
    offset: i64,
    work: impl AsyncFnOnce(&mut PartitionLog<D>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let slot = partition.place.slot;
    shared.tracker.before_cut(slot, offset).await.map_err(checkpoint_fault)?;
    let result = on_log(partition, work).await;
    shared.publish(partition);
    shared.tracker.after_cut(slot);
    result
}

/// From now on the checkpoint files follow the log. `on_file` is the highest recovery point that they may show now.
async fn track<D: Disk>(shared: &Shared<D>, partition: &Partition<D>, on_file: i64) -> Result<(), Fault> {
    shared.publish(partition);
    let place = &partition.place;
    let mut flushed = -1;
    if let Some((alignment, progress)) = partition.look(|log| (log.alignment(), log.progress())) {
        shared.note_alignment(&place.data_dir, alignment);
        flushed = progress.flushed;
    }
    let log = tracked(partition);
    if flushed >= on_file {
        // Nothing on file is too high: nobody waits for the thread that writes it.
        return shared.tracker.follow(place.slot, log).map_err(checkpoint_fault);
    }
    shared.tracker.track(place.slot, log).await.map_err(checkpoint_fault)
}

fn tracked<D: Disk>(partition: &Partition<D>) -> Tracked {
    let place = &partition.place;
    Tracked {
        directory: place.data_dir.clone(),
        topic: place.topic.to_string(),
        partition: place.index,
        identity: identity(place.topic_id, place.index),
    }
}

fn checkpoint_fault(error: CheckpointError) -> Fault {
    let what = error.to_string();
    match error {
        CheckpointError::System { source, .. } => Fault::disk(what, source),
        CheckpointError::NoSuchDirectory { .. } => Fault::partition(FaultCode::ASSIGNMENT, what),
        _ => Fault::partition(FaultCode::DISK, what),
    }
}

/// Follows the source's log start.
///
/// # Errors
/// Files could not be deleted.
pub async fn follow_start<D: Disk>(partition: &Partition<D>, offset: i64) -> Result<(), Fault> {
    on_log(partition, async |log| log.advance_log_start(offset).await).await
}

/// After a failure of the log: waits for what is under way and puts the log back to its end.
///
/// # Errors
/// The log cannot be put back.
pub async fn settle<D: Disk>(partition: &Partition<D>) -> Result<(), Fault> {
    on_log(partition, async |log| {
        if let Err(fault) = log.settle().await {
            // The failure that this is about is told once; what counts is whether the log works now.
            tracing::debug!("settled after: {fault}");
            log.settle().await?;
        }
        Ok(())
    })
    .await?;
    partition.set_broken(false);
    Ok(())
}

/// Lets go of the log in good order; its files stay.
///
/// # Errors
/// Bytes could not be made durable.
pub async fn close<D: Disk>(partition: &Partition<D>) -> Result<(), Fault> {
    let Some(mut log) = partition.take_log() else { return Ok(()) };
    log.settle().await?;
    log.flush().await?;
    log.finish().await
}

/// At the end of the process: finishes the log, whatever the partition does.
pub async fn last<D: Disk>(shared: Rc<Shared<D>>, partition: Rc<Partition<D>>) {
    let done = on_log(&partition, async |log| {
        if let Err(fault) = log.settle().await {
            tracing::warn!(dir = %log.dir().display(), "the last writes failed: {fault}");
        }
        log.flush().await?;
        log.finish().await
    })
    .await;
    if let Err(fault) = done {
        tracing::error!(?partition, "a log could not be finished; the next start recovers it: {fault}");
    }
    shared.publish(&partition);
}

/// A fault for a slot that the board does not have.
#[must_use]
pub fn no_such_slot(slot: u32, slots: u32) -> Fault {
    Fault::partition(FaultCode::ASSIGNMENT, format!("the assignment names slot {slot}, the board has {slots}"))
}

async fn on_log<D: Disk>(
    partition: &Partition<D>,
    work: impl AsyncFnOnce(&mut PartitionLog<D>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let Some(mut log) = partition.take_log() else { return Ok(()) };
    let result = work(&mut log).await;
    partition.put_log(log);
    result
}
