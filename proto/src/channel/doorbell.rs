//! Doorbells: an eventfd per ring, so that an idle consumer may sleep.
//!
//! Ring after the message is in the ring; before sleeping, drain the bell, look at the ring, then wait for the bell. A ring of the
//! bell that nobody waits for is remembered, many are one. The bell of an order ring blocks (io_uring waits in a read of 8
//! bytes), the bell of an event ring does not (an epoll loop waits for it to be readable).

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, read, write};

/// One end of a doorbell; both ends are alike.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
}

impl Doorbell {
    /// The bell of an order ring: reads of it wait.
    ///
    /// # Errors
    /// When the process may not open more files.
    pub fn for_orders() -> Result<Self, Errno> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC)? })
    }

    /// The bell of an event ring: reads of it do not wait.
    ///
    /// # Errors
    /// When the process may not open more files.
    pub fn for_events() -> Result<Self, Errno> {
        Ok(Self { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// The bell behind a received descriptor.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Wakes the other side. Never waits, unless the other side has made 2^64 rings fit nowhere.
    ///
    /// # Errors
    /// When the descriptor is no eventfd.
    pub fn ring(&self) -> Result<(), Errno> {
        match write(&self.fd, &1_u64.to_ne_bytes()) {
            // Full means that it rings already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Forgets rings so far and says whether there were any. Never waits.
    ///
    /// # Errors
    /// When the descriptor is no eventfd.
    pub fn drain(&self) -> Result<bool, Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now))? == 0 {
            return Ok(false);
        }
        match read(&self.fd, &mut [0_u8; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A second descriptor of the same bell.
    ///
    /// # Errors
    /// When the process may not open more files.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        Ok(Self { fd: rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)? })
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_remembered_and_drained_once() {
        for bell in [Doorbell::for_orders().unwrap(), Doorbell::for_events().unwrap()] {
            assert_eq!(bell.drain(), Ok(false));
            bell.ring().unwrap();
            bell.try_clone().unwrap().ring().unwrap();
            assert_eq!(bell.drain(), Ok(true));
            assert_eq!(bell.drain(), Ok(false));
        }
    }
}
