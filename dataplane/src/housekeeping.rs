//! Writes the offset checkpoints of each data directory, from a plain thread that reads this process's own board.
//!
//! ```text
//! main:  let known = Checkpoints::load(&dirs)?;                            // recovery points and log starts to open logs with
//!        let (housekeeping, tracker) = Housekeeping::start(view, known)?;  // tracker: a clone for each core
//! core:  log opened and published ->   tracker.track(slot, Tracked {..}).await?
//!        log to be cut ->              tracker.before_cut(slot, offset).await?   cut   publish   tracker.after_cut(slot)
//!        directory deleted ->          tracker.forget(slot)
//! main:  cores ended, last progress published ->  housekeeping.stop()?
//! ```
//! Files, as a stock broker reads and writes them: `recovery-point-offset-checkpoint` (flushed),
//! `replication-offset-checkpoint` (high watermark: the smaller of the source's and our log end), `log-start-offset-checkpoint`
//! (only logs that start above the base of their first segment). Written aside, synced, renamed, and the directory synced.
//!
//! A recovery point in the file must never be above what is on the disk, else recovery would trust bytes that are not there.
//! Flushed only grows except by a cut, which is why a cut is told *before* it is done.

use crate::checkpoints::{CheckpointError, Checkpoints, Directory, LogKey};
use crate::limits::CHECKPOINT_MS;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use twinlog_proto::channel::board::{BoardReader, Seen};
use twinlog_proto::channel::region::{View, Window};

/// A log whose progress goes into the checkpoints of its directory.
#[derive(Debug, Clone)]
pub struct Tracked {
    /// The data directory, as this process was given it.
    pub directory: PathBuf,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// `progress::identity` of topic id and partition: the slot counts only while it carries it.
    pub identity: u64,
}

/// Tells housekeeping about logs; each core has a clone.
#[derive(Debug, Clone)]
pub struct Tracker {
    notes: Sender<Note>,
    directories: Arc<[PathBuf]>,
}

impl Tracker {
    /// From now on the log's checkpoints follow `slot`, which was published already. Should the recovery point on file be above
    /// what recovery found, it is lowered before this returns.
    ///
    /// # Errors
    /// When the directory is not ours, or the lowered recovery point cannot be written.
    pub async fn track(&self, slot: u32, log: Tracked) -> Result<(), CheckpointError> {
        self.ask(|done| Note::Track { slot, log, done: Some(done) }).await
    }

    /// The same without waiting, for a log whose recovery point on file is not too high.
    ///
    /// # Errors
    /// When the directory is not ours.
    pub fn follow(&self, slot: u32, log: Tracked) -> Result<(), CheckpointError> {
        if !self.directories.contains(&log.directory) {
            return Err(CheckpointError::NoSuchDirectory { path: log.directory });
        }
        self.tell(Note::Track { slot, log, done: None });
        Ok(())
    }

    /// To be awaited before the log is cut at `offset`: no checkpoint is above it afterwards, until [`Tracker::after_cut`].
    ///
    /// # Errors
    /// When the checkpoints cannot be written; the log must not be cut then.
    pub async fn before_cut(&self, slot: u32, offset: i64) -> Result<(), CheckpointError> {
        self.ask(|done| Note::BeforeCut { slot, offset, done }).await
    }

    /// The log is cut and its slot published.
    pub fn after_cut(&self, slot: u32) {
        self.tell(Note::AfterCut { slot });
    }

    /// The log's directory is deleted, or about to be: it leaves the checkpoints.
    pub fn forget(&self, slot: u32) {
        self.tell(Note::Forget { slot });
    }

    async fn ask(&self, note: impl FnOnce(Answer) -> Note) -> Result<(), CheckpointError> {
        let (done, answer) = oneshot::channel();
        self.notes.send(note(done)).or(Err(CheckpointError::Gone))?;
        answer.await.unwrap_or(Err(CheckpointError::Gone))
    }

    fn tell(&self, note: Note) {
        if self.notes.send(note).is_err() {
            tracing::error!("the housekeeping thread is gone: checkpoints are not written any more");
        }
    }
}

type Answer = oneshot::Sender<Result<(), CheckpointError>>;

#[derive(Debug)]
enum Note {
    Track { slot: u32, log: Tracked, done: Option<Answer> },
    BeforeCut { slot: u32, offset: i64, done: Answer },
    AfterCut { slot: u32 },
    Forget { slot: u32 },
    Stop,
}

/// The thread.
#[derive(Debug)]
pub struct Housekeeping {
    notes: Sender<Note>,
    thread: JoinHandle<Result<(), CheckpointError>>,
}

impl Housekeeping {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(view: &View, known: Checkpoints) -> io::Result<(Self, Tracker)> {
        let (notes, inbox) = channel();
        let directories = known.directories.iter().map(|directory| directory.path.clone()).collect();
        let mut keeper = Keeper { board: view.board(), directories: known.directories, slots: HashMap::new() };
        let thread = std::thread::Builder::new().name("housekeeping".to_owned()).spawn(move || keeper.run(&inbox))?;
        Ok((Self { notes: notes.clone(), thread }, Tracker { notes, directories }))
    }

    /// Writes the checkpoints a last time; when the cores have published their last progress.
    ///
    /// # Errors
    /// The first checkpoint that could not be written.
    pub fn stop(self) -> Result<(), CheckpointError> {
        self.notes.send(Note::Stop).or(Err(CheckpointError::Gone))?;
        self.thread.join().unwrap_or(Err(CheckpointError::Gone))
    }
}

struct Watch {
    directory: usize,
    key: LogKey,
    identity: u64,
    /// While the log is being cut: where.
    ceiling: Option<i64>,
}

struct Keeper {
    board: BoardReader<Window>,
    directories: Vec<Directory>,
    slots: HashMap<u32, Watch>,
}

impl Keeper {
    fn run(&mut self, notes: &Receiver<Note>) -> Result<(), CheckpointError> {
        let pass = Duration::from_millis(CHECKPOINT_MS);
        let mut due = Instant::now() + pass;
        loop {
            match notes.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Note::Stop) | Err(RecvTimeoutError::Disconnected) => return self.pass(),
                Ok(note) => self.heed(note),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= due {
                if let Err(error) = self.pass() {
                    tracing::error!(%error, "a checkpoint is not written; it is tried again");
                }
                due = Instant::now() + pass;
            }
        }
    }

    fn heed(&mut self, note: Note) {
        // Who asked may be gone meanwhile.
        match note {
            Note::Track { slot, log, done } => {
                let tracked = self.track(slot, log);
                match (tracked, done) {
                    (tracked, Some(done)) => drop(done.send(tracked)),
                    (Err(error), None) => {
                        tracing::error!(slot, %error, "a log's checkpoint is not written; it is tried again")
                    }
                    (Ok(()), None) => {}
                }
            }
            Note::BeforeCut { slot, offset, done } => drop(done.send(self.before_cut(slot, offset))),
            Note::AfterCut { slot } => {
                if let Some(watch) = self.slots.get_mut(&slot) {
                    watch.ceiling = None;
                }
            }
            Note::Forget { slot } => {
                if let Some(watch) = self.slots.remove(&slot) {
                    self.directories[watch.directory].remove(&watch.key);
                }
            }
            Note::Stop => {}
        }
    }

    fn track(&mut self, slot: u32, log: Tracked) -> Result<(), CheckpointError> {
        let Some(directory) = self.directories.iter().position(|known| known.path == log.directory) else {
            return Err(CheckpointError::NoSuchDirectory { path: log.directory });
        };
        let key = (log.topic, log.partition);
        let before = self.directories[directory].logs.get(&key).copied().unwrap_or_default();
        self.slots.insert(slot, Watch { directory, key: key.clone(), identity: log.identity, ceiling: None });
        self.look(slot);
        let now = self.directories[directory].logs.get(&key).copied().unwrap_or_default();
        if now.recovery_point < before.recovery_point { self.directories[directory].write() } else { Ok(()) }
    }

    fn before_cut(&mut self, slot: u32, offset: i64) -> Result<(), CheckpointError> {
        self.look(slot);
        let watch = self.slots.get_mut(&slot).ok_or(CheckpointError::NotTracked { slot })?;
        watch.ceiling = Some(offset.min(watch.ceiling.unwrap_or(offset)));
        let directory = &mut self.directories[watch.directory];
        directory.cut(&watch.key, offset);
        directory.write()
    }

    /// Takes over what the board says of a slot; when it says nothing (busy, another partition), what was known stays.
    fn look(&mut self, slot: u32) {
        let Some(watch) = self.slots.get(&slot) else { return };
        match self.board.read(slot) {
            Ok(Seen::Value(progress)) if progress.identity == watch.identity => {
                self.directories[watch.directory].follow(&watch.key, &progress, watch.ceiling.unwrap_or(i64::MAX));
            }
            Ok(Seen::Broken(bad)) => tracing::error!(slot, %bad, "a slot of our own board was overwritten"),
            Ok(_) | Err(_) => {}
        }
    }

    /// Looks at all slots and writes what changed; goes on to the other directories when one cannot be written.
    fn pass(&mut self) -> Result<(), CheckpointError> {
        let slots: Vec<_> = self.slots.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.look(slot));
        self.directories.iter_mut().map(Directory::write).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::channel::board::BoardWriter;
    use twinlog_proto::channel::layout::Geometry;
    use twinlog_proto::channel::progress::{PartitionProgress, SlotState};
    use twinlog_proto::channel::region::{Region, Stamp};
    use twinlog_proto::storage::names::{
        HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, TEMPORARY_SUFFIX, partition_dir,
    };

    const IDENTITY: u64 = 9;

    struct Room {
        data: tempfile::TempDir,
        board: BoardWriter<Window>,
        region: Region,
    }

    impl Room {
        fn new(partitions: i32) -> Self {
            let geometry = Geometry::new(1, 8, 2, 2).unwrap();
            let (region, _) = Region::create(geometry, Stamp { generation: 1, pid: 1, started_at_ms: 0 }).unwrap();
            let data = tempfile::tempdir().unwrap();
            for partition in 0..partitions {
                std::fs::create_dir(data.path().join(partition_dir("t", partition))).unwrap();
            }
            Self { data, board: region.board_writer(), region }
        }

        fn load(&self) -> Checkpoints {
            Checkpoints::load(&[self.data.path().to_owned()]).unwrap()
        }

        fn start(&self) -> (Housekeeping, Tracker) {
            Housekeeping::start(&self.region, self.load()).unwrap()
        }

        fn text(&self, name: &str) -> String {
            std::fs::read_to_string(self.data.path().join(name)).unwrap()
        }

        fn publish(&self, slot: u32, log_start: i64, flushed: i64, leo: i64, source_high_watermark: i64) {
            let start_within_segment = log_start > 0;
            let seen = PartitionProgress::unknown(IDENTITY, SlotState::Mirroring);
            let seen =
                PartitionProgress { log_start, flushed, leo, source_high_watermark, start_within_segment, ..seen };
            self.board.publish(slot, &seen).unwrap();
        }

        fn log(&self, partition: i32) -> Tracked {
            Tracked { directory: self.data.path().to_owned(), topic: "t".to_owned(), partition, identity: IDENTITY }
        }
    }

    /// Tokio's channels need no runtime to be waited for.
    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn a_stop_writes_what_the_board_says_and_nothing_is_left_aside() {
        let room = Room::new(3);
        let (housekeeping, tracker) = room.start();
        room.publish(0, 0, 70, 90, 80);
        room.publish(1, 10, 20, 30, -1);
        for partition in 0..2 {
            wait(tracker.track(partition as u32, room.log(partition))).unwrap();
        }
        room.publish(1, 10, 40, 50, 100);
        housekeeping.stop().unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n2\nt 0 70\nt 1 40\n");
        assert_eq!(room.text(HIGH_WATERMARKS), "0\n2\nt 0 80\nt 1 50\n");
        assert_eq!(room.text(LOG_STARTS), "0\n1\nt 1 10\n");
        let names = std::fs::read_dir(room.data.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(TEMPORARY_SUFFIX)));
        let known = room.load();
        assert_eq!(known.recovery_point(room.data.path(), "t", 1), Some(40));
        assert_eq!(
            (known.log_start(room.data.path(), "t", 1), known.log_start(room.data.path(), "t", 0)),
            (Some(10), None)
        );
    }

    #[test]
    fn a_log_that_nobody_has_opened_yet_keeps_its_entries_and_a_deleted_one_loses_them() {
        let room = Room::new(3);
        std::fs::write(room.data.path().join(RECOVERY_POINTS), "0\n4\nt 0 1\nt 1 2\nt 2 3\ngone 0 4\n").unwrap();
        std::fs::write(room.data.path().join(LOG_STARTS), "0\n1\nt 2 3\n").unwrap();
        let (housekeeping, tracker) = room.start();
        room.publish(1, 0, 9, 9, 9);
        wait(tracker.track(1, room.log(1))).unwrap();
        wait(tracker.track(2, room.log(0))).unwrap();
        tracker.forget(2);
        housekeeping.stop().unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n2\nt 1 9\nt 2 3\n");
        assert_eq!(room.text(LOG_STARTS), "0\n1\nt 2 3\n");
    }

    #[test]
    fn no_checkpoint_is_above_a_cut_from_before_it_until_the_board_shows_it() {
        let room = Room::new(1);
        let (housekeeping, tracker) = room.start();
        room.publish(0, 60, 90, 90, 90);
        wait(tracker.track(0, room.log(0))).unwrap();
        wait(tracker.before_cut(0, 50)).unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n1\nt 0 50\n");
        assert_eq!((room.text(HIGH_WATERMARKS), room.text(LOG_STARTS)), ("0\n1\nt 0 50\n".into(), "0\n0\n".into()));
        // The board still shows the old progress: it must not be believed.
        wait(tracker.before_cut(0, 55)).unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n1\nt 0 50\n", "a higher cut raises nothing");
        room.publish(0, 0, 45, 45, 90);
        tracker.after_cut(0);
        housekeeping.stop().unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n1\nt 0 45\n");
    }

    #[test]
    fn a_recovery_point_above_what_recovery_found_is_lowered_at_once() {
        let room = Room::new(1);
        std::fs::write(room.data.path().join(RECOVERY_POINTS), "0\n1\nt 0 100\n").unwrap();
        let (_housekeeping, tracker) = room.start();
        room.publish(0, 0, 30, 30, 90);
        wait(tracker.track(0, room.log(0))).unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n1\nt 0 30\n");
    }

    #[test]
    fn a_slot_that_another_partition_took_changes_nothing() {
        let room = Room::new(1);
        std::fs::write(room.data.path().join(RECOVERY_POINTS), "0\n1\nt 0 7\n").unwrap();
        let (housekeeping, tracker) = room.start();
        room.publish(0, 0, 30, 30, 90);
        wait(tracker.track(0, Tracked { identity: IDENTITY + 1, ..room.log(0) })).unwrap();
        housekeeping.stop().unwrap();
        assert_eq!(room.text(RECOVERY_POINTS), "0\n1\nt 0 7\n");
    }

    #[test]
    fn a_damaged_checkpoint_and_an_unknown_directory_are_refused_by_name() {
        let room = Room::new(1);
        std::fs::write(room.data.path().join(HIGH_WATERMARKS), "0\n2\nt 0 7\n").unwrap();
        let refused = Checkpoints::load(&[room.data.path().to_owned()]).unwrap_err().to_string();
        assert!(refused.contains(HIGH_WATERMARKS) && refused.contains("deleted"), "{refused}");
        std::fs::write(room.data.path().join(HIGH_WATERMARKS), "").unwrap();
        let (_housekeeping, tracker) = room.start();
        let elsewhere = Tracked { directory: "/elsewhere".into(), ..room.log(0) };
        assert!(matches!(wait(tracker.track(0, elsewhere)), Err(CheckpointError::NoSuchDirectory { .. })));
        assert!(matches!(wait(tracker.before_cut(5, 0)), Err(CheckpointError::NotTracked { slot: 5 })));
    }
}
