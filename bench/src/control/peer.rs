//! A connection to the control plane that asks one thing at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use twinlog_proto::frame;
use twinlog_proto::messages::Request;

use crate::limits::{CONTROL_ANSWER_BYTES_MAX, CONTROL_SILENCE_MAX};
use crate::run::RunError;

/// The connection.
#[derive(Debug)]
pub struct Peer {
    stream: TcpStream,
    frame: Vec<u8>,
}

impl Peer {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(address: &str) -> Result<Self, RunError> {
        let connected = TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(CONTROL_SILENCE_MAX))?;
            Ok(stream)
        });
        let stream = connected.map_err(|cause| failed(&cause))?;
        Ok(Self { stream, frame: Vec::new() })
    }

    /// Asks, at the newest version that is known here, and waits for the answer; gives it and the time until its last byte.
    ///
    /// # Errors
    /// When there is no answer, or it does not follow its layout.
    pub fn ask<R: Request>(&mut self, request: &R) -> Result<(R::Response, Duration), RunError> {
        let version = *R::VERSIONS.end();
        let began = Instant::now();
        self.send(&encoded(request)?)?;
        self.receive()?;
        let took = began.elapsed();
        Ok((self.answer::<R>(version)?, took))
    }

    /// The answer that was received last, at this version.
    ///
    /// # Errors
    /// When it does not follow its layout.
    pub fn answer<R: Request>(&self, version: i16) -> Result<R::Response, RunError> {
        let decoded = frame::decode_response(&self.frame, version);
        decoded.map(|(_, response)| response).map_err(|cause| failed(&io::Error::other(cause)))
    }

    /// Sends a request that is encoded already.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send(&mut self, request: &[u8]) -> Result<(), RunError> {
        self.stream.write_all(request).map_err(|cause| failed(&cause))
    }

    /// Waits for an answer; gives its size in bytes.
    ///
    /// # Errors
    /// When none comes.
    pub fn receive(&mut self) -> Result<usize, RunError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(|cause| failed(&cause))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > CONTROL_ANSWER_BYTES_MAX {
            return Err(failed(&io::Error::other(format!("an answer of {length} bytes"))));
        }
        self.frame.resize(length, 0);
        self.stream.read_exact(&mut self.frame).map_err(|cause| failed(&cause))?;
        Ok(length)
    }

    /// Whether the other side has not closed the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let peeked = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let open = matches!(peeked, Err(cause) if cause.kind() == io::ErrorKind::WouldBlock);
        open && self.stream.set_nonblocking(false).is_ok()
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A request frame.
///
/// # Errors
/// When the request cannot be written.
pub fn encoded<R: Request>(request: &R) -> Result<Vec<u8>, RunError> {
    let mut out = Vec::new();
    frame::encode_request(&mut out, *R::VERSIONS.end(), 1, Some("twinlog-bench"), request)
        .map_err(|cause| failed(&io::Error::other(cause)))?;
    Ok(out)
}

fn failed(cause: &io::Error) -> RunError {
    RunError::Planes(format!("the control plane does not answer as it should: {cause}"))
}
