//! What the cores and the channel's thread tell each other of the region: which one is the present one, and what damage was found.
//!
//! ```text
//! core (tick):      desk.number() is another one -> Outbox::move_over: the new region shows what the core knows -> desk.moved()
//! core, anywhere:   damage -> desk.report()      -> the channel's thread wakes
//! channel's thread: desk.found() -> makes a region -> desk.replace() -> desk.wait_moved() -> hands it out
//! ```
//! A core takes the lock when it moves and when it found damage, never while all is well.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use twinlog_proto::channel::damage::Damage;
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::region::Region;

/// See the module text.
#[derive(Debug)]
pub struct Desk {
    number: AtomicU64,
    present: Mutex<Present>,
    moved: Condvar,
    bell: Doorbell,
}

#[derive(Debug)]
struct Present {
    region: Region,
    /// What was found first in this region.
    found: Option<Damage>,
    /// Cores that use this region.
    cores: u32,
}

impl Desk {
    /// The desk of a data plane whose first region is this one.
    ///
    /// # Errors
    /// When the process may not open more files.
    pub fn new(region: Region) -> Result<Self, Errno> {
        let present = Mutex::new(Present { region, found: None, cores: 0 });
        Ok(Self { number: AtomicU64::new(0), present, moved: Condvar::new(), bell: Doorbell::for_events()? })
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        // Nothing that is done under the lock leaves it half done.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the present region; grows by one with each.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The present region and its number.
    #[must_use]
    pub fn region(&self) -> (u64, Region) {
        let present = self.present();
        (self.number(), present.region.clone())
    }

    /// A core shows all it knows in the region with this number; each core says so once.
    pub fn moved(&self, number: u64) {
        let mut present = self.present();
        if number == self.number() {
            present.cores += 1;
            self.moved.notify_all();
        }
    }

    /// Damage in the region with this number: said once of each region, for one that is damaged is so at every look.
    pub fn report(&self, number: u64, damage: Damage, detail: &dyn std::fmt::Display) {
        let mut present = self.present();
        if number != self.number() || present.found.is_some() {
            tracing::debug!(%damage, %detail, "more damage of the shared memory");
            return;
        }
        present.found = Some(damage);
        drop(present);
        tracing::error!(%damage, %detail, "the shared memory is damaged; records flow on, it is made anew");
        // The bell is ours alone; it cannot fail on an eventfd.
        self.bell.ring().ok();
    }

    /// What was found first in the present region.
    #[must_use]
    pub fn found(&self) -> Option<Damage> {
        self.present().found
    }

    /// Makes `region` the present one.
    pub fn replace(&self, region: Region) {
        let mut present = self.present();
        *present = Present { region, found: None, cores: 0 };
        self.number.fetch_add(1, Ordering::Release);
    }

    /// Waits until `cores` cores use the present region; false when they do not in time.
    #[must_use]
    pub fn wait_moved(&self, cores: u32, longest: Duration) -> bool {
        let waited = self.moved.wait_timeout_while(self.present(), longest, |present| present.cores < cores);
        waited.unwrap_or_else(PoisonError::into_inner).0.cores >= cores
    }

    /// Forgets that the bell rang.
    pub fn drain_bell(&self) {
        self.bell.drain().ok();
    }
}

impl AsFd for Desk {
    /// Readable when damage was found.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
