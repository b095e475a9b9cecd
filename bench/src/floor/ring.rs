//! unsafe: an io_uring, its registered pieces of memory, and the two operations that the floor needs.
//!
//! The ring owns the pieces. A piece is either at rest, and then it may be looked at, or in the kernel's hands, and then only
//! its number is known. Called by `floor` alone.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a piece.
pub(super) const PIECE_BYTES: usize = 1 << 20;

const HUGE_PAGE_BYTES: usize = 2 << 20;
const WRITE_BIT: u64 = 1 << 32;

/// What an operation came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    /// The piece, which is at rest again.
    pub(super) piece: usize,
    /// Whether it was a write, else a receive.
    pub(super) is_write: bool,
    /// Bytes moved.
    pub(super) bytes: usize,
}

/// The ring and its memory.
pub(super) struct Ring {
    ring: IoUring,
    base: NonNull<u8>,
    mapped_bytes: usize,
    in_flight: Vec<bool>,
    registered: bool,
    without: Vec<String>,
}

impl Ring {
    /// A ring with `pieces` pieces of [`PIECE_BYTES`], all at rest.
    ///
    /// # Errors
    /// When the kernel gives no ring or no memory.
    pub(super) fn new(pieces: usize) -> io::Result<Self> {
        let mut without = Vec::new();
        let mapped_bytes = (pieces * PIECE_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        let base = map(mapped_bytes, &mut without)?;
        let ring = IoUring::builder().build(u32::try_from(2 * pieces).unwrap_or(64).next_power_of_two())?;
        let mut this = Self { ring, base, mapped_bytes, in_flight: vec![false; pieces], registered: false, without };
        this.register();
        Ok(this)
    }

    /// What the ring had to do without.
    #[must_use]
    pub(super) fn without(&self) -> &[String] {
        &self.without
    }

    /// Number of pieces.
    #[must_use]
    pub(super) fn pieces(&self) -> usize {
        self.in_flight.len()
    }

    /// The bytes of a piece at rest.
    ///
    /// # Panics
    /// When the kernel has it.
    pub(super) fn piece(&mut self, piece: usize) -> &mut [u8] {
        assert!(!self.in_flight[piece], "the kernel has piece {piece}");
        // JUSTIFICATION: the kernel writes into this memory. SAFETY: `at` is within the mapping, which lives as long as `self`;
        // no operation on the piece is in flight, and `&mut self` keeps one from being started meanwhile.
        unsafe { slice::from_raw_parts_mut(self.at(piece, 0), PIECE_BYTES) }
    }

    /// Starts to receive `from..to` of a piece, as a whole.
    ///
    /// # Panics
    /// When the kernel has the piece or the range lies outside.
    pub(super) fn receive(&mut self, socket: &TcpStream, piece: usize, from: usize, to: usize) {
        assert!(from < to && to <= PIECE_BYTES, "a receive stays within its piece");
        let entry = opcode::Recv::new(types::Fd(socket.as_raw_fd()), self.at(piece, from), (to - from) as u32)
            .flags(libc::MSG_WAITALL)
            .build()
            .user_data(piece as u64);
        self.start(piece, &entry);
    }

    /// Starts to write the first `bytes` of a piece to `position` of a file.
    ///
    /// # Panics
    /// When the kernel has the piece or `bytes` is more than it has.
    pub(super) fn write(&mut self, file: &File, piece: usize, bytes: usize, position: u64) {
        assert!(bytes <= PIECE_BYTES, "a write stays within its piece");
        let (fd, from, len) = (types::Fd(file.as_raw_fd()), self.at(piece, 0), bytes as u32);
        let entry = if self.registered {
            opcode::WriteFixed::new(fd, from, len, piece as u16).offset(position).build()
        } else {
            opcode::Write::new(fd, from, len).offset(position).build()
        };
        self.start(piece, &entry.user_data(piece as u64 | WRITE_BIT));
    }

    /// Hands everything that was started to the kernel and waits for at least one operation to end.
    ///
    /// # Errors
    /// When an operation failed.
    pub(super) fn wait(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Err(cause) if cause.kind() != io::ErrorKind::Interrupted => return Err(cause),
            _ => {}
        }
        for entry in self.ring.completion() {
            let (data, result) = (entry.user_data(), entry.result());
            let piece = (data & !WRITE_BIT) as usize;
            self.in_flight[piece] = false;
            if result < 0 {
                return Err(io::Error::from_raw_os_error(-result));
            }
            done.push(Done { piece, is_write: data & WRITE_BIT != 0, bytes: result.cast_unsigned() as usize });
        }
        Ok(())
    }

    /// Tells the kernel not to wake anybody before `bytes` are there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn wake_at(socket: &TcpStream, bytes: i32) -> io::Result<()> {
        let (value, size) = (ptr::from_ref(&bytes).cast(), size_of::<i32>() as libc::socklen_t);
        // JUSTIFICATION: no safe call sets this option. SAFETY: the kernel reads `size` bytes of `bytes`, which is alive.
        match unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn at(&self, piece: usize, from: usize) -> *mut u8 {
        assert!(piece < self.in_flight.len(), "there is no piece {piece}");
        // A plain address: whether it may be used is decided where it is.
        self.base.as_ptr().wrapping_add(piece * PIECE_BYTES + from)
    }

    fn start(&mut self, piece: usize, entry: &squeue::Entry) {
        assert!(!self.in_flight[piece], "the kernel has piece {piece}");
        self.in_flight[piece] = true;
        // JUSTIFICATION: the kernel is given an address. SAFETY: it lies in the mapping of `self`, which is never unmapped while
        // an operation is in flight; the flag keeps everybody else away from the piece.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "the queue holds two operations for each piece");
    }

    fn register(&mut self) {
        let vectors: Vec<libc::iovec> = (0..self.pieces())
            .map(|piece| libc::iovec { iov_base: self.at(piece, 0).cast(), iov_len: PIECE_BYTES })
            .collect();
        // JUSTIFICATION: the kernel keeps the pages. SAFETY: they belong to the mapping of `self`, which outlives the ring's use
        // of them: `Drop` unmaps only when nothing is in flight.
        match unsafe { self.ring.submitter().register_buffers(&vectors) } {
            Ok(()) => self.registered = true,
            Err(cause) => self.without.push(format!("registered buffers ({cause}; see ulimit -l)")),
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight.contains(&true) {
            return; // The kernel may still write there: the memory is left to the end of the process.
        }
        // JUSTIFICATION: the mapping is ours. SAFETY: nothing is in flight, and no reference outlives `self`.
        unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) }.unwrap_or_default();
    }
}

fn map(bytes: usize, without: &mut Vec<String>) -> io::Result<NonNull<u8>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
    // JUSTIFICATION: memory for the kernel to write into. SAFETY: an anonymous mapping at no given address touches nothing.
    let huge = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, flags | MapFlags::HUGETLB) };
    let base = match huge {
        Ok(base) => base,
        Err(cause) => {
            without.push(format!("huge pages ({cause}; see vm.nr_hugepages)"));
            // JUSTIFICATION: as above. SAFETY: as above; the advice only changes how the memory is backed.
            unsafe {
                let base = mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)?;
                madvise(base, bytes, Advice::LinuxHugepage).unwrap_or_default();
                base
            }
        }
    };
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
