//! A pass proves: when writes, allocations or syncs fail, the log ends where the last completed write ended, says so, and
//! goes on once the disk does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use twinlog_proto::channel::progress::FaultCode;

use super::kit::{ANY_EPOCH, Way, batch, big_spec, feed, golden_spec, home_on};
use crate::buffers::Share;
use crate::disk::uring::{UringDisk, UringFile};
use crate::disk::{Alignment, Disk, Open};
use crate::fault::Fault;
use crate::log::{AppendStop, LogHome, LogSpec, PartitionLog};

/// A real disk that refuses what it is told to refuse.
#[derive(Default)]
struct Faulty {
    inner: UringDisk,
    plan: Rc<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Answers to the next writes, in order; then everything succeeds.
    writes: RefCell<VecDeque<Answer>>,
    fail_syncs: Cell<bool>,
    fail_allocations: Cell<bool>,
    writes_seen: Cell<usize>,
    /// The names of the files that were synced, in order.
    synced: RefCell<Vec<String>>,
}

/// A file that knows the name it was opened by.
struct Named {
    name: String,
    inner: Rc<UringFile>,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Ok,
    Fail(i32),
    /// Only so many bytes count as written.
    Short(usize),
    /// Yields to other tasks so many times before writing.
    Late(usize),
}

impl Disk for Faulty {
    type File = Named;

    fn open(&self, path: &Path, how: Open) -> io::Result<Named> {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(Named { name, inner: Rc::new(self.inner.open(path, how)?) })
    }

    fn alignment(&self, file: &Named) -> Alignment {
        self.inner.alignment(&file.inner)
    }

    async fn write(&self, file: Rc<Named>, share: Share, range: Range<usize>, position: u64) -> io::Result<usize> {
        let file = Rc::clone(&file.inner);
        self.plan.writes_seen.set(self.plan.writes_seen.get() + 1);
        let answer = self.plan.writes.borrow_mut().pop_front().unwrap_or(Answer::Ok);
        let range = match answer {
            Answer::Ok => range,
            Answer::Fail(code) => return Err(io::Error::from_raw_os_error(code)),
            Answer::Short(bytes) => {
                let written = self.inner.write(file, share, range, position).await?;
                return Ok(written.min(bytes));
            }
            Answer::Late(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                range
            }
        };
        self.inner.write(file, share, range, position).await
    }

    async fn sync(&self, file: Rc<Named>) -> io::Result<()> {
        if self.plan.fail_syncs.get() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.sync(Rc::clone(&file.inner)).await?;
        self.plan.synced.borrow_mut().push(file.name.clone());
        Ok(())
    }

    async fn allocate(&self, file: Rc<Named>, range: Range<u64>) -> io::Result<()> {
        if self.plan.fail_allocations.get() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        self.inner.allocate(Rc::clone(&file.inner), range).await
    }

    fn set_len(&self, file: &Named, bytes: u64) -> io::Result<()> {
        self.inner.set_len(&file.inner, bytes)
    }
}

/// A log on such a disk.
struct Scene {
    plan: Rc<Plan>,
    home: LogHome<Faulty>,
    data: tempfile::TempDir,
    log: PartitionLog<Faulty>,
}

async fn scene(spec: fn(&Path) -> LogSpec, prepare: impl FnOnce(&Plan)) -> Scene {
    let disk = Faulty::default();
    let plan = Rc::clone(&disk.plan);
    prepare(&plan);
    let (home, data) = (home_on(disk), tempfile::tempdir().unwrap());
    let log = PartitionLog::open(&home, spec(data.path())).await.unwrap();
    Scene { plan, home, data, log }
}

/// Waits for completions and takes them in.
async fn next_progress(log: &mut PartitionLog<Faulty>, home: &LogHome<Faulty>) -> Result<bool, Fault> {
    home.writers.changed().await;
    while home.writers.take_changed().is_some() {}
    log.poll_progress()
}

fn batches(from: i64, count: i64, size: usize) -> Vec<u8> {
    (from..from + count).flat_map(|offset| batch(offset, 1, size)).collect()
}

#[test]
fn a_failed_write_keeps_the_log_end_and_the_same_batches_may_come_again() {
    tokio_uring::start(async {
        let Scene { plan, home, data, mut log } = scene(big_spec, |_| {}).await;
        feed(&mut log, &home, &batches(0, 10, 5000), Way::Pieces(1 << 20)).await;
        log.settle().await.unwrap();
        plan.writes.borrow_mut().extend([Answer::Ok, Answer::Fail(libc::ENOSPC), Answer::Ok]);
        feed(&mut log, &home, &batches(10, 10, 5000), Way::Pieces(20_000)).await;
        assert_eq!(log.next_offset(), 20);
        let fault = log.settle().await.unwrap_err();
        assert_eq!((fault.code(), fault.range()), (FaultCode::DISK_FULL, (14, 20)));
        assert!(fault.to_string().contains("free space"), "{fault}");
        assert_eq!((log.progress().leo, log.next_offset()), (14, 14));
        feed(&mut log, &home, &batches(14, 6, 5000), Way::Runs(3000)).await;
        log.finish().await.unwrap();
        let stored = std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap();
        assert!(stored == batches(0, 20, 5000));
    });
}

#[test]
fn after_a_fault_was_reported_nothing_is_taken_until_the_log_settled() {
    tokio_uring::start(async {
        let Scene { plan, home, data: _data, mut log } = scene(big_spec, |_| {}).await;
        plan.writes.borrow_mut().push_back(Answer::Fail(libc::EIO));
        feed(&mut log, &home, &batches(0, 2, 500), Way::Runs(1000)).await;
        home.writers.changed().await;
        assert_eq!(home.writers.take_changed(), Some(7));
        assert_eq!(log.poll_progress().unwrap_err().code(), FaultCode::DISK);
        log.begin_region(ANY_EPOCH);
        assert!(matches!(log.stage(&batches(2, 1, 500)), Err(AppendStop::Over)));
        log.end_region();
        log.settle().await.unwrap();
        assert_eq!(log.next_offset(), 0);
        feed(&mut log, &home, &batches(0, 2, 500), Way::Runs(1000)).await;
        log.flush().await.unwrap();
        assert_eq!((log.progress().leo, log.progress().flushed), (2, 2));
    });
}

#[test]
fn a_failed_sync_stops_the_core_and_moves_nothing() {
    tokio_uring::start(async {
        let Scene { plan, home, data: _data, mut log } = scene(big_spec, |_| {}).await;
        feed(&mut log, &home, &batches(0, 2, 500), Way::Runs(1000)).await;
        plan.fail_syncs.set(true);
        let fault = log.flush().await.unwrap_err();
        assert!(matches!(fault, Fault::Core(_)), "{fault}");
        assert_eq!((log.progress().leo, log.progress().flushed), (2, 0));
    });
}

#[test]
fn late_and_short_writes_count_in_order_and_store_every_byte() {
    tokio_uring::start(async {
        let Scene { plan, home, data, mut log } = scene(big_spec, |plan| plan.fail_allocations.set(true)).await;
        // The first write of the region ends last; the short one goes on from its last whole block.
        plan.writes.borrow_mut().extend([Answer::Late(50), Answer::Short(5000), Answer::Ok, Answer::Late(5)]);
        let wanted = batches(0, 30, 3001);
        feed(&mut log, &home, &wanted[..50_000], Way::Pieces(20_000)).await;
        let mut last = 0;
        while log.progress().leo < 16 {
            next_progress(&mut log, &home).await.unwrap();
            assert!(log.progress().leo >= last);
            last = log.progress().leo;
        }
        let next = 16 * 3001;
        feed(&mut log, &home, &wanted[next..], Way::Pieces(20_000)).await;
        log.finish().await.unwrap();
        assert!(std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap() == wanted);
    });
}

#[test]
fn small_runs_behind_a_slow_write_go_together() {
    tokio_uring::start(async {
        let Scene { plan, home, data, mut log } = scene(big_spec, |_| {}).await;
        plan.writes.borrow_mut().push_back(Answer::Late(100));
        let wanted = batches(0, 60, 300);
        for run in wanted.chunks(600) {
            feed(&mut log, &home, run, Way::Runs(600)).await;
            tokio::task::yield_now().await;
        }
        log.finish().await.unwrap();
        assert!(plan.writes_seen.get() <= 3, "{} writes", plan.writes_seen.get());
        assert!(std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap() == wanted);
    });
}

#[test]
fn flushed_does_not_pass_records_of_a_rolled_segment_that_was_not_synced() {
    tokio_uring::start(async {
        let Scene { plan, home, data: _data, mut log } = scene(golden_spec, |_| {}).await;
        log.flush().await.unwrap();
        // The first region is written at once. The second ends the segment, and its writes take their time.
        feed(&mut log, &home, &batches(0, 2, 2000), Way::Pieces(1 << 20)).await;
        while log.progress().leo < 2 {
            next_progress(&mut log, &home).await.unwrap();
        }
        plan.writes.borrow_mut().push_back(Answer::Late(30));
        feed(&mut log, &home, &batches(2, 2, 2000), Way::Pieces(1 << 20)).await;
        assert!(log.begin_flush().unwrap());
        while log.progress().flushed < 2 {
            next_progress(&mut log, &home).await.unwrap();
        }
        let synced = plan.synced.borrow().clone();
        assert!(synced.iter().any(|name| name == "00000000000000000000.log"), "{synced:?}");
    });
}

#[test]
fn the_log_end_does_not_enter_a_segment_whose_forerunner_could_not_be_closed() {
    tokio_uring::start(async {
        let Scene { home, data, mut log, .. } = scene(golden_spec, |_| {}).await;
        // Where the time index belongs there is something else.
        let obstacle = data.path().join("golden-0/00000000000000000000.timeindex");
        std::fs::create_dir(&obstacle).unwrap();
        feed(&mut log, &home, &batches(0, 5, 2000), Way::Pieces(1 << 20)).await;
        let mut seen = 0;
        let fault = loop {
            let result = next_progress(&mut log, &home).await;
            seen = log.progress().leo.max(seen);
            if let Err(fault) = result {
                break fault;
            }
        };
        assert_eq!((fault.code(), seen), (FaultCode::DISK, 3), "{fault}");
        std::fs::remove_dir(&obstacle).unwrap();
        log.settle().await.unwrap();
        assert_eq!((log.progress().leo, log.next_offset()), (3, 3));
        feed(&mut log, &home, &batches(3, 2, 2000), Way::Pieces(1 << 20)).await;
        log.finish().await.unwrap();
        let stored = ["00000000000000000000.log", "00000000000000000003.log"];
        let stored = stored.map(|name| std::fs::read(data.path().join("golden-0").join(name)).unwrap());
        assert!(stored.concat() == batches(0, 5, 2000));
    });
}

#[test]
fn a_cut_down_to_the_first_offset_is_durable_too() {
    tokio_uring::start(async {
        let Scene { plan, home, data: _data, mut log } = scene(big_spec, |_| {}).await;
        feed(&mut log, &home, &batches(0, 3, 500), Way::Runs(1000)).await;
        log.flush().await.unwrap();
        plan.synced.borrow_mut().clear();
        log.cut(0).await.unwrap();
        assert!(log.is_empty());
        let synced = plan.synced.borrow().clone();
        assert!(synced.iter().any(|name| name == "00000000000000000000.log"), "{synced:?}");
    });
}
