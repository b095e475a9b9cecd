//! Frames of a source on a TCP stream: four length bytes, then that many. Clients are read in `server/conn.rs`.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits::FRAME_BYTES_FIRST;

/// Reads a frame into `frame`, without its length; false at an end of the stream between two frames.
///
/// Memory grows with the bytes that arrive, not with the length that was claimed.
///
/// # Errors
/// A length that is negative or above `bytes_max`, or a stream that ends within a frame.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S, frame: &mut Vec<u8>, bytes_max: usize) -> io::Result<bool> {
    let Some(length) = read_length(stream).await? else { return Ok(false) };
    read_body(stream, frame, length, bytes_max).await?;
    Ok(true)
}

/// Reads the four length bytes; `None` at an end of the stream before the first.
///
/// # Errors
/// A stream that ends within them.
async fn read_length<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<i32>> {
    let mut length = [0; 4];
    let mut filled = 0;
    while filled < length.len() {
        match stream.read(&mut length[filled..]).await? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(Some(i32::from_be_bytes(length)))
}

/// Reads the `length` bytes after the length.
///
/// # Errors
/// As [`read`].
async fn read_body<S: AsyncRead + Unpin>(
    stream: &mut S,
    frame: &mut Vec<u8>,
    length: i32,
    bytes_max: usize,
) -> io::Result<()> {
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes_max).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes, at most {bytes_max} are taken"))
    })?;
    frame.clear();
    frame.shrink_to(FRAME_BYTES_FIRST);
    let read = stream.take(length as u64).read_to_end(frame).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
