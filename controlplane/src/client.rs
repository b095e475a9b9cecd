//! A blocking client of the Kafka protocol for one connection: what the `twinlog` command speaks to the control plane, and what
//! `verify` speaks to a source broker. It waits for one answer at a time and never allocates more than has arrived.

use crate::limits::{CLIENT_CONNECT, CLIENT_RESPONSE_BYTES_MAX, CLIENT_SILENCE_MAX, FRAME_BYTES_FIRST};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use twinlog_proto::api::{self, MIRROR_FEATURE, MIRROR_KEY_BASE};
use twinlog_proto::error::{DecodeError, EncodeError};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame;
use twinlog_proto::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use twinlog_proto::messages::{Message, Request};

/// What we call ourselves in requests.
const CLIENT_ID: &str = "twinlog";

/// Why a question has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection, or it broke.
    Io {
        /// Whom we talked to.
        peer: String,
        /// What was being done.
        doing: &'static str,
        /// The cause.
        cause: io::Error,
    },
    /// The answer does not follow the protocol.
    Malformed {
        /// Whom we talked to.
        peer: String,
        /// The cause.
        cause: DecodeError,
    },
    /// The answer is too large, or to another question.
    Unexpected {
        /// Whom we talked to.
        peer: String,
        /// What was wrong.
        why: String,
    },
    /// The question cannot be written at the version that both speak.
    Encode(EncodeError),
    /// The peer does not answer this request kind in a version that we speak.
    Unsupported {
        /// Whom we talked to.
        peer: String,
        /// The request kind.
        api: &'static str,
    },
    /// The peer is a Kafka broker that knows nothing of mirrors.
    NoMirrors {
        /// Whom we talked to.
        peer: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { peer, doing, cause } => write!(f, "{doing} {peer} failed: {cause}"),
            Self::Malformed { peer, cause } => write!(f, "{peer} does not speak the Kafka protocol: {cause}"),
            Self::Unexpected { peer, why } => write!(f, "{peer} does not speak the Kafka protocol: {why}"),
            Self::Encode(cause) => cause.fmt(f),
            Self::Unsupported { peer, api } => {
                write!(f, "{peer} does not answer {api} in a version that is spoken here")
            }
            Self::NoMirrors { peer } => {
                write!(f, "{peer} is no mirror-capable server (its finalized features lack {MIRROR_FEATURE})")
            }
        }
    }
}

impl std::error::Error for ClientError {}

/// One connection, its versions negotiated.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    peer: String,
    versions: HashMap<i16, (i16, i16)>,
    mirrors: bool,
    correlation_id: i32,
    frame: Vec<u8>,
}

impl Client {
    /// Connects to `HOST:PORT` and asks what it speaks.
    ///
    /// # Errors
    /// When nobody answers there, or what answers does not speak the Kafka protocol.
    pub fn connect(peer: &str) -> Result<Self, ClientError> {
        let failed = |doing| move |cause| ClientError::Io { peer: peer.to_owned(), doing, cause };
        let addresses = peer.to_socket_addrs().map_err(failed("looking up"))?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CLIENT_CONNECT) {
                Ok(stream) => return Self::over(stream, peer),
                Err(cause) => last = cause,
            }
        }
        Err(failed("connecting to")(last))
    }

    fn over(stream: TcpStream, peer: &str) -> Result<Self, ClientError> {
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(CLIENT_SILENCE_MAX)));
        set.map_err(|cause| ClientError::Io { peer: peer.to_owned(), doing: "setting up the connection to", cause })?;
        let mut client = Self {
            stream,
            peer: peer.to_owned(),
            versions: HashMap::new(),
            mirrors: false,
            correlation_id: 0,
            frame: Vec::new(),
        };
        client.negotiate()?;
        Ok(client)
    }

    /// Whom this connection goes to, as it was given.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether the peer speaks the mirror requests.
    ///
    /// # Errors
    /// When it does not.
    pub fn need_mirrors(&self) -> Result<(), ClientError> {
        if self.mirrors { Ok(()) } else { Err(ClientError::NoMirrors { peer: self.peer.clone() }) }
    }

    fn negotiate(&mut self) -> Result<(), ClientError> {
        let request = ApiVersionsRequest {
            client_software_name: CLIENT_ID.to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut answer: ApiVersionsResponse = self.ask_at(&request, 3)?;
        if ErrorCode(answer.error_code) == ErrorCode::UNSUPPORTED_VERSION {
            let highest =
                answer.api_keys.iter().find(|api| api.api_key == api::API_VERSIONS).map_or(0, |api| api.max_version);
            answer = self.ask_at(&request, highest.clamp(0, 3))?;
        }
        if answer.error_code != 0 {
            let why = format!("ApiVersions is answered with {}", ErrorCode(answer.error_code).name());
            return Err(ClientError::Unexpected { peer: self.peer.clone(), why });
        }
        self.versions = answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect();
        self.mirrors = answer.finalized_features.iter().any(|f| f.name == MIRROR_FEATURE && f.max_version_level >= 1);
        Ok(())
    }

    /// Asks at the highest version that both speak; gives the version too.
    ///
    /// # Errors
    /// When the peer does not answer such requests, or the connection or the answer is broken.
    pub fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        let version = self.version_of(R::API_KEY)?;
        self.ask_at(request, version)
    }

    /// The versions of a request kind that the peer answers; none when it does not.
    #[must_use]
    pub fn their_versions(&self, key: i16) -> Option<(i16, i16)> {
        self.versions.get(&key).copied()
    }

    /// The version at which a request kind would be asked.
    ///
    /// # Errors
    /// When there is none.
    pub fn version_of(&self, key: i16) -> Result<i16, ClientError> {
        if key >= MIRROR_KEY_BASE {
            self.need_mirrors()?;
        }
        let ours = api::by_key(key).and_then(|api| api.sent.clone());
        let theirs = self.versions.get(&key).map(|(min, max)| *min..=*max);
        ours.zip(theirs)
            .and_then(|(ours, theirs)| api::highest_common(&ours, &theirs))
            .ok_or_else(|| ClientError::Unsupported { peer: self.peer.clone(), api: api::name(key) })
    }

    fn ask_at<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response, ClientError> {
        self.send(request, version)?;
        self.receive()?;
        let (correlation_id, answer) = frame::decode_response(&self.frame, version)
            .map_err(|cause| ClientError::Malformed { peer: self.peer.clone(), cause })?;
        if correlation_id != self.correlation_id {
            let why = format!("the answer has correlation id {correlation_id}, not {}", self.correlation_id);
            return Err(ClientError::Unexpected { peer: self.peer.clone(), why });
        }
        Ok(answer)
    }

    /// Asks at `version` and gives the answer as it arrives; for answers that are walked, not decoded. What is not read to its end makes
    /// the connection useless.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn ask_for_stream<M: Message>(&mut self, request: &M, version: i16) -> Result<Answer<'_>, ClientError> {
        self.send(request, version)?;
        let bytes = self.read_length()?;
        Ok(Answer { stream: &mut self.stream, peer: &self.peer, remaining_bytes: bytes })
    }

    fn send<M: Message>(&mut self, request: &M, version: i16) -> Result<(), ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.frame.clear();
        frame::encode_request(&mut self.frame, version, self.correlation_id, Some(CLIENT_ID), request)
            .map_err(ClientError::Encode)?;
        let sent = self.stream.write_all(&self.frame);
        sent.map_err(|cause| ClientError::Io { peer: self.peer.clone(), doing: "asking", cause })
    }

    fn read_length(&mut self) -> Result<usize, ClientError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(|cause| unread(&self.peer, cause))?;
        let length = i32::from_be_bytes(length);
        usize::try_from(length).map_err(|_negative| {
            let why = format!("a frame of {length} bytes is not believed");
            ClientError::Unexpected { peer: self.peer.clone(), why }
        })
    }

    fn receive(&mut self) -> Result<(), ClientError> {
        let bytes = self.read_length()?;
        if bytes > CLIENT_RESPONSE_BYTES_MAX {
            let why = format!("a frame of {bytes} bytes is not believed");
            return Err(ClientError::Unexpected { peer: self.peer.clone(), why });
        }
        self.frame.clear();
        self.frame.reserve(bytes.min(FRAME_BYTES_FIRST));
        let read = (&mut self.stream).take(bytes as u64).read_to_end(&mut self.frame);
        let read = read.map_err(|cause| unread(&self.peer, cause))?;
        if read < bytes {
            return Err(unread(&self.peer, io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(())
    }
}

/// An answer that is still arriving.
#[derive(Debug)]
pub struct Answer<'a> {
    stream: &'a mut TcpStream,
    peer: &'a str,
    remaining_bytes: usize,
}

impl Answer<'_> {
    /// Bytes of the frame that have not been read, its length left out.
    #[must_use]
    pub fn remaining_bytes(&self) -> usize {
        self.remaining_bytes
    }

    /// Reads what has arrived, at least one byte unless the frame is at its end or `into` is empty.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, ClientError> {
        let wanted = into.len().min(self.remaining_bytes);
        if wanted == 0 {
            return Ok(0);
        }
        match self.stream.read(&mut into[..wanted]).map_err(|cause| unread(self.peer, cause))? {
            0 => Err(unread(self.peer, io::ErrorKind::UnexpectedEof.into())),
            bytes => {
                self.remaining_bytes -= bytes;
                Ok(bytes)
            }
        }
    }
}

fn unread(peer: &str, cause: io::Error) -> ClientError {
    ClientError::Io { peer: peer.to_owned(), doing: "reading the answer of", cause }
}

#[cfg(test)]
mod tests;
