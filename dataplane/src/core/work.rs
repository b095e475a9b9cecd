//! The jobs on logs of one core (open, make, finish, cut): a queue, and a bounded number of workers.
//!
//! A job that waits is a closure of a few words and not a task: fifty thousand of them must not cost memory. Workers end when the
//! queue is empty.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use tokio::sync::Notify;

use super::runtime::spawn;
use crate::limits::LOG_JOBS_PER_CORE;

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>>>;

/// See the module text.
#[derive(Default)]
pub struct Work {
    waiting: RefCell<VecDeque<Job>>,
    workers: Cell<usize>,
    /// Jobs that wait or run.
    jobs: Cell<usize>,
    over: Notify,
}

impl Work {
    /// Queues a job; it begins when a worker is free.
    pub fn push<F: Future<Output = ()> + 'static>(self: &Rc<Self>, job: impl FnOnce() -> F + 'static) {
        self.jobs.set(self.jobs.get() + 1);
        self.waiting.borrow_mut().push_back(Box::new(move || Box::pin(job())));
        if self.workers.get() < LOG_JOBS_PER_CORE {
            self.workers.set(self.workers.get() + 1);
            spawn(Rc::clone(self).run());
        }
    }

    async fn run(self: Rc<Self>) {
        loop {
            let Some(job) = self.waiting.borrow_mut().pop_front() else { break };
            job().await;
            self.done(1);
        }
        self.workers.set(self.workers.get() - 1);
    }

    fn done(&self, jobs: usize) {
        self.jobs.set(self.jobs.get() - jobs);
        if self.jobs.get() == 0 {
            self.over.notify_waiters();
        }
    }

    /// Jobs that wait for a worker.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Forgets the jobs that have not begun.
    pub fn forget_waiting(&self) {
        let forgotten = std::mem::take(&mut *self.waiting.borrow_mut());
        self.done(forgotten.len());
    }

    /// Waits until no job waits or runs.
    pub async fn over(&self) {
        while self.jobs.get() > 0 {
            self.over.notified().await;
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("jobs", &self.jobs).field("workers", &self.workers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_core(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, work);
    }

    #[test]
    fn all_jobs_run_and_never_more_at_once_than_there_may_be() {
        in_a_core(async {
            let (work, running, most, done) =
                <(Rc<Work>, Rc<Cell<usize>>, Rc<Cell<usize>>, Rc<Cell<usize>>)>::default();
            for _ in 0..1000 {
                let (running, most, done) = (Rc::clone(&running), Rc::clone(&most), Rc::clone(&done));
                work.push(move || async move {
                    running.set(running.get() + 1);
                    most.set(most.get().max(running.get()));
                    tokio::task::yield_now().await;
                    running.set(running.get() - 1);
                    done.set(done.get() + 1);
                });
            }
            work.over().await;
            assert_eq!((done.get(), most.get(), work.waiting()), (1000, LOG_JOBS_PER_CORE, 0));
        });
    }

    #[test]
    fn what_has_not_begun_can_be_forgotten_and_later_jobs_run() {
        in_a_core(async {
            let (work, done) = (Rc::<Work>::default(), Rc::new(Cell::new(0)));
            let push = |by: usize| {
                let done = Rc::clone(&done);
                work.push(move || async move { done.set(done.get() + by) });
            };
            (0..100).for_each(|_| push(1));
            work.forget_waiting();
            work.over().await;
            assert_eq!(done.get(), 0, "no worker had begun");
            push(7);
            work.over().await;
            assert_eq!(done.get(), 7);
        });
    }
}
