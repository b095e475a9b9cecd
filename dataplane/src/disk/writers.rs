//! The writer tasks of a core and the two queues around them: jobs in, changed logs out.
//!
//! The tasks are started once and only take and give; a write spawns nothing and allocates nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::jobs::{Job, Jobs, Started, Work};
use super::{Alignment, Disk};
use crate::limits::WRITE_JOBS_PER_CORE;

/// The writers of one core. Cloning gives another handle.
pub struct Writers<D: Disk> {
    inner: Rc<Inner<D>>,
}

struct Inner<D: Disk> {
    disk: Rc<D>,
    queue: RefCell<VecDeque<(Rc<Jobs<D>>, u64)>>,
    idle: RefCell<Vec<Waker>>,
    changed: RefCell<VecDeque<u32>>,
    changed_waiter: RefCell<Option<Waker>>,
    counts: RefCell<WriteCounts>,
}

/// What the writers did since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes that they wrote, padding and rewritten tail blocks included.
    pub write_bytes: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Jobs that failed.
    pub failures: u64,
}

impl<D: Disk> Writers<D> {
    /// Starts `tasks` writer tasks, which is also the number of writes in flight. Must be called inside the runtime of the
    /// core (or a `LocalSet`).
    pub fn start(disk: Rc<D>, tasks: usize) -> Self {
        let inner = Rc::new(Inner {
            disk,
            queue: RefCell::new(VecDeque::with_capacity(WRITE_JOBS_PER_CORE)),
            idle: RefCell::new(Vec::with_capacity(tasks)),
            changed: RefCell::new(VecDeque::with_capacity(WRITE_JOBS_PER_CORE)),
            changed_waiter: RefCell::new(None),
            counts: RefCell::new(WriteCounts::default()),
        });
        for _ in 0..tasks {
            // The task ends with the runtime; nobody waits for it.
            let _task = tokio::task::spawn_local(write_on(Rc::clone(&inner)));
        }
        Self { inner }
    }

    /// The token of a log whose writes completed since it was last taken; then `poll_progress` of that log is due.
    #[must_use]
    pub fn take_changed(&self) -> Option<u32> {
        self.inner.changed.borrow_mut().pop_front()
    }

    /// Waits until [`Self::take_changed`] would give something. One task at a time may wait.
    pub async fn changed(&self) {
        poll_fn(|cx| {
            if !self.inner.changed.borrow().is_empty() {
                return Poll::Ready(());
            }
            let mut waiter = self.inner.changed_waiter.borrow_mut();
            if !waiter.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *waiter = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// What was written so far.
    #[must_use]
    pub fn counts(&self) -> WriteCounts {
        *self.inner.counts.borrow()
    }

    /// Lists `job` in its log and queues it as soon as nothing earlier is in its way. Gives its number.
    pub(crate) fn submit(&self, jobs: &Rc<Jobs<D>>, job: Job<D>) -> u64 {
        let (number, free) = jobs.push(job);
        if free {
            self.inner.enqueue(jobs, number);
        }
        number
    }
}

impl<D: Disk> Clone for Writers<D> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<D: Disk> fmt::Debug for Writers<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writers")
            .field("queued", &self.inner.queue.borrow().len())
            .field("counts", &self.counts())
            .finish()
    }
}

impl<D: Disk> Inner<D> {
    fn enqueue(&self, jobs: &Rc<Jobs<D>>, number: u64) {
        self.queue.borrow_mut().push_back((Rc::clone(jobs), number));
        if let Some(waker) = self.idle.borrow_mut().pop() {
            waker.wake();
        }
    }

    async fn next(&self) -> (Rc<Jobs<D>>, u64) {
        poll_fn(|cx| match self.queue.borrow_mut().pop_front() {
            Some(next) => Poll::Ready(next),
            None => {
                let mut idle = self.idle.borrow_mut();
                if !idle.iter().any(|known| known.will_wake(cx.waker())) {
                    idle.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }

    fn announce(&self, jobs: &Jobs<D>) {
        if !jobs.announced.replace(true) {
            self.changed.borrow_mut().push_back(jobs.token);
            if let Some(waker) = self.changed_waiter.borrow_mut().take() {
                waker.wake();
            }
        }
        jobs.wake();
    }

    fn count(&self, started: &Work, bytes: u64, ok: bool) {
        let mut counts = self.counts.borrow_mut();
        match (ok, started) {
            (false, _) => counts.failures += 1,
            (true, Work::Write(..)) => {
                counts.writes += 1;
                counts.write_bytes += bytes;
            }
            (true, Work::Sync) => counts.syncs += 1,
            (true, Work::Allocate) => {}
        }
    }
}

async fn write_on<D: Disk>(inner: Rc<Inner<D>>) {
    loop {
        let (jobs, number) = inner.next().await;
        let result = match jobs.start(number) {
            Some(started) => run(&inner, started).await,
            None => Err(io::Error::other("not tried after an earlier failure of the same log")),
        };
        if jobs.finish(number, result, |freed| inner.enqueue(&jobs, freed)) {
            inner.announce(&jobs);
        }
    }
}

async fn run<D: Disk>(inner: &Inner<D>, started: Started<D>) -> io::Result<()> {
    let Started { file, work, touches } = started;
    let bytes = touches.end - touches.start;
    let result = match &work {
        Work::Write(share, range) => {
            assert_eq!(range.len() as u64, bytes, "a write fills the range it names");
            write_all(&*inner.disk, &file, (share, range.start), touches).await
        }
        Work::Allocate => inner.disk.allocate(file, touches).await,
        Work::Sync => inner.disk.sync(file).await,
    };
    inner.count(&work, bytes, result.is_ok());
    result
}

/// Writes until all bytes are written. A short direct write goes on from the last whole block.
async fn write_all<D: Disk>(
    disk: &D,
    file: &Rc<D::File>,
    (share, from): (&crate::buffers::Share, usize),
    touches: std::ops::Range<u64>,
) -> io::Result<()> {
    let alignment: Alignment = disk.alignment(file);
    let mut position = touches.start;
    while position < touches.end {
        let skip = (position - touches.start) as usize;
        let rest = (touches.end - position) as usize;
        let range = from + skip..from + skip + rest;
        let written = match disk.write(Rc::clone(file), share.clone(), range, position).await {
            Ok(written) => written.min(rest) as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let reached = position + written;
        let next = if reached == touches.end { reached } else { alignment.down(reached) };
        if next == position {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "the file takes no more bytes"));
        }
        position = next;
    }
    Ok(())
}
