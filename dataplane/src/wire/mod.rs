//! The way to a source broker: sockets, framing, versions, sessions, leaders.
//!
//! `Transport` is the seam: everything above it runs against scripted bytes in tests and against TCP (later TLS) for real.

pub mod conn;
pub mod fetch_request;
pub mod leaders;
pub mod session;
pub mod uring;
pub mod watch;

use std::future::Future;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use crate::buffers::Lease;
use leaders::Endpoint;

/// How a connection is made.
#[derive(Debug, Clone, Copy)]
pub struct ConnectOptions {
    /// `SO_RCVBUF`; `None` leaves it to the kernel.
    pub receive_buffer_bytes: Option<u32>,
    /// How long name resolution and the handshake may take together.
    pub setup_timeout: Duration,
}

/// A byte stream to one broker. A buffer given away comes back with the result; what is in flight is never dropped, so a
/// caller that wants out calls [`Transport::end`] and awaits the result.
pub trait Transport: Sized + 'static {
    /// Connects; the reading and writing halves are open on return.
    fn connect(endpoint: &Endpoint, options: ConnectOptions) -> impl Future<Output = io::Result<Self>>;

    /// Sends the whole buffer.
    fn send(&self, bytes: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;

    /// Receives what there is, at most `range.len()` bytes, into `buffer[range]`; 0 bytes: the stream has ended.
    fn receive(&self, buffer: Vec<u8>, range: Range<usize>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;

    /// Fills `lease[range]`; fewer bytes: the stream has ended.
    fn fill(&self, lease: Lease, range: Range<usize>) -> impl Future<Output = (io::Result<usize>, Lease)>;

    /// A handle that ends the stream from another task: pending and later receives return at once.
    fn ender(&self) -> Rc<dyn End>;
}

/// Ends a stream; see [`Transport::ender`].
pub trait End {
    /// Shuts both halves. May be called any number of times.
    fn end(&self);
}
