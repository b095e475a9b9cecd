//! Deadlines of connections, looked after by the core's tick: a timer for each receive would cost more than the receive.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use super::End;

/// The deadline of one connection. Past it the stream is ended, and whoever waits for its bytes gets its end.
pub struct Watch {
    deadline: Cell<Option<Instant>>,
    expired: Cell<bool>,
    ended: Cell<bool>,
    stream: Rc<dyn End>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("deadline", &self.deadline)
            .field("expired", &self.expired)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Sets the deadline; `None`: the connection may be idle.
    pub fn set(&self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    /// Moves the deadline away, because bytes came or will be asked for; not behind `latest`, for what came fast is no reason
    /// to wait long for the rest.
    pub fn extend(&self, by: Duration, latest: Instant) {
        if let Some(deadline) = self.deadline.get() {
            self.deadline.set(Some((deadline + by).min(latest)));
        }
    }

    /// Whether the stream was ended because the deadline had passed.
    #[must_use]
    pub fn expired(&self) -> bool {
        self.expired.get()
    }

    /// Whether our own side ended the stream by order.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.get()
    }

    /// Ends the stream by order.
    pub fn end(&self) {
        self.ended.set(true);
        self.stream.end();
    }
}

/// All connections of a core.
#[derive(Debug, Default)]
pub struct Watchdog {
    watches: RefCell<Vec<Weak<Watch>>>,
}

impl Watchdog {
    /// Looks after a new stream.
    pub fn watch(&self, stream: Rc<dyn End>) -> Rc<Watch> {
        let watch =
            Rc::new(Watch { deadline: Cell::new(None), expired: Cell::new(false), ended: Cell::new(false), stream });
        self.watches.borrow_mut().push(Rc::downgrade(&watch));
        watch
    }

    /// Ends every stream whose deadline has passed.
    pub fn check(&self, now: Instant) {
        self.watches.borrow_mut().retain(|weak| {
            let Some(watch) = weak.upgrade() else { return false };
            if watch.deadline.get().is_some_and(|deadline| deadline <= now) {
                watch.expired.set(true);
                watch.deadline.set(None);
                watch.stream.end();
            }
            true
        });
    }

    /// Ends every stream by order.
    pub fn end_all(&self) {
        for watch in self.watches.borrow().iter().filter_map(Weak::upgrade) {
            watch.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(Cell<u32>);

    impl End for Counted {
        fn end(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_stream_is_ended_once_its_deadline_has_passed_and_not_before() {
        let (watchdog, stream) = (Watchdog::default(), Rc::new(Counted::default()));
        let watch = watchdog.watch(Rc::<Counted>::clone(&stream));
        let now = Instant::now();
        watch.set(Some(now + Duration::from_secs(1)));
        watchdog.check(now);
        watch.extend(Duration::from_secs(1), now + Duration::from_secs(60));
        watchdog.check(now + Duration::from_secs(1));
        assert!(!watch.expired() && stream.0.get() == 0);
        watchdog.check(now + Duration::from_secs(2));
        watchdog.check(now + Duration::from_secs(3));
        assert!(watch.expired() && !watch.ended());
        assert_eq!(stream.0.get(), 1, "ended once, although checked again");
    }

    #[test]
    fn a_lot_that_came_fast_buys_no_long_silence() {
        let (watchdog, stream) = (Watchdog::default(), Rc::new(Counted::default()));
        let watch = watchdog.watch(Rc::<Counted>::clone(&stream));
        let now = Instant::now();
        watch.set(Some(now + Duration::from_secs(30)));
        for _megabyte in 0..100 {
            watch.extend(Duration::from_secs(64), now + Duration::from_secs(30));
        }
        watchdog.check(now + Duration::from_secs(29));
        assert_eq!(stream.0.get(), 0);
        watchdog.check(now + Duration::from_secs(30));
        assert!(watch.expired());
    }

    #[test]
    fn a_connection_that_is_gone_is_no_longer_looked_after() {
        let (watchdog, stream) = (Watchdog::default(), Rc::new(Counted::default()));
        drop(watchdog.watch(Rc::<Counted>::clone(&stream)));
        watchdog.end_all();
        watchdog.check(Instant::now());
        assert_eq!(stream.0.get(), 0);
        assert!(watchdog.watches.borrow().is_empty());
    }
}
