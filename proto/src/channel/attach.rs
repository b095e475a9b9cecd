//! The handshake on `STATE/channel.sock`, both ends of it, and what a client gets: [`attach_control`], [`attach_observer`].
//!
//! The client says who it is, the data plane answers (`handshake`), with descriptors: the region, and for a control plane per
//! core the bell of its orders and the bell of its events. Then both keep the connection open without a word: its end is the
//! sign that the peer is gone, that another control plane took the place of this one, or that there is news of the region: it
//! was made anew, or is damaged. A client must stop using the region then, and attach again.

use super::board::NoSuchSlot;
use super::doorbell::Doorbell;
use super::handshake::{Hello, Memory, REPLY_BYTES, Reply, Status, version_of};
use super::layout::{CORES_MAX, LAYOUT_VERSION};
use super::message::{BadMessage, Event, Order};
use super::region::{Region, RegionError, View, Window};
use super::ring::{Broken, Consumer, Producer, PushError};
use core::fmt;
use core::mem::MaybeUninit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, open, stat};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send, sendmsg,
    socket_with,
};
use rustix::process::geteuid;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of the socket within STATE.
pub const SOCKET_NAME: &str = "channel.sock";
/// How long a client waits for the answer; the data plane answers from a thread that does nothing else.
pub const ANSWER_TIMEOUT_MS: u32 = 2000;

/// Why there is no channel to the data plane.
#[derive(Debug)]
pub enum AttachError {
    /// Nobody listens: the data plane does not run, or is starting.
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// The system's answer.
        cause: Errno,
    },
    /// The socket may have been made by somebody else.
    NotOurs {
        /// The socket's path.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system refused a step of the handshake.
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        cause: Errno,
    },
    /// The answer is none that a data plane gives.
    BadAnswer(&'static str),
    /// The data plane is of another version.
    Version {
        /// Its layout version.
        found: u64,
    },
    /// The data plane refused.
    Refused(Status),
    /// The region is unusable.
    Region(RegionError),
    /// The region's header is not what its maker wrote: ask for another one, with [`Hello::Damaged`].
    Damaged {
        /// The generation that the data plane names.
        generation: u64,
        /// What is wrong.
        cause: RegionError,
    },
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRunning { path, cause } => {
                write!(
                    f,
                    "the data plane does not answer on {} ({cause}): start it, or give its --state",
                    path.display()
                )
            }
            Self::NotOurs { path, why } => write!(f, "{} is not trusted: {why}", path.display()),
            Self::System { what, cause } => write!(f, "cannot {what} the data plane's channel: {cause}"),
            Self::BadAnswer(why) => {
                write!(f, "the data plane's channel gave a wrong answer: {why}; restart the data plane")
            }
            Self::Version { found } => write!(
                f,
                "the data plane speaks channel version {found}, this program version {LAYOUT_VERSION}: \
                 run both planes from the same release"
            ),
            Self::Refused(Status::TooManyClients) => {
                f.write_str("the data plane has too many observers already: end one of them")
            }
            Self::Refused(status) => write!(f, "the data plane refuses the channel ({status:?}): see its log"),
            Self::Region(error) => error.fmt(f),
            Self::Damaged { cause, .. } => {
                write!(f, "the header of the shared memory is damaged, another one is asked for: {cause}")
            }
        }
    }
}

impl core::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NotRunning { cause, .. } | Self::System { cause, .. } => Some(cause),
            Self::Region(error) | Self::Damaged { cause: error, .. } => Some(error),
            _ => None,
        }
    }
}

/// What the control plane has of the data plane.
#[derive(Debug)]
pub struct Control {
    /// The region; its board and pages.
    pub region: Region,
    /// The way to each core.
    pub cores: Vec<CoreLine>,
    /// What the data plane tells of the region's past.
    pub memory: Memory,
    /// Readable (at its end) when the data plane is gone or let another control plane in.
    pub socket: OwnedFd,
}

/// The rings and bells of one core, as the control plane has them.
#[derive(Debug)]
pub struct CoreLine {
    orders: Producer<Window>,
    events: Consumer<Window>,
    orders_bell: Doorbell,
    /// Rings when there may be events; does not block.
    pub events_bell: Doorbell,
}

/// An event that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeError {
    /// The ring is broken: nothing more comes out of it until the region is made anew; the board still tells all.
    Broken(Broken),
    /// The message is none; it was taken out, the next may be read.
    BadMessage(BadMessage),
    /// An event of a slot that the board does not have; it was taken out.
    NoSuchSlot(NoSuchSlot),
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(broken) => broken.fmt(f),
            Self::BadMessage(bad) => bad.fmt(f),
            Self::NoSuchSlot(slot) => slot.fmt(f),
        }
    }
}

impl core::error::Error for TakeError {}

impl Control {
    /// Whether the data plane has closed the connection. Never waits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_over(self.socket.as_fd())
    }

    /// Sends an order to `core` and rings its bell.
    ///
    /// # Errors
    /// When the ring is full or broken. A broken ring was started anew: send all orders again.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn send(&mut self, core: u32, order: &Order) -> Result<(), PushError> {
        let line = &mut self.cores[core as usize];
        let pushed = line.orders.push(&order.to_words());
        if let Err(PushError::Broken(_)) = pushed {
            line.orders = self.region.order_producer(core);
        }
        // The bell only shortens the wait: a core looks at its ring at each turn.
        line.orders_bell.ring().ok();
        pushed
    }

    /// Takes the next event of `core`, if there is one.
    ///
    /// # Errors
    /// See [`TakeError`].
    ///
    /// # Panics
    /// When there is no such core.
    pub fn take(&mut self, core: u32) -> Result<Option<Event>, TakeError> {
        let Some(words) = self.cores[core as usize].events.pop().map_err(TakeError::Broken)? else { return Ok(None) };
        let event = Event::from_words(&words).map_err(TakeError::BadMessage)?;
        let slots = self.region.geometry().slots();
        match event {
            Event::Changed { slot } | Event::Fault { slot, .. } if slot >= slots => {
                Err(TakeError::NoSuchSlot(NoSuchSlot { slot, slots }))
            }
            _ => Ok(Some(event)),
        }
    }
}

/// What an observer has of the data plane.
#[derive(Debug)]
pub struct Observer {
    /// The region, mapped for reading.
    pub view: View,
    /// Readable (at its end) when the data plane is gone.
    pub socket: OwnedFd,
}

impl Observer {
    /// Whether the data plane has closed the connection. Never waits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_over(self.socket.as_fd())
    }
}

/// Attaches as the control plane, to `STATE/channel.sock`; an earlier control plane is put out.
///
/// # Errors
/// See [`AttachError`]; waits [`ANSWER_TIMEOUT_MS`] at most.
pub fn attach_control(socket: &Path) -> Result<Control, AttachError> {
    attach_control_as(socket, Hello::Control)
}

/// The same for a control plane that may have something to say of the region it had: `hello` must be one of a control plane.
///
/// # Errors
/// As [`attach_control`].
pub fn attach_control_as(socket: &Path, hello: Hello) -> Result<Control, AttachError> {
    let (socket, reply, mut fds) = shake_hands(socket, hello)?;
    let region = Region::attach(&take_first(&mut fds)?).map_err(|cause| damaged(reply.generation, cause))?;
    let cores = region.geometry().cores();
    if fds.len() != 2 * reply.cores as usize {
        return Err(AttachError::BadAnswer("it has not two doorbells for each core"));
    }
    if reply.cores != cores || reply.generation != region.stamp().generation {
        // The socket's word is worth more than the memory's.
        let cause = RegionError::Stranger { found: region.stamp().generation };
        return Err(AttachError::Damaged { generation: reply.generation, cause });
    }
    let mut bells = fds.into_iter().map(Doorbell::from_fd);
    let mut lines = Vec::with_capacity(cores as usize);
    for core in 0..cores {
        let (Some(orders_bell), Some(events_bell)) = (bells.next(), bells.next()) else {
            return Err(AttachError::BadAnswer("a doorbell is missing"));
        };
        let (orders, events) = (region.order_producer(core), region.event_consumer(core));
        lines.push(CoreLine { orders, events, orders_bell, events_bell });
    }
    Ok(Control { region, cores: lines, memory: reply.memory, socket })
}

/// Attaches as one who only looks, to `STATE/channel.sock`.
///
/// # Errors
/// See [`AttachError`]; waits [`ANSWER_TIMEOUT_MS`] at most.
pub fn attach_observer(socket: &Path) -> Result<Observer, AttachError> {
    let (socket, reply, mut fds) = shake_hands(socket, Hello::Observer)?;
    let view = View::attach(&take_first(&mut fds)?).map_err(|cause| damaged(reply.generation, cause))?;
    if !fds.is_empty() || reply.generation != view.stamp().generation {
        return Err(AttachError::BadAnswer("its descriptors do not fit its region"));
    }
    Ok(Observer { view, socket })
}

/// The address of a socket file, also where its path is longer than an address may be (108 bytes): the address then goes
/// through the folder's descriptor, which must be kept open until the address was used.
///
/// # Errors
/// When the folder cannot be opened, or `/proc` is missing where it is needed.
pub fn unix_address(path: &Path) -> Result<(SocketAddrUnix, Option<OwnedFd>), Errno> {
    match SocketAddrUnix::new(path) {
        Ok(address) => return Ok((address, None)),
        Err(Errno::NAMETOOLONG) => {}
        Err(error) => return Err(error),
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut short = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    short.extend_from_slice(name.as_bytes());
    Ok((SocketAddrUnix::new(&short[..])?, Some(folder)))
}

/// The data plane's end: sends the answer and, when welcome, the descriptors. Never waits.
///
/// # Errors
/// When the client is gone, or does not take the whole answer.
pub fn send_reply(client: BorrowedFd<'_>, reply: &Reply, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let bytes = reply.to_bytes();
    let mut space = [MaybeUninit::uninit(); FDS_SPACE_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    let sent = sendmsg(client, &[IoSlice::new(&bytes)], &mut control, flags)?;
    if sent == REPLY_BYTES { Ok(()) } else { Err(Errno::MSGSIZE) }
}

const FDS_MAX: usize = 1 + 2 * CORES_MAX as usize;
const FDS_SPACE_BYTES: usize = rustix::cmsg_space!(ScmRights(FDS_MAX));

/// What is wrong with a region that its maker had checked is damage, unless the system refused a step.
fn damaged(generation: u64, cause: RegionError) -> AttachError {
    match cause {
        RegionError::System { .. } | RegionError::NotSealed => AttachError::Region(cause),
        cause => AttachError::Damaged { generation, cause },
    }
}

fn shake_hands(path: &Path, hello: Hello) -> Result<(OwnedFd, Reply, Vec<OwnedFd>), AttachError> {
    let not_running = |cause| AttachError::NotRunning { path: path.to_owned(), cause };
    check_owner(path)?;
    let (address, folder) = unix_address(path).map_err(not_running)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|cause| AttachError::System { what: "open a socket for", cause })?;
    connect(&socket, &address).map_err(not_running)?;
    drop(folder);
    send(&socket, &hello.to_bytes(), SendFlags::NOSIGNAL).map_err(not_running)?;
    let (reply, fds) = receive_reply(socket.as_fd())?;
    if reply.status != Status::Welcome {
        return Err(AttachError::Refused(reply.status));
    }
    Ok((socket, reply, fds))
}

fn check_owner(path: &Path) -> Result<(), AttachError> {
    let facts = stat(path).map_err(|cause| AttachError::NotRunning { path: path.to_owned(), cause })?;
    let not_ours = |why| Err(AttachError::NotOurs { path: path.to_owned(), why });
    let me = geteuid().as_raw();
    if FileType::from_raw_mode(facts.st_mode) != FileType::Socket {
        return not_ours("it is no socket");
    }
    // Root may look at anybody's data plane: what lies in the region is checked in any case.
    if facts.st_uid != me && me != 0 {
        return not_ours("it belongs to another user; run as the user of the data plane");
    }
    if facts.st_mode & 0o077 != 0 {
        return not_ours("others than its owner may use it; its mode must be 0600");
    }
    Ok(())
}

fn receive_reply(socket: BorrowedFd<'_>) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
    let system = |cause| AttachError::System { what: "read the answer of", cause };
    let patience = Timespec {
        tv_sec: i64::from(ANSWER_TIMEOUT_MS / 1000),
        tv_nsec: i64::from(ANSWER_TIMEOUT_MS % 1000) * 1_000_000,
    };
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&patience)).map_err(system)? == 0 {
        return Err(AttachError::System { what: "get an answer within 2 s from", cause: Errno::TIMEDOUT });
    }
    let mut bytes = [0; REPLY_BYTES];
    let mut space = [MaybeUninit::uninit(); FDS_SPACE_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).map_err(system)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            fds.extend(some);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(AttachError::System { what: "take all descriptors of", cause: Errno::MFILE });
    }
    // The answer is sent at once and fits any socket buffer, so a stream does not cut it; those of other versions are shorter.
    if let Some(found) = version_of(&bytes[..got.bytes]).filter(|found| *found != LAYOUT_VERSION) {
        return Err(AttachError::Version { found });
    }
    if got.bytes != REPLY_BYTES {
        return Err(AttachError::BadAnswer("it is too short"));
    }
    Reply::from_bytes(&bytes).map(|reply| (reply, fds)).ok_or(AttachError::BadAnswer("it is not a channel's"))
}

fn take_first(fds: &mut Vec<OwnedFd>) -> Result<OwnedFd, AttachError> {
    if fds.is_empty() {
        return Err(AttachError::BadAnswer("the region is missing"));
    }
    Ok(fds.remove(0))
}

fn is_over(socket: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // The data plane never writes after its answer, so whatever can be read is the end; so is an error.
    !matches!(poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&now)), Ok(0) | Err(Errno::INTR))
}
