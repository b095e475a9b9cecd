//! Hands the region out on `STATE/channel.sock` from a plain thread, and makes it anew when it was damaged.
//!
//! A new region is handed out once all cores show in it what they know; then all connections are closed, so that everybody
//! attaches again. How often that may happen is decided in `renewals`; in between the cores put right what they can.
//!
//! One control plane at a time: a new one puts the earlier one out by closing its connection. Observers get the region opened
//! for reading, no bells. Whoever does not say who he is within a second is dropped. The caller holds the lock of STATE, so a
//! socket file left by a killed process may be replaced; that is done by rename, with its mode set before anyone can connect.

use super::channel::{Channel, ChannelError, Files, Handout, system};
use super::desk::Desk;
use super::renewals::Renewals;
use crate::core::shared::now_ms;
use crate::limits::CORES_MOVE_MS_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, chmod, rename, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, accept_with, bind, listen, recv, socket_with, sockopt,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinlog_proto::channel::attach::{ANSWER_TIMEOUT_MS, SOCKET_NAME, send_reply, unix_address};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::handshake::{HELLO_BYTES_MAX, Hello, Memory, Reply, Standing, Status};
use twinlog_proto::channel::layout::LAYOUT_VERSION;

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
        let region = channel.region();
        let mut serving = Serving {
            reply: Reply {
                layout_version: LAYOUT_VERSION,
                generation: region.stamp().generation,
                status: Status::Welcome,
                cores: region.geometry().cores(),
                memory: Memory::default(),
            },
            desk: channel.desk,
            renewals: Renewals::default(),
            due: None,
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

struct Client {
    socket: OwnedFd,
    since: Instant,
    /// Not known before his first bytes.
    hello: Option<Hello>,
    /// The connection is to be closed.
    over: bool,
}

struct Serving {
    desk: Arc<Desk>,
    renewals: Renewals,
    /// When the damaged region is to be made anew; `None`: it is not damaged.
    due: Option<Instant>,
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

const _: () = assert!(CORES_MOVE_MS_MAX < ANSWER_TIMEOUT_MS as u64 / 2, "who attaches meanwhile must get an answer");

impl Serving {
    fn run(&mut self) {
        while !self.stop.wanted.load(Ordering::Acquire) {
            let (knocking, speaking) = self.wait();
            for at in speaking {
                self.hear(at);
            }
            if knocking {
                self.let_in();
            }
            self.look_after_memory();
            let late = |client: &Client| {
                client.hello.is_none() && client.since.elapsed().as_millis() as u64 >= INTRODUCTION_MS_MAX
            };
            self.clients.retain(|client| !client.over && !late(client));
        }
    }

    /// Waits for something to happen: whether somebody knocks, and which clients can be read.
    fn wait(&self) -> (bool, Vec<usize>) {
        let mut fds: Vec<PollFd<'_>> = [self.stop.bell.as_fd(), self.desk.as_fd(), self.listener.as_fd()]
            .into_iter()
            .chain(self.clients.iter().map(|client| client.socket.as_fd()))
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let stranger = self.clients.iter().any(|client| client.hello.is_none());
        let look = stranger.then(|| Duration::from_millis(LOOK_MS));
        let due = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        let longest = look.into_iter().chain(due).min();
        // A millisecond more than is left, lest it wakes too early again and again.
        let longest = longest.and_then(|wait| Timespec::try_from(wait + Duration::from_millis(1)).ok());
        match poll(&mut fds, longest.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return (false, Vec::new()),
            Err(errno) => {
                tracing::error!(%errno, "the channel's thread cannot wait for its clients; it tries again");
                std::thread::sleep(Duration::from_millis(ACCEPT_PAUSE_MS));
                return (false, Vec::new());
            }
        }
        let speaking = (3..fds.len()).filter(|at| !fds[*at].revents().is_empty()).map(|at| at - 3).collect();
        (!fds[2].revents().is_empty(), speaking)
    }

    /// Makes a damaged region anew when it is due; what stands in the way of that is told to the control plane once.
    fn look_after_memory(&mut self) {
        self.desk.drain_bell();
        let Some(damage) = self.desk.found() else { return };
        let now = Instant::now();
        let due = self.renewals.found(now);
        if self.due.is_none() {
            (self.reply.memory.damage, self.reply.memory.damaged_at_ms) = (Some(damage), now_ms());
        }
        self.due = Some(due);
        if due <= now {
            return self.renew(now);
        }
        let standing = if self.renewals.is_given_up() { Standing::GivenUp } else { Standing::Waiting };
        if standing != self.reply.memory.standing {
            let wait = due.saturating_duration_since(now).as_secs();
            tracing::error!(
                %damage,
                renewed = self.reply.memory.renewed,
                "the shared memory is damaged again and made anew in {wait} s, not at once: find who writes into it"
            );
            self.reply.memory.standing = standing;
            self.close_all();
        }
    }

    fn renew(&mut self, now: Instant) {
        let made = Files::make(self.desk.region().1.geometry());
        let (region, files) = match made {
            Ok(made) => made,
            Err(error) => {
                tracing::error!(%error, "the damaged shared memory cannot be made anew; it is tried again");
                self.renewals.failed(now);
                return;
            }
        };
        self.reply.generation = region.stamp().generation;
        self.desk.replace(region);
        if !self.desk.wait_moved(self.reply.cores, Duration::from_millis(CORES_MOVE_MS_MAX)) {
            tracing::warn!(
                "not every core shows itself in the new shared memory yet; its partitions are unknown so far"
            );
        }
        self.handout.files = files;
        self.renewals.renewed(now);
        self.due = None;
        self.reply.memory.renewed = self.reply.memory.renewed.saturating_add(1);
        self.reply.memory.standing = Standing::Sound;
        let renewed = self.reply.memory.renewed;
        tracing::warn!(generation = self.reply.generation, renewed, "the shared memory was made anew");
        self.close_all();
    }

    /// Whoever has a region attaches again.
    fn close_all(&mut self) {
        self.clients.iter_mut().filter(|client| client.hello.is_some()).for_each(|client| client.over = true);
    }

    fn let_in(&mut self) {
        match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) if self.clients.len() < CLIENTS_MAX => {
                self.clients.push(Client { socket, since: Instant::now(), hello: None, over: false });
            }
            Ok(socket) => self.answer(socket.as_fd(), Status::TooManyClients, &[]),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => {
                tracing::error!(%errno, "a client of the channel cannot be let in; raise the limit of open files");
                std::thread::sleep(Duration::from_millis(ACCEPT_PAUSE_MS));
            }
        }
    }

    /// A client speaks, or is gone. Who speaks out of turn is treated as gone.
    fn hear(&mut self, at: usize) {
        let mut bytes = [0; HELLO_BYTES_MAX];
        let client = &mut self.clients[at];
        match recv(&client.socket, &mut bytes, RecvFlags::empty()) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((_, got @ 1..)) if client.hello.is_none() => self.introduce(at, &bytes[..got]),
            Ok(_) | Err(_) => {
                if client.hello.is_some_and(Hello::is_control) && !client.over {
                    tracing::info!("the control plane is gone; records flow on");
                }
                client.over = true;
            }
        }
    }

    fn introduce(&mut self, at: usize, bytes: &[u8]) {
        let Some(hello) = Hello::from_bytes(bytes) else {
            self.answer(self.clients[at].socket.as_fd(), Status::NoSuchRole, &[]);
            self.clients[at].over = true;
            return;
        };
        if let Hello::Damaged { generation, damage } = hello
            && generation == self.reply.generation
        {
            self.desk.report(self.desk.number(), damage, &"the control plane says so; its log has more");
            self.look_after_memory();
        }
        let client = &self.clients[at];
        self.answer(client.socket.as_fd(), Status::Welcome, &self.handout.descriptors(hello.is_control()));
        if hello.is_control() {
            let pid = sockopt::socket_peercred(client.socket.as_fd()).map(|peer| peer.pid.as_raw_nonzero().get());
            tracing::info!(pid = pid.unwrap_or(0), "a control plane is attached");
            let earlier = |client: &&mut Client| client.hello.is_some_and(Hello::is_control);
            self.clients.iter_mut().filter(earlier).for_each(|client| client.over = true);
        }
        self.clients[at].hello = Some(hello);
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

#[cfg(test)]
mod tests;
