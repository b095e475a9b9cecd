//! The floor: the least that a mirror must do, in one loop on one thread. Receive, check every batch's CRC, write.
//!
//! It is what the data plane is measured against on the same machine, so it shares no code with it: a raw io_uring, whole 1 MiB
//! receives in an endless stream of responses that were asked for ahead, O_DIRECT writes of those same pieces from registered
//! memory into one preallocated file. Its parts run alone as well.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::thread;
use std::time::Instant;

use core_affinity::CoreId;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde::Serialize;
use thiserror::Error;

pub mod asker;
mod output;
#[allow(unsafe_code)]
mod ring;
pub mod stream;

use asker::Asker;
use output::Output;
use ring::{Done, PIECE_BYTES, Ring};
use stream::{Stream, StreamError};

use crate::args::{Floor, FloorMode};
use crate::proc;
use crate::serve::{batches_each, shape};
use crate::source::batches::{Batches, ShapeError};
use crate::spawn::{Source, SpawnError, first_core, last_core};
use crate::units::Bytes;

/// Requests that wait at the source while an answer streams.
const REQUESTS_AHEAD: u64 = 2;
const DIRECT_ALIGN_BYTES: u64 = 4096;

/// A floor that could not be measured.
#[derive(Debug, Error)]
pub enum FloorError {
    /// The source could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// No batch looks like this.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The source's answers are wrong.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The system refused something.
    #[error("cannot {doing}: {cause}")]
    System {
        /// What was tried.
        doing: String,
        /// What the system said.
        cause: io::Error,
    },
}

fn refused(doing: impl Into<String>) -> impl FnOnce(io::Error) -> FloorError {
    move |cause| FloorError::System { doing: doing.into(), cause }
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Which parts ran.
    pub mode: &'static str,
    /// Bytes of record batches (of pieces, for writing alone).
    pub bytes: u64,
    /// Batches checked.
    pub batches: u64,
    /// From the first request to the last completion.
    pub seconds: f64,
    /// Bytes per second.
    pub rate: f64,
    /// CPU seconds of this process per 10^9 bytes.
    pub cpu_seconds_per_gb: f64,
    /// Resident and huge-page memory of this process.
    pub memory_bytes: u64,
    /// What it had to do without.
    pub without: Vec<String>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "floor ({}): {:.2} GB/s, {:.3} CPU s per GB ({} in {:.2} s, {} batches), memory {}",
            self.mode,
            self.rate / 1e9,
            self.cpu_seconds_per_gb,
            Bytes(self.bytes),
            self.seconds,
            self.batches,
            Bytes(self.memory_bytes)
        )?;
        self.without.iter().try_for_each(|missing| write!(f, "\nwithout: {missing}"))
    }
}

/// Measures one pass on a thread of its own, so that the caller stays free of the pinning.
///
/// # Errors
/// As [`measure`].
pub fn measure_aside(args: &Floor) -> Result<Figures, FloorError> {
    let dead = || FloorError::System { doing: "run a thread".into(), cause: io::Error::other("it panicked") };
    thread::scope(|scope| scope.spawn(|| measure(args)).join().unwrap_or_else(|_panic| Err(dead())))
}

/// Measures one pass. Blocks, and pins the calling thread.
///
/// # Errors
/// When the source, the disk or the memory is not to be had.
pub fn measure(args: &Floor) -> Result<Figures, FloorError> {
    let source = match (args.mode, args.source) {
        (FloorMode::Write, _) => None,
        (_, Some(address)) => Some((address, None)),
        (_, None) => {
            let source = Source::start(&args.content, args.source_core.or_else(first_core))?;
            Some((source.address, Some(source)))
        }
    };
    let mut without = Vec::new();
    if !args.core.or_else(last_core).is_some_and(|id| core_affinity::set_for_current(CoreId { id })) {
        without.push("a pinned core (the system refuses)".to_owned());
    }
    let mut ring = Ring::new(args.pieces.into()).map_err(refused("set up io_uring"))?;
    without.extend_from_slice(ring.without());
    let asker = asker(args)?;
    let expected_bytes = if args.mode == FloorMode::Write { args.content.bytes } else { asker.stream_bytes() };
    let mut output = match args.mode {
        FloorMode::Receive => None,
        FloorMode::All | FloorMode::Write => Some(Output::create(&args.dir, args.files, expected_bytes, &mut without)?),
    };
    let cpu_before = cpu_seconds()?;
    let start = Instant::now();
    let (bytes, batches) = match &source {
        None => (write_only(args, &mut ring, output.as_mut())?, 0),
        Some((address, _)) => {
            let stream = receive(args, &mut ring, output.as_mut(), asker, *address)?;
            (stream.bytes, stream.batches)
        }
    };
    // Before the files go, which takes a disk as long as a good part of writing them, and before the source does: a mirror that
    // is measured has neither behind it.
    let seconds = start.elapsed().as_secs_f64();
    let cpu = cpu_seconds()? - cpu_before;
    Ok(Figures {
        mode: args.mode.name(),
        bytes,
        batches,
        seconds,
        rate: bytes as f64 / seconds,
        cpu_seconds_per_gb: cpu / (bytes as f64 / 1e9),
        memory_bytes: proc::memory_bytes(std::process::id()).map_err(refused("read /proc/self/status"))?,
        without,
    })
}

fn cpu_seconds() -> Result<f64, FloorError> {
    proc::cpu_seconds(std::process::id()).map_err(refused("read /proc/self/stat"))
}

fn asker(args: &Floor) -> Result<Asker, FloorError> {
    let batches = Batches::new(shape(&args.content, 0))?;
    let content = &args.content;
    Ok(Asker::new(&content.topic, content.partitions, batches_each(content), &batches))
}

fn write_only(args: &Floor, ring: &mut Ring, output: Option<&mut Output>) -> Result<u64, FloorError> {
    let Some(output) = output else { return Ok(0) };
    let total = args.content.bytes.next_multiple_of(PIECE_BYTES as u64);
    let mut free: Vec<usize> = (0..ring.pieces()).collect();
    free.iter().for_each(|&piece| ring.piece(piece).fill(piece as u8 | 1));
    let mut done = Vec::new();
    while output.written < total || output.in_flight > 0 {
        while output.written < total {
            let Some(piece) = free.pop() else { break };
            output.write(ring, piece, PIECE_BYTES);
        }
        ring.wait(&mut done).map_err(refused("write"))?;
        for done in done.drain(..) {
            output.finish(&done)?;
            free.push(done.piece);
        }
    }
    Ok(total)
}

/// The receiving half: one socket, one piece at a time, whole pieces whatever the frames are.
struct Input {
    socket: TcpStream,
    asker: Asker,
    stream: Stream,
    /// Bytes of the stream that have not been asked of the kernel yet.
    left: u64,
    /// The part of the piece in the kernel's hands that is not filled yet.
    receiving: Option<Range<usize>>,
    /// The kernel wakes us for a piece's worth of bytes, not for every segment.
    wakes_late: bool,
}

impl Input {
    fn connect(address: SocketAddr, asker: Asker, buffer_bytes: usize) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        set_socket_recv_buffer_size(&socket, buffer_bytes)?;
        // Waking once a piece instead of once a segment halves the CPU time of a receive.
        Ring::wake_at(&socket, PIECE_BYTES as i32)?;
        let left = asker.stream_bytes();
        Ok(Self { socket, asker, stream: Stream::default(), left, receiving: None, wakes_late: true })
    }

    fn ask(&mut self) -> io::Result<()> {
        while self.asker.asked() < self.stream.frames + REQUESTS_AHEAD {
            let Some(request) = self.asker.next_request() else { break };
            self.socket.write_all(request)?;
        }
        Ok(())
    }

    fn receive(&mut self, ring: &mut Ring, free: &mut Vec<usize>) -> io::Result<()> {
        if self.receiving.is_some() || self.left == 0 {
            return Ok(());
        }
        let Some(piece) = free.pop() else { return Ok(()) };
        if self.left < 2 * PIECE_BYTES as u64 && self.wakes_late {
            // What is still to come may be less than what the kernel waits for.
            Ring::wake_at(&self.socket, 1)?;
            self.wakes_late = false;
        }
        let bytes = self.left.min(PIECE_BYTES as u64) as usize;
        self.left -= bytes as u64;
        ring.receive(&self.socket, piece, 0, bytes);
        self.receiving = Some(0..bytes);
        Ok(())
    }

    /// Bytes in the piece once it is full.
    fn finish(&mut self, ring: &mut Ring, done: &Done) -> io::Result<Option<usize>> {
        let Some(mut range) = self.receiving.take() else { return Ok(None) };
        if done.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        range.start += done.bytes;
        if range.is_empty() {
            return Ok(Some(range.end));
        }
        // A signal may end a whole receive early.
        ring.receive(&self.socket, done.piece, range.start, range.end);
        self.receiving = Some(range);
        Ok(None)
    }
}

fn receive(
    args: &Floor,
    ring: &mut Ring,
    mut output: Option<&mut Output>,
    asker: Asker,
    address: SocketAddr,
) -> Result<Stream, FloorError> {
    let failed = || refused(format!("talk to the source at {address}"));
    let mut input = Input::connect(address, asker, args.receive_buffer as usize).map_err(failed())?;
    let mut free: Vec<usize> = (0..ring.pieces()).collect();
    let mut done = Vec::new();
    loop {
        input.ask().map_err(failed())?;
        input.receive(ring, &mut free).map_err(failed())?;
        let writing = output.as_ref().map_or(0, |output| output.in_flight);
        if input.receiving.is_none() && writing == 0 {
            return Ok(input.stream);
        }
        ring.wait(&mut done).map_err(refused("receive or write"))?;
        for done in done.drain(..) {
            if done.is_write {
                output.as_mut().map_or(Ok(()), |output| output.finish(&done))?;
                free.push(done.piece);
            } else if let Some(bytes) = input.finish(ring, &done).map_err(failed())? {
                input.stream.feed(&ring.piece(done.piece)[..bytes])?;
                match &mut output {
                    Some(output) => output.write(ring, done.piece, bytes.next_multiple_of(DIRECT_ALIGN_BYTES as usize)),
                    None => free.push(done.piece),
                }
            }
        }
    }
}
