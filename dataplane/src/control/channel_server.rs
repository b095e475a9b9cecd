//! Makes the region, and hands it out on `STATE/channel.sock` from a plain thread.
//!
//! One control plane at a time: a new one puts the earlier one out by closing its connection. Observers get the region opened
//! for reading, no bells. Whoever does not say who he is within a second is dropped. The caller holds the lock of STATE, so a
//! socket file left by a killed process may be replaced; that is done by rename, with its mode set before anyone can connect.

use super::inbox::Inbox;
use super::outbox::Outbox;
use crate::metrics::Metrics;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, chmod, open, rename, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, accept_with, bind, listen, recv, socket_with, sockopt,
};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};
use twinlog_proto::channel::attach::{Reply, Role, SOCKET_NAME, Status, send_reply, unix_address};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::layout::{BadGeometry, Geometry, LAYOUT_VERSION};
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

fn system(what: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| ChannelError::System { what, source: errno.into() }
}

/// The region and all that is handed out with it.
#[derive(Debug)]
pub struct Channel {
    region: Region,
    /// The same for this process alone: what it shows is what the cores published, whatever the other side does.
    own: Region,
    handout: Handout,
}

/// The place of one core; goes to its thread.
#[derive(Debug)]
pub struct Seat {
    region: Region,
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
        let (region, file) = Region::create(geometry, stamp())?;
        // Only its board is used: memory that nobody touches costs nothing.
        let (own, _unshared) = Region::create(geometry, region.stamp())?;
        let fd = file.as_raw_fd();
        let reading = open(format!("/proc/self/fd/{fd}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(system("open the shared memory for reading (is /proc mounted?)"))?;
        let mut handout = Handout { file, reading, bells: Vec::with_capacity(2 * cores as usize) };
        let mut seats = Vec::with_capacity(cores as usize);
        let bell = "make a doorbell (raise the limit of open files)";
        for core in 0..cores {
            let orders_bell = Doorbell::for_orders().map_err(system(bell))?;
            let events_bell = Doorbell::for_events().map_err(system(bell))?;
            handout.bells.push(orders_bell.try_clone().map_err(system(bell))?);
            handout.bells.push(events_bell.try_clone().map_err(system(bell))?);
            seats.push(Seat { region: region.clone(), own: own.clone(), core, orders_bell, events_bell });
        }
        Ok((Self { region, own, handout }, seats))
    }

    /// What was published, for decisions within this process: the shared board is in the hands of the other plane too.
    #[must_use]
    pub fn own(&self) -> &Region {
        &self.own
    }

    /// The region that is handed out.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
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
        let Self { region, own, core, orders_bell, events_bell } = self;
        let metrics = Metrics::shared(region.page_writer(core));
        let inbox = Inbox::new(region.order_consumer(core), orders_bell, metrics.clone());
        let events = region.event_producer(core);
        let outbox = Outbox::new(region, &own, events, events_bell, metrics.clone());
        CoreEnds { inbox, outbox, metrics }
    }
}

/// The thread that listens; ends when this is stopped or dropped.
#[derive(Debug)]
pub struct ChannelServer {
    path: PathBuf,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    wanted: AtomicBool,
    bell: Doorbell,
}

impl ChannelServer {
    /// Listens on `STATE/channel.sock` and hands out `channel`. The caller holds the lock of STATE.
    ///
    /// # Errors
    /// When the socket or the thread cannot be made.
    pub fn start(channel: Channel, state: &Path) -> Result<Self, ChannelError> {
        let path = state.join(SOCKET_NAME);
        let listener =
            listen_on(&path).map_err(|errno| ChannelError::Listen { path: path.clone(), source: errno.into() })?;
        let bell = Doorbell::for_events().map_err(system("make a doorbell (raise the limit of open files)"))?;
        let stop = Arc::new(Stop { wanted: AtomicBool::new(false), bell });
        let mut serving = Serving {
            reply: Reply {
                layout_version: LAYOUT_VERSION,
                generation: channel.region.stamp().generation,
                status: Status::Welcome,
                cores: channel.region.geometry().cores(),
            },
            handout: channel.handout,
            listener,
            clients: Vec::new(),
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("channel".to_owned())
            .spawn(move || serving.run())
            .map_err(|source| ChannelError::System { what: "start the channel's thread", source })?;
        Ok(Self { path, stop, thread: Some(thread) })
    }

    /// Closes all connections, so that the other side knows, and removes the socket.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ChannelServer {
    fn drop(&mut self) {
        self.stop.wanted.store(true, Ordering::Release);
        // The bell's write cannot fail on an eventfd of ours; were it so, the thread ends with the process.
        if self.stop.bell.ring().is_ok()
            && let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the channel's thread panicked");
        }
        unlink(&self.path).ok();
    }
}

/// Descriptors to hand out.
#[derive(Debug)]
struct Handout {
    file: OwnedFd,
    reading: OwnedFd,
    /// Per core: orders, events.
    bells: Vec<Doorbell>,
}

impl Handout {
    fn for_role(&self, role: Role) -> Vec<BorrowedFd<'_>> {
        match role {
            Role::Control => std::iter::once(self.file.as_fd()).chain(self.bells.iter().map(AsFd::as_fd)).collect(),
            Role::Observer => vec![self.reading.as_fd()],
        }
    }
}

struct Client {
    socket: OwnedFd,
    since: Instant,
    /// Not known before his first byte.
    role: Option<Role>,
}

struct Serving {
    handout: Handout,
    reply: Reply,
    listener: OwnedFd,
    clients: Vec<Client>,
    stop: Arc<Stop>,
}

const CLIENTS_MAX: usize = 64;
const BACKLOG: i32 = 16;
const INTRODUCTION_MS_MAX: u64 = 1000;
/// How often the thread looks at who has not introduced himself, while there is such a client.
const LOOK_MS: u64 = 250;
/// Pause after a failed accept (no descriptors left), so that the thread does not spin.
const ACCEPT_PAUSE_MS: u64 = 100;

impl Serving {
    fn run(&mut self) {
        while !self.stop.wanted.load(Ordering::Acquire) {
            let (knocking, speaking) = self.wait();
            // From the last on, so that removing one does not move those still to be looked at.
            for at in speaking.into_iter().rev() {
                self.hear(at);
            }
            if knocking {
                self.let_in();
            }
            let late = |client: &Client| {
                client.role.is_none() && client.since.elapsed().as_millis() as u64 >= INTRODUCTION_MS_MAX
            };
            self.clients.retain(|client| !late(client));
        }
    }

    /// Waits for something to happen: whether somebody knocks, and which clients can be read.
    fn wait(&self) -> (bool, Vec<usize>) {
        let mut fds = vec![PollFd::new(&self.stop.bell, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.socket, PollFlags::IN)));
        let stranger = self.clients.iter().any(|client| client.role.is_none());
        let look = Timespec { tv_sec: 0, tv_nsec: (LOOK_MS * 1_000_000) as i64 };
        match poll(&mut fds, stranger.then_some(&look)) {
            Ok(_) => {}
            Err(Errno::INTR) => return (false, Vec::new()),
            Err(errno) => {
                tracing::error!(%errno, "the channel's thread cannot wait for its clients; it tries again");
                std::thread::sleep(std::time::Duration::from_millis(ACCEPT_PAUSE_MS));
                return (false, Vec::new());
            }
        }
        let speaking = (2..fds.len()).filter(|at| !fds[*at].revents().is_empty()).map(|at| at - 2).collect();
        (!fds[1].revents().is_empty(), speaking)
    }

    fn let_in(&mut self) {
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) if self.clients.len() < CLIENTS_MAX => {
                self.clients.push(Client { socket, since: Instant::now(), role: None });
            }
            Ok(socket) => self.answer(socket.as_fd(), Status::TooManyClients, &[]),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => {
                tracing::error!(%errno, "a client of the channel cannot be let in; raise the limit of open files");
                std::thread::sleep(std::time::Duration::from_millis(ACCEPT_PAUSE_MS));
            }
        }
    }

    /// A client speaks, or is gone. Who speaks out of turn is treated as gone.
    fn hear(&mut self, at: usize) {
        let mut byte = [0];
        let client = &self.clients[at];
        match recv(&client.socket, &mut byte, RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((_, 1)) if client.role.is_none() => self.introduce(at, byte[0]),
            Ok(_) | Err(_) => {
                if client.role == Some(Role::Control) {
                    tracing::info!("the control plane is gone; records flow on");
                }
                self.clients.remove(at);
            }
        }
    }

    fn introduce(&mut self, at: usize, byte: u8) {
        let socket = self.clients[at].socket.as_fd();
        let Some(role) = Role::from_byte(byte) else {
            self.answer(socket, Status::NoSuchRole, &[]);
            self.clients.remove(at);
            return;
        };
        self.answer(socket, Status::Welcome, &self.handout.for_role(role));
        self.clients[at].role = Some(role);
        if role == Role::Control {
            let pid =
                sockopt::socket_peercred(self.clients[at].socket.as_fd()).map(|peer| peer.pid.as_raw_nonzero().get());
            tracing::info!(pid = pid.unwrap_or(0), "a control plane is attached");
            let mut others = 0..;
            // `at` counts in the old list.
            self.clients.retain(|client| others.next() == Some(at) || client.role != Some(Role::Control));
        }
    }

    /// A client that does not take its answer finds out by itself: it waits for one with a deadline.
    fn answer(&self, socket: BorrowedFd<'_>, status: Status, fds: &[BorrowedFd<'_>]) {
        if let Err(errno) = send_reply(socket, &Reply { status, ..self.reply }, fds) {
            tracing::warn!(%errno, "a client of the channel did not take its answer");
        }
    }
}

fn listen_on(path: &Path) -> Result<OwnedFd, Errno> {
    let aside = path.with_extension("sock.new");
    match unlink(&aside) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, folder) = unix_address(&aside)?;
    bind(&listener, &address)?;
    drop(folder);
    // Nobody can connect before `listen`.
    chmod(&aside, Mode::RUSR | Mode::WUSR)?;
    listen(&listener, BACKLOG)?;
    rename(&aside, path)?;
    Ok(listener)
}

fn stamp() -> Stamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let pid = std::process::id();
    // The hasher's keys are random, from the system.
    let generation = RandomState::new().hash_one((pid, now)).max(1);
    Stamp { generation, pid, started_at_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests;
