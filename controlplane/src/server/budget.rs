//! Bytes that all client connections together may hold: for frames that are arriving, and for answers that wait to be taken.
//!
//! A frame takes of the budget what has arrived of it, in steps that double, never what its length claims. Large answers are made
//! one at a time, with everybody else served in between: many who ask for everything keep nobody waiting who asks for little.

use std::cell::Cell;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;
use tokio::time::timeout;

/// The budget.
#[derive(Debug)]
pub struct Budget {
    frames: Semaphore,
    frame_wait: Duration,
    answers_max: usize,
    answers: Cell<usize>,
    turns: Semaphore,
}

/// The right to make a large answer.
#[derive(Debug)]
pub struct Turn<'b>(#[allow(dead_code, reason = "it is held, not looked at")] SemaphorePermit<'b>);

/// Bytes that a frame holds.
#[derive(Debug)]
pub struct Held<'b> {
    budget: &'b Budget,
    permit: Option<SemaphorePermit<'b>>,
}

/// An answer that waits to be taken.
#[derive(Debug)]
pub struct Waiting<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    /// A budget; who gets no bytes of it for `frame_wait` has to go.
    #[must_use]
    pub fn new(frames_max: usize, frame_wait: Duration, answers_max: usize) -> Self {
        Self {
            frames: Semaphore::new(frames_max),
            frame_wait,
            answers_max,
            answers: Cell::new(0),
            turns: Semaphore::new(1),
        }
    }

    /// A frame that holds nothing yet.
    pub fn frame(&self) -> Held<'_> {
        Held { budget: self, permit: None }
    }

    /// Waits for the turn to make a large answer, in the order of asking; `None` when the process ends.
    pub async fn turn(&self) -> Option<Turn<'_>> {
        let turn = self.turns.acquire().await.ok()?;
        // Sockets are looked at before this comes back, and what they brought is served first.
        yield_now().await;
        Some(Turn(turn))
    }

    /// Takes `bytes` for an answer; `None` when too many wait already. The only one may be of any size.
    #[must_use]
    pub fn answer(&self, bytes: usize) -> Option<Waiting<'_>> {
        let others = self.answers.get();
        if others > 0 && others + bytes > self.answers_max {
            return None;
        }
        self.answers.set(others + bytes);
        Some(Waiting { budget: self, bytes })
    }
}

impl Held<'_> {
    /// Takes so many bytes more; false when there were none for long.
    pub async fn more(&mut self, bytes: usize) -> bool {
        let Ok(wanted) = u32::try_from(bytes) else { return false };
        let Ok(Ok(more)) = timeout(self.budget.frame_wait, self.budget.frames.acquire_many(wanted)).await else {
            return false;
        };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.answers.set(self.budget.answers.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_wait_are_bounded_together_but_one_alone_may_be_large() {
        let budget = Budget::new(1, Duration::ZERO, 100);
        let large = budget.answer(500).unwrap();
        assert!(budget.answer(1).is_none());
        drop(large);
        let _some = budget.answer(60).unwrap();
        assert!(budget.answer(41).is_none() && budget.answer(40).is_some());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_come_back_when_a_frame_is_done_and_who_gets_none_is_told() {
        let budget = Budget::new(100, Duration::from_millis(5), 1);
        let mut first = budget.frame();
        assert!(first.more(40).await && first.more(40).await);
        let mut second = budget.frame();
        assert!(!second.more(21).await && second.more(20).await);
        drop(first);
        assert!(second.more(80).await);
    }
}
