//! Small questions on a fixed schedule while something large is under way. The time of an answer counts from the moment at which its
//! question was due: one long wait is as many late answers as were due in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use twinlog_proto::messages::list_mirrors::ListMirrorsRequest;

use super::peer::Peer;
use crate::run::RunError;

const EVERY: Duration = Duration::from_millis(10);

/// A thread that asks.
#[derive(Debug)]
pub struct Probes {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<f64>, RunError>>,
}

impl Probes {
    /// Starts to ask the control plane that listens there.
    ///
    /// # Errors
    /// When nobody does.
    pub fn start(listen: &str) -> Result<Self, RunError> {
        let (peer, over) = (Peer::connect(listen)?, Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&over);
        Ok(Self { over, thread: thread::spawn(move || ask(peer, &told)) })
    }

    /// Stops asking; gives how long the answers took, in ms.
    ///
    /// # Errors
    /// When one did not come.
    pub fn end(self) -> Result<Vec<f64>, RunError> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_panic| RunError::Planes("the thread that asks panicked".into()))?
    }
}

fn ask(mut peer: Peer, over: &AtomicBool) -> Result<Vec<f64>, RunError> {
    let (mut schedule, mut took_ms) = (Schedule { due: Instant::now() }, Vec::new());
    while !over.load(Ordering::Relaxed) {
        peer.ask(&ListMirrorsRequest::default())?;
        took_ms.push(schedule.answered(Instant::now()).as_secs_f64() * 1e3);
        thread::sleep(schedule.due.saturating_duration_since(Instant::now()));
    }
    Ok(took_ms)
}

/// When the next question is due; it never moves.
struct Schedule {
    due: Instant,
}

impl Schedule {
    /// How long the answer took that came `now`.
    fn answered(&mut self, now: Instant) -> Duration {
        let took = now.saturating_duration_since(self.due);
        self.due += EVERY;
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_during_a_long_wait_is_late_too() {
        let start = Instant::now();
        let mut schedule = Schedule { due: start };
        let ms = Duration::from_millis;
        let answers = [ms(1), ms(41), ms(42), ms(43), ms(44), ms(51)];
        let took = answers.map(|after| schedule.answered(start + after));
        assert_eq!(took, [ms(1), ms(31), ms(22), ms(13), ms(4), ms(1)]);
    }
}
