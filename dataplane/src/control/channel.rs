//! The region, what is handed out with it, and the seats of the cores.
//!
//! A second region, which no other process can reach, holds the board and the counters that this process goes by.

use super::desk::Desk;
use super::inbox::Inbox;
use super::outbox::Outbox;
use crate::metrics::Metrics;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::layout::{BadGeometry, Geometry};
use twinlog_proto::channel::region::{Region, RegionError, Stamp};

/// Entries of each order ring unless told otherwise.
pub const ORDER_ENTRIES: u32 = 256;
/// Entries of each event ring unless told otherwise.
pub const EVENT_ENTRIES: u32 = 4096;
/// Board slots unless told otherwise; untouched ones cost no memory.
pub const SLOTS: u32 = 1 << 16;

/// Why there is no channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Too many cores or slots.
    #[error("the channel cannot be made: {0}")]
    Geometry(#[from] BadGeometry),
    /// The region could not be made.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A doorbell, a descriptor or the thread could not be made.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The socket could not be made.
    #[error("cannot listen on {}: {source}; is STATE a directory of this user on a local filesystem?", path.display())]
    Listen {
        /// The socket's path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| ChannelError::System { what, source: errno.into() }
}

/// The region and all that is handed out with it.
#[derive(Debug)]
pub struct Channel {
    pub(super) desk: Arc<Desk>,
    /// The same for this process alone: it holds what the cores published and counted, whatever the other side does.
    own: Region,
    pub(super) handout: Handout,
}

/// The place of one core; goes to its thread.
#[derive(Debug)]
pub struct Seat {
    desk: Arc<Desk>,
    own: Region,
    core: u32,
    orders_bell: Doorbell,
    events_bell: Doorbell,
}

/// What a core has of the channel; does not leave its thread.
#[derive(Debug)]
pub struct CoreEnds {
    /// Orders.
    pub inbox: Inbox,
    /// Progress and events.
    pub outbox: Outbox,
    /// Counters and delays.
    pub metrics: Metrics,
}

impl Channel {
    /// Makes the region, new at each start, and a seat for each of `cores` cores.
    ///
    /// # Errors
    /// When there are too many cores or slots, or the system has no memory or descriptors left.
    pub fn open(cores: u32, slots: u32) -> Result<(Self, Vec<Seat>), ChannelError> {
        let geometry = Geometry::new(cores.into(), slots.into(), ORDER_ENTRIES.into(), EVENT_ENTRIES.into())?;
        let (region, files) = Files::make(geometry)?;
        // Its rings are not used: memory that nobody touches costs nothing.
        let (own, _unshared) = Region::create(geometry, region.stamp())?;
        let mut handout = Handout { files, bells: Vec::with_capacity(2 * cores as usize) };
        let bell = "make a doorbell (raise the limit of open files)";
        let desk = Arc::new(Desk::new(region).map_err(system(bell))?);
        let mut seats = Vec::with_capacity(cores as usize);
        for core in 0..cores {
            let orders_bell = Doorbell::for_orders().map_err(system(bell))?;
            let events_bell = Doorbell::for_events().map_err(system(bell))?;
            handout.bells.push(orders_bell.try_clone().map_err(system(bell))?);
            handout.bells.push(events_bell.try_clone().map_err(system(bell))?);
            seats.push(Seat { desk: Arc::clone(&desk), own: own.clone(), core, orders_bell, events_bell });
        }
        Ok((Self { desk, own, handout }, seats))
    }

    /// What was published, for decisions within this process: the shared board is in the hands of the other plane too.
    #[must_use]
    pub fn own(&self) -> &Region {
        &self.own
    }

    /// The region that is handed out now.
    #[must_use]
    pub fn region(&self) -> Region {
        self.desk.region().1
    }
}

impl Seat {
    /// The number of the core.
    #[must_use]
    pub fn core(&self) -> u32 {
        self.core
    }

    /// Takes the seat, on the core's thread.
    #[must_use]
    pub fn take(self) -> CoreEnds {
        let Self { desk, own, core, orders_bell, events_bell } = self;
        let metrics = Metrics::shared(own.page_writer(core));
        let inbox = Inbox::new(core, Arc::clone(&desk), orders_bell, metrics.clone());
        let outbox = Outbox::new(core, desk, own, events_bell, metrics.clone());
        CoreEnds { inbox, outbox, metrics }
    }
}

/// A region's file.
#[derive(Debug)]
pub(super) struct Files {
    file: OwnedFd,
    /// The same, opened for reading only.
    reading: OwnedFd,
}

impl Files {
    /// Makes a region.
    pub(super) fn make(geometry: Geometry) -> Result<(Region, Self), ChannelError> {
        let (region, file) = Region::create(geometry, stamp())?;
        let fd = file.as_raw_fd();
        let reading = open(format!("/proc/self/fd/{fd}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(system("open the shared memory for reading (is /proc mounted?)"))?;
        Ok((region, Self { file, reading }))
    }
}

/// Descriptors to hand out.
#[derive(Debug)]
pub(super) struct Handout {
    pub(super) files: Files,
    /// Per core: orders, events.
    bells: Vec<Doorbell>,
}

impl Handout {
    /// For a control plane or for one who only looks.
    pub(super) fn descriptors(&self, control: bool) -> Vec<BorrowedFd<'_>> {
        match control {
            true => std::iter::once(self.files.file.as_fd()).chain(self.bells.iter().map(AsFd::as_fd)).collect(),
            false => vec![self.files.reading.as_fd()],
        }
    }
}

fn stamp() -> Stamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let pid = std::process::id();
    // The hasher's keys are random, from the system.
    let generation = RandomState::new().hash_one((pid, now)).max(1);
    Stamp { generation, pid, started_at_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX) }
}
