//! The in-order list of what one log has under way.
//!
//! Jobs may run at the same time and end in any order; the log takes their results from the front, in the order in which it
//! submitted them. A job waits only for earlier ones on the same file whose range it shares: the next region's first
//! write for the block that it rewrites, a write for the allocation it reaches into.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::Waker;

use super::Disk;
use crate::buffers::Share;
use crate::limits::WRITE_JOBS_PER_LOG;

/// One thing to do with a file.
pub(crate) struct Job<D: Disk> {
    pub(crate) file: Rc<D::File>,
    pub(crate) work: Work,
    /// The bytes of the file that the job writes or allocates; empty for a sync.
    pub(crate) touches: Range<u64>,
    /// What is true once this job and all before it succeeded.
    pub(crate) then: Then,
}

/// What to do.
pub(crate) enum Work {
    /// Write this part of the share at the start of the touched range.
    Write(Share, Range<usize>),
    /// Allocate the touched range.
    Allocate,
    /// Make the file durable.
    Sync,
}

/// What a job's success means to its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing by itself.
    Nothing,
    /// The log ends here.
    End { leo: i64, epoch: i32 },
    /// Everything below this offset is durable.
    Flushed(i64),
}

/// The kind of a finished job, for the fault that its failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Allocate,
    Sync,
}

/// A job that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) kind: Kind,
    pub(crate) then: Then,
    pub(crate) result: io::Result<()>,
}

/// A job that a writer may run now.
pub(crate) struct Started<D: Disk> {
    pub(crate) file: Rc<D::File>,
    pub(crate) work: Work,
    pub(crate) touches: Range<u64>,
}

/// The list of one log, shared by the log and the writers.
pub(crate) struct Jobs<D: Disk> {
    pub(crate) token: u32,
    list: RefCell<List<D>>,
    /// Whether the log stands in the changed queue.
    pub(crate) announced: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

struct List<D: Disk> {
    /// Number of the job at the front.
    first: u64,
    entries: VecDeque<Entry<D>>,
    /// After a failure nothing that has not started is tried.
    failed: bool,
}

struct Entry<D: Disk> {
    file: Rc<D::File>,
    work: Option<Work>,
    kind: Kind,
    touches: Range<u64>,
    then: Then,
    state: State,
}

enum State {
    Blocked,
    Queued,
    Running,
    Done(io::Result<()>),
}

impl<D: Disk> Jobs<D> {
    pub(crate) fn new(token: u32) -> Rc<Self> {
        let list = List { first: 0, entries: VecDeque::new(), failed: false };
        Rc::new(Self { token, list: RefCell::new(list), announced: Cell::new(false), waiting: RefCell::new(None) })
    }

    /// Appends a job; gives its number, and whether it may run at once.
    pub(crate) fn push(&self, job: Job<D>) -> (u64, bool) {
        let mut list = self.list.borrow_mut();
        let list = &mut *list;
        if list.entries.capacity() == 0 {
            // An idle log holds no list. From its first job on it keeps one.
            list.entries.reserve(WRITE_JOBS_PER_LOG);
        }
        let kind = match &job.work {
            Work::Write(..) => Kind::Write,
            Work::Allocate => Kind::Allocate,
            Work::Sync => Kind::Sync,
        };
        let Job { file, work, touches, then } = job;
        list.entries.push_back(Entry { file, work: Some(work), kind, touches, then, state: State::Blocked });
        let number = list.entries.len() - 1;
        let free = !list.is_blocked(number);
        if free {
            list.entries[number].state = State::Queued;
        }
        (list.first + number as u64, free)
    }

    /// The last job, if it is a write to `file` that no writer has seen and that `wanted` likes: it is taken back, so that
    /// more bytes may go with it.
    pub(crate) fn take_back_last(
        &self,
        file: &Rc<D::File>,
        wanted: impl FnOnce(&Share, &Range<usize>, &Range<u64>) -> bool,
    ) -> Option<(Share, Range<usize>, Range<u64>)> {
        let mut list = self.list.borrow_mut();
        let last = list.entries.back()?;
        let untouched = matches!(last.state, State::Blocked) && Rc::ptr_eq(&last.file, file);
        let Some(Work::Write(share, range)) = &last.work else {
            return None;
        };
        if !untouched || !wanted(share, range, &last.touches) {
            return None;
        }
        match list.entries.pop_back()? {
            Entry { work: Some(Work::Write(share, range)), touches, .. } => Some((share, range, touches)),
            _ => None,
        }
    }

    /// What a writer is to do for job `number`; none when the log has failed meanwhile.
    pub(crate) fn start(&self, number: u64) -> Option<Started<D>> {
        let mut list = self.list.borrow_mut();
        let failed = list.failed;
        let entry = list.entry(number);
        let work = entry.work.take()?;
        if failed {
            return None;
        }
        entry.state = State::Running;
        Some(Started { file: Rc::clone(&entry.file), work, touches: entry.touches.clone() })
    }

    /// Notes the end of job `number`, and hands every job that became free to `free`. True when the log has something
    /// to take.
    pub(crate) fn finish(&self, number: u64, result: io::Result<()>, mut free: impl FnMut(u64)) -> bool {
        let mut list = self.list.borrow_mut();
        let list = &mut *list;
        let entry = list.entry(number);
        // A failed allocation is not yet a failed write: the write itself will tell.
        let fails = result.is_err() && entry.kind != Kind::Allocate;
        entry.state = State::Done(result);
        list.failed |= fails;
        for i in 0..list.entries.len() {
            if matches!(list.entries[i].state, State::Blocked) && !list.is_blocked(i) {
                list.entries[i].state = State::Queued;
                free(list.first + i as u64);
            }
        }
        matches!(list.entries.front(), Some(Entry { state: State::Done(_), .. }))
    }

    /// Takes the front job if it ended.
    pub(crate) fn pop_finished(&self) -> Option<Finished> {
        let mut list = self.list.borrow_mut();
        if !matches!(list.entries.front()?.state, State::Done(_)) {
            return None;
        }
        let entry = list.entries.pop_front()?;
        list.first += 1;
        match entry.state {
            State::Done(result) => Some(Finished { kind: entry.kind, then: entry.then, result }),
            _ => None,
        }
    }

    /// Number of the job that would be pushed next; all jobs below [`Self::first`] were taken.
    pub(crate) fn next(&self) -> u64 {
        let list = self.list.borrow();
        list.first + list.entries.len() as u64
    }

    /// Number of the first job that was not taken yet.
    pub(crate) fn first(&self) -> u64 {
        self.list.borrow().first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.borrow().entries.is_empty()
    }

    /// Lets jobs be tried again after a failure. The list must be empty.
    pub(crate) fn forgive(&self) {
        let mut list = self.list.borrow_mut();
        assert!(list.entries.is_empty(), "the jobs of a failed log are taken before it goes on");
        list.failed = false;
    }

    pub(crate) fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        match &*waiting {
            Some(known) if known.will_wake(waker) => {}
            _ => *waiting = Some(waker.clone()),
        }
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waiting.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl<D: Disk> List<D> {
    fn entry(&mut self, number: u64) -> &mut Entry<D> {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.entries.get_mut(index)).expect("a job stays listed until its log takes it")
    }

    /// Whether an earlier job that has not ended shares bytes with job `index`.
    fn is_blocked(&self, index: usize) -> bool {
        let job = &self.entries[index];
        self.entries.iter().take(index).any(|earlier| {
            let shares = earlier.touches.start < job.touches.end
                && job.touches.start < earlier.touches.end
                && Rc::ptr_eq(&earlier.file, &job.file);
            !matches!(earlier.state, State::Done(_)) && shares
        })
    }
}

impl<D: Disk> fmt::Debug for Jobs<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.borrow();
        f.debug_struct("Jobs").field("first", &list.first).field("listed", &list.entries.len()).finish()
    }
}
