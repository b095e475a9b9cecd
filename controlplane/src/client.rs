//! A blocking client of the Kafka protocol for one connection: what the `twinlog` command speaks to the control plane, and what
//! `verify` speaks to a source broker. It waits for one answer at a time and never allocates more than has arrived.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;
use twinlog_proto::api::{self, MIRROR_FEATURE, MIRROR_KEY_BASE};
use twinlog_proto::error::{DecodeError, EncodeError};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame;
use twinlog_proto::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use twinlog_proto::messages::{Message, Request};

/// What we call ourselves in requests.
const CLIENT_ID: &str = "twinlog";
/// Time for a connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a byte after which an answer is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is believed.
const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Bytes that are allocated before any of them has arrived.
const RESPONSE_BYTES_FIRST: usize = 64 << 10;

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
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => return Self::over(stream, peer),
                Err(cause) => last = cause,
            }
        }
        Err(failed("connecting to")(last))
    }

    fn over(stream: TcpStream, peer: &str) -> Result<Self, ClientError> {
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(READ_TIMEOUT)));
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

    /// The version at which a request kind would be asked.
    ///
    /// # Errors
    /// When there is none.
    pub fn version_of(&self, key: i16) -> Result<i16, ClientError> {
        if key >= MIRROR_KEY_BASE && !self.mirrors {
            return Err(ClientError::NoMirrors { peer: self.peer.clone() });
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
        if bytes > RESPONSE_BYTES_MAX {
            let why = format!("a frame of {bytes} bytes is not believed");
            return Err(ClientError::Unexpected { peer: self.peer.clone(), why });
        }
        self.frame.clear();
        self.frame.reserve(bytes.min(RESPONSE_BYTES_FIRST));
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
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::JoinHandle;
    use twinlog_proto::messages::api_versions::{ApiVersion, FinalizedFeatureKey};
    use twinlog_proto::messages::list_mirrors::{ListMirrorsRequest, ListMirrorsResponse};
    use twinlog_proto::reader::Reader;

    /// Answers one connection, each request with what `answer` makes of its header; ends when it gives none or the client goes.
    fn server(
        mut answer: impl FnMut(frame::RequestHeader) -> Option<Vec<u8>> + Send + 'static,
    ) -> (String, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut length = [0; 4];
            while stream.read_exact(&mut length).is_ok() {
                let mut request = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut request).unwrap();
                let header = frame::decode_request_header(&mut Reader::new("request", &request)).unwrap();
                let Some(bytes) = answer(header) else { return };
                stream.write_all(&bytes).unwrap();
                let promised = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
                if bytes.len() < 4 + promised {
                    return;
                }
            }
        });
        (peer, thread)
    }

    fn encoded<M: Message>(header: &frame::RequestHeader, version: i16, response: &M) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        frame::encode_response(&mut out, version, header.correlation_id, response).unwrap();
        Some(out)
    }

    fn versions(mirrors: bool) -> ApiVersionsResponse {
        let keys = [(api::API_VERSIONS, 0, 4), (api::LIST_MIRRORS, 0, 1), (api::METADATA, 99, 100)];
        let feature = FinalizedFeatureKey { name: MIRROR_FEATURE.into(), max_version_level: 1, min_version_level: 1 };
        ApiVersionsResponse {
            api_keys: keys
                .map(|(api_key, min_version, max_version)| ApiVersion { api_key, min_version, max_version })
                .into(),
            finalized_features: if mirrors { vec![feature] } else { Vec::new() },
            ..Default::default()
        }
    }

    #[test]
    fn the_highest_common_version_is_asked_at() {
        let (peer, _server) = server(|header| match header.api_key {
            api::API_VERSIONS => encoded(&header, header.api_version, &versions(true)),
            _ => {
                assert_eq!((header.api_key, header.api_version), (api::LIST_MIRRORS, 1));
                encoded(&header, 1, &ListMirrorsResponse { error_code: 7, ..Default::default() })
            }
        });
        let mut client = Client::connect(&peer).unwrap();
        assert_eq!(client.ask(&ListMirrorsRequest::default()).unwrap().error_code, 7);
        assert!(matches!(client.version_of(api::METADATA), Err(ClientError::Unsupported { .. })));
    }

    #[test]
    fn an_older_peer_is_asked_again_at_its_own_version() {
        let (peer, _server) = server(|header| {
            let mut answer = versions(false);
            answer.api_keys[0].max_version = 2;
            if header.api_version <= 2 {
                return encoded(&header, header.api_version, &answer);
            }
            answer.error_code = 35;
            encoded(&header, 0, &answer)
        });
        assert_eq!(Client::connect(&peer).unwrap().version_of(api::API_VERSIONS).unwrap(), 2);
    }

    #[test]
    fn a_peer_that_refuses_its_own_versions_is_not_asked_for_ever() {
        let (peer, _server) =
            server(|header| encoded(&header, 0, &ApiVersionsResponse { error_code: 35, ..versions(false) }));
        assert!(Client::connect(&peer).unwrap_err().to_string().contains("UNSUPPORTED_VERSION"));
    }

    #[test]
    fn a_stock_broker_is_told_apart_before_it_is_sent_a_mirror_request() {
        let (peer, _server) = server(|header| {
            assert_eq!(header.api_key, api::API_VERSIONS);
            encoded(&header, header.api_version, &versions(false))
        });
        let mut client = Client::connect(&peer).unwrap();
        assert!(matches!(client.ask(&ListMirrorsRequest::default()), Err(ClientError::NoMirrors { .. })));
    }

    #[test]
    fn answers_that_are_none_are_refused_without_waiting() {
        let oversized = |_: frame::RequestHeader| Some(vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
        let cut_off =
            |header: frame::RequestHeader| encoded(&header, 3, &versions(true)).map(|bytes| bytes[..20].to_vec());
        let other = |header: frame::RequestHeader| {
            let header = frame::RequestHeader { correlation_id: 77, ..header };
            encoded(&header, 3, &versions(true))
        };
        let texts = [refusal(oversized), refusal(cut_off), refusal(other)];
        for (text, why) in texts.iter().zip(["2147483647 bytes", "end of file", "correlation id 77"]) {
            assert!(text.contains(why), "{text}");
        }
    }

    fn refusal(answer: impl FnMut(frame::RequestHeader) -> Option<Vec<u8>> + Send + 'static) -> String {
        let (peer, _server) = server(answer);
        Client::connect(&peer).unwrap_err().to_string()
    }

    #[test]
    fn nobody_listening_is_said_with_the_address() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let error = Client::connect(&free).unwrap_err().to_string();
        assert!(error.contains(&free) && error.contains("refused"), "{error}");
        assert!(Client::connect("no-port").is_err());
    }
}
