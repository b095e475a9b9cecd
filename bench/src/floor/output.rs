//! The files that the floor writes: preallocated, past the page cache, without names.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

use super::ring::{Done, PIECE_BYTES, Ring};
use super::{FloorError, refused};

/// Files that take the pieces in turn.
pub(super) struct Output {
    files: Vec<File>,
    /// Bytes of the write that each piece was given for.
    asked: Vec<usize>,
    /// Bytes given to the kernel so far.
    pub(super) written: u64,
    /// Writes that have not ended.
    pub(super) in_flight: usize,
}

impl Output {
    /// Makes room for `bytes` in `files` files. They are gone when the process is.
    pub(super) fn create(dir: &Path, files: u16, bytes: u64, without: &mut Vec<String>) -> Result<Self, FloorError> {
        let bytes_each = bytes.div_ceil(u64::from(files)).next_multiple_of(PIECE_BYTES as u64);
        let files = (0..files).map(|number| create(dir, number, bytes_each, without)).collect::<Result<_, _>>()?;
        without.dedup();
        Ok(Self { files, asked: Vec::new(), written: 0, in_flight: 0 })
    }

    /// Starts to write the first `bytes` of a piece; only the last write may be shorter than a piece.
    pub(super) fn write(&mut self, ring: &mut Ring, piece: usize, bytes: usize) {
        let (number, count) = (self.written / PIECE_BYTES as u64, self.files.len() as u64);
        ring.write(&self.files[(number % count) as usize], piece, bytes, number / count * PIECE_BYTES as u64);
        if self.asked.len() <= piece {
            self.asked.resize(piece + 1, 0);
        }
        self.asked[piece] = bytes;
        self.written += bytes as u64;
        self.in_flight += 1;
    }

    /// Takes note of the end of a write.
    pub(super) fn finish(&mut self, done: &Done) -> Result<(), FloorError> {
        self.in_flight -= 1;
        let asked = self.asked.get(done.piece).copied().unwrap_or(0);
        if done.bytes == asked {
            return Ok(());
        }
        let doing = format!("write {asked} bytes at once: {} were written", done.bytes);
        Err(FloorError::System { doing, cause: io::ErrorKind::WriteZero.into() })
    }
}

fn create(dir: &Path, number: u16, bytes: u64, without: &mut Vec<String>) -> Result<File, FloorError> {
    let path = dir.join(format!("twinlog-floor.{}.{number}", std::process::id()));
    let doing = format!("write to {}", path.display());
    let open = |flags| OpenOptions::new().read(true).write(true).create(true).custom_flags(flags).open(&path);
    let file = match open(libc::O_DIRECT) {
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {
            without.push(format!("O_DIRECT (the filesystem of {} refuses it)", dir.display()));
            open(0)
        }
        other => other,
    };
    let file = file.map_err(refused(doing.clone()))?;
    fs::remove_file(&path).map_err(refused(doing))?;
    if let Err(cause) = fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        if cause == rustix::io::Errno::NOSPC {
            let doing = format!("reserve {bytes} bytes in {}", dir.display());
            return Err(FloorError::System { doing, cause: cause.into() });
        }
        without.push(format!("preallocation ({cause})"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_is_written_in_part_is_not_counted_as_written() {
        let (dir, mut ring) = (tempfile::tempdir().unwrap(), Ring::new(2).unwrap());
        let mut output = Output::create(dir.path(), 1, PIECE_BYTES as u64, &mut Vec::new()).unwrap();
        output.write(&mut ring, 1, PIECE_BYTES);
        let mut done = Vec::new();
        ring.wait(&mut done).unwrap();
        assert!(output.finish(&Done { bytes: PIECE_BYTES / 2, ..done[0] }).is_err());
        output.in_flight += 1;
        output.finish(&done[0]).unwrap();
    }
}
