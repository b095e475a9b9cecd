//! runtime: `Transport` over TCP, with receive operations of our own.
//!
//! The runtime's own reads know neither `MSG_WAITALL` nor plain buffers at a position, so the operations are built here.
//! Each operation owns its buffer and a handle of its socket until the kernel has answered; if its future is dropped, the
//! runtime keeps both until then.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::ops::{DerefMut, Range};
use std::os::fd::AsRawFd;
use std::rc::Rc;

use io_uring::{cqueue, opcode, types};
use tokio_uring::{InFlightOneshot, OneshotOutputTransform, UnsubmittedOneshot};

use super::leaders::Endpoint;
use super::{ConnectOptions, End, Transport};
use crate::buffers::Lease;

/// One TCP connection.
#[derive(Debug)]
pub struct Tcp {
    socket: Rc<TcpStream>,
}

impl Transport for Tcp {
    async fn connect(endpoint: &Endpoint, options: ConnectOptions) -> io::Result<Self> {
        let connecting = async {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in resolve(endpoint).await? {
                match dial(address, options).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        // Nothing is in flight in the kernel while a name is resolved or a handshake awaited: both only wait for readiness.
        let stream = match tokio::time::timeout(options.setup_timeout, connecting).await {
            Ok(connected) => connected?,
            Err(elapsed) => return Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)),
        };
        Ok(Self { socket: Rc::new(stream) })
    }

    async fn send(&self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (mut bytes, mut sent) = (bytes, 0);
        while sent < bytes.len() {
            let rest = sent..bytes.len();
            let (result, back) = self.operate(bytes, rest, Direction::Send, libc::MSG_NOSIGNAL).await;
            bytes = back;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), bytes),
                Ok(more) => sent += more,
                Err(error) => return (Err(error), bytes),
            }
        }
        (Ok(()), bytes)
    }

    fn receive(&self, buffer: Vec<u8>, range: Range<usize>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        self.operate(buffer, range, Direction::Receive, 0)
    }

    async fn fill(&self, lease: Lease, range: Range<usize>) -> (io::Result<usize>, Lease) {
        let (mut lease, mut filled) = (lease, 0);
        while filled < range.len() {
            let rest = range.start + filled..range.end;
            let (result, back) = self.operate(lease, rest, Direction::Receive, libc::MSG_WAITALL).await;
            lease = back;
            match result {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) => return (Err(error), lease),
            }
        }
        (Ok(filled), lease)
    }

    fn ender(&self) -> Rc<dyn End> {
        Rc::new(Ender(Rc::clone(&self.socket)))
    }
}

impl Tcp {
    fn operate<B>(&self, mut buffer: B, range: Range<usize>, direction: Direction, flags: i32) -> InFlight<B>
    where
        B: DerefMut<Target = [u8]> + Unpin + 'static,
    {
        let part = &mut buffer[range];
        // A length above 4 GiB does not occur: no buffer is that large, and a shorter operation is only continued.
        let (start, bytes) = (part.as_mut_ptr(), u32::try_from(part.len()).unwrap_or(u32::MAX));
        let socket = types::Fd(self.socket.as_raw_fd());
        let entry = match direction {
            Direction::Receive => opcode::Recv::new(socket, start, bytes).flags(flags).build(),
            Direction::Send => opcode::Send::new(socket, start, bytes).flags(flags).build(),
        };
        // `Held` owns the memory that `start` points into (on the heap or in the pool's mapping: it does not move with the
        // owner) and keeps the socket open.
        let held = Held { buffer, _socket: Rc::clone(&self.socket) };
        UnsubmittedOneshot::new(held, GiveBack(PhantomData), entry).submit()
    }
}

type InFlight<B> = InFlightOneshot<Held<B>, GiveBack<B>>;

enum Direction {
    Receive,
    Send,
}

/// What an operation owns while the kernel works on it.
#[derive(Debug)]
pub struct Held<B> {
    buffer: B,
    _socket: Rc<TcpStream>,
}

/// Gives the buffer back with the result.
#[derive(Debug)]
pub struct GiveBack<B>(PhantomData<B>);

impl<B> OneshotOutputTransform for GiveBack<B> {
    type Output = (io::Result<usize>, B);
    type StoredData = Held<B>;

    fn transform_oneshot_output(self, held: Held<B>, entry: cqueue::Entry) -> Self::Output {
        let result = match usize::try_from(entry.result()) {
            Ok(bytes) => Ok(bytes),
            Err(_negative) => Err(io::Error::from_raw_os_error(-entry.result())),
        };
        (result, held.buffer)
    }
}

struct Ender(Rc<TcpStream>);

impl End for Ender {
    fn end(&self) {
        // An error says that the peer was faster: the stream has ended, which was wanted.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

async fn resolve(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = endpoint.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, endpoint.port)]);
    }
    Ok(tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await?.collect())
}

async fn dial(address: SocketAddr, options: ConnectOptions) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    // Before the handshake: the window scale is agreed on in it.
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    let stream = socket.connect(address).await?.into_std()?;
    // The ring waits by itself; on a non-blocking socket it would give `EAGAIN` instead.
    stream.set_nonblocking(false)?;
    Ok(stream)
}
