//! One connection to a source broker: versions agreed on, requests out, answers in.
//!
//! Answers without records are read whole by [`Conn::call`]. A Fetch response is streamed: the pump asks for its frame with
//! [`Conn::begin_answer`], walks [`Conn::unread`] and lets it be filled again, or receives straight into leases.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame;
use twinlog_proto::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use twinlog_proto::messages::{Message, Request};

use super::leaders::Endpoint;
use super::watch::{Watch, Watchdog};
use super::{ConnectOptions, Transport};
use crate::buffers::Lease;
use crate::fault::RetryCause;
use crate::limits::{INBOX_BYTES, PLAIN_ANSWER_BYTES_MAX, RECEIVE_RATE_BYTES_PER_S_MIN};

/// What a connection needs to know about its mirror.
#[derive(Debug, Clone)]
pub struct ConnSettings {
    /// How to connect.
    pub connect: ConnectOptions,
    /// How long an answer may take to begin.
    pub request_timeout: Duration,
    /// What we call ourselves.
    pub client_id: Rc<str>,
}

/// The versions that both sides speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Fetch, 12 or more.
    pub fetch: i16,
    /// ListOffsets.
    pub list_offsets: i16,
    /// Metadata.
    pub metadata: i16,
}

/// A connection whose peer has answered ApiVersions.
#[derive(Debug)]
pub struct Conn<T: Transport> {
    transport: T,
    watch: Rc<Watch>,
    settings: ConnSettings,
    versions: Versions,
    correlation_id: i32,
    out: Vec<u8>,
    inbox: Vec<u8>,
    unread: Range<usize>,
    received_bytes: u64,
}

impl<T: Transport> Conn<T> {
    /// Connects and agrees on versions.
    ///
    /// # Errors
    /// No connection, no Kafka broker, or one that lacks what mirroring needs.
    pub async fn open(endpoint: &Endpoint, settings: &ConnSettings, dog: &Watchdog) -> Result<Self, RetryCause> {
        let transport = T::connect(endpoint, settings.connect).await.map_err(io_cause("cannot connect"))?;
        let watch = dog.watch(transport.ender());
        let mut conn = Self {
            transport,
            watch,
            settings: settings.clone(),
            versions: Versions { fetch: 0, list_offsets: 0, metadata: 0 },
            correlation_id: 0,
            out: Vec::with_capacity(OUT_BYTES),
            inbox: vec![0; INBOX_BYTES],
            unread: 0..0,
            received_bytes: 0,
        };
        conn.versions = conn.agree().await?;
        Ok(conn)
    }

    /// The versions agreed on.
    #[must_use]
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// The handle by which others end this connection.
    #[must_use]
    pub fn watch(&self) -> &Rc<Watch> {
        &self.watch
    }

    /// Bytes received since the last call.
    pub fn take_received_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.received_bytes)
    }

    /// Sends a request and reads its whole answer.
    ///
    /// # Errors
    /// The connection failed or the answer is malformed; the connection is of no more use.
    pub async fn call<M: Request>(&mut self, version: i16, request: &M) -> Result<M::Response, RetryCause> {
        let awaited = self.send(version, request, Duration::ZERO).await?;
        let frame = self.whole_answer().await?;
        self.watch.set(None);
        let (found, response) = frame::decode_response::<M::Response>(&frame, version)?;
        if found != awaited {
            return Err(RetryCause::Correlation { awaited, found });
        }
        Ok(response)
    }

    /// Sends a request and gives its correlation id. The answer must begin within the request timeout after `hold`, the time
    /// that the broker may hold it.
    ///
    /// # Errors
    /// The connection failed, or the message cannot be written at this version.
    pub async fn send<M: Message>(&mut self, version: i16, request: &M, hold: Duration) -> Result<i32, RetryCause> {
        self.correlation_id = self.correlation_id.wrapping_add(1) & i32::MAX;
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let encoded =
            frame::encode_request(&mut out, version, self.correlation_id, Some(&self.settings.client_id), request);
        if let Err(error) = encoded {
            self.out = out;
            tracing::error!(%error, "a request cannot be written");
            return Err(RetryCause::Unsupported(M::NAME));
        }
        self.watch.set(Some(Instant::now() + self.settings.request_timeout + hold));
        let (sent, out) = self.transport.send(out).await;
        self.out = out;
        sent.map_err(|error| self.failed("cannot send", error))?;
        Ok(self.correlation_id)
    }

    /// Reads the length of the next answer, in bytes after the length.
    ///
    /// # Errors
    /// The connection failed, or the length is negative or above `max_bytes`.
    pub async fn begin_answer(&mut self, max_bytes: usize, at_once: usize) -> Result<usize, RetryCause> {
        while self.unread.len() < LENGTH_BYTES {
            self.refill(at_once).await?;
        }
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(&self.unread()[..LENGTH_BYTES]);
        self.consume(LENGTH_BYTES);
        let found = i32::from_be_bytes(length);
        match usize::try_from(found) {
            Ok(bytes) if bytes <= max_bytes => Ok(bytes),
            Ok(_) | Err(_) => Err(RetryCause::FrameTooLarge { found: found.into(), max: max_bytes as u64 }),
        }
    }

    /// The answer has been read: the connection may be idle now.
    pub fn end_answer(&mut self) {
        self.watch.set(None);
    }

    /// Bytes received and not consumed.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.inbox[self.unread.clone()]
    }

    /// Takes `bytes` off the front of [`Conn::unread`].
    pub fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.unread.len(), "only what was received can be consumed");
        self.unread.start += bytes;
    }

    /// Receives at most `at_once` more bytes behind [`Conn::unread`], at least one.
    ///
    /// # Errors
    /// The connection failed or ended.
    pub async fn refill(&mut self, at_once: usize) -> Result<(), RetryCause> {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.unread.start > 0 && self.inbox.len() - self.unread.end < at_once.min(SHIFT_BELOW_BYTES) {
            self.inbox.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let end = self.inbox.len().min(self.unread.end + at_once);
        assert!(end > self.unread.end, "the inbox holds more than any element of an answer");
        let range = self.unread.end..end;
        let (result, inbox) = self.transport.receive(std::mem::take(&mut self.inbox), range).await;
        self.inbox = inbox;
        let bytes = result.map_err(|error| self.failed("cannot receive", error))?;
        if bytes == 0 {
            return Err(self.over());
        }
        self.unread.end += bytes;
        self.came(bytes);
        Ok(())
    }

    /// Fills `lease[range]` from the stream; what is unread must have been consumed before.
    ///
    /// # Errors
    /// The connection failed or ended; the lease comes back with the number of bytes that it got.
    pub async fn fill(&mut self, lease: Lease, range: Range<usize>) -> (Result<(), RetryCause>, usize, Lease) {
        assert!(self.unread.is_empty(), "bytes that came before must be consumed before");
        let wanted = range.len();
        // What comes is seen only when all of it has come: so much longer may it stay silent.
        let latest = Instant::now() + self.settings.request_timeout + allowance(wanted);
        self.watch.extend(allowance(wanted), latest);
        let (result, lease) = self.transport.fill(lease, range).await;
        let (result, bytes) = match result {
            Ok(bytes) if bytes == wanted => (Ok(()), bytes),
            Ok(bytes) => (Err(self.over()), bytes),
            Err(error) => (Err(self.failed("cannot receive", error)), 0),
        };
        self.received_bytes += bytes as u64;
        (result, bytes, lease)
    }

    async fn whole_answer(&mut self) -> Result<Vec<u8>, RetryCause> {
        let bytes = self.begin_answer(PLAIN_ANSWER_BYTES_MAX, INBOX_BYTES).await?;
        // Grows with what arrives, not with what was announced.
        let mut frame = Vec::new();
        while frame.len() < bytes {
            if self.unread.is_empty() {
                self.refill(INBOX_BYTES).await?;
            }
            let take = self.unread.len().min(bytes - frame.len());
            frame.extend_from_slice(&self.unread()[..take]);
            self.consume(take);
        }
        Ok(frame)
    }

    async fn agree(&mut self) -> Result<Versions, RetryCause> {
        let request = ApiVersionsRequest {
            client_software_name: "twinlog".to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut answer: ApiVersionsResponse = self.call(API_VERSIONS_FIRST, &request).await?;
        if ErrorCode(answer.error_code) == ErrorCode::UNSUPPORTED_VERSION {
            answer = self.call(API_VERSIONS_OLDEST, &request).await?;
        }
        if !ErrorCode(answer.error_code).is_none() {
            return Err(RetryCause::Refused { request: ApiVersionsRequest::NAME, code: answer.error_code });
        }
        let version = |key: i16, what: &'static str| {
            let theirs = answer.api_keys.iter().find(|api| api.api_key == key);
            let theirs = theirs.map(|api| api.min_version..=api.max_version);
            let ours = api::by_key(key).and_then(|api| api.sent.clone());
            let both = ours.zip(theirs).and_then(|(ours, theirs)| api::highest_common(&ours, &theirs));
            both.ok_or(RetryCause::Unsupported(what))
        };
        Ok(Versions {
            fetch: version(api::FETCH, "Fetch version 12 or newer (Kafka 2.7)")?,
            list_offsets: version(api::LIST_OFFSETS, "ListOffsets version 6 or newer (Kafka 2.8)")?,
            metadata: version(api::METADATA, "Metadata version 9 or newer (Kafka 2.4)")?,
        })
    }

    fn came(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        self.watch.extend(allowance(bytes), Instant::now() + self.settings.request_timeout);
    }

    fn over(&self) -> RetryCause {
        if self.watch.expired() {
            RetryCause::Deadline { waited_ms: self.settings.request_timeout.as_millis() as u64 }
        } else if self.watch.ended() {
            RetryCause::Ended
        } else {
            RetryCause::Closed
        }
    }

    fn failed(&self, what: &'static str, source: io::Error) -> RetryCause {
        if self.watch.expired() || self.watch.ended() { self.over() } else { RetryCause::Io { what, source } }
    }
}

fn io_cause(what: &'static str) -> impl FnOnce(io::Error) -> RetryCause {
    move |source| RetryCause::Io { what, source }
}

/// The time that so many bytes take on the slowest line that we put up with.
fn allowance(bytes: usize) -> Duration {
    Duration::from_micros(bytes as u64 * 1_000_000 / RECEIVE_RATE_BYTES_PER_S_MIN)
}

/// ApiVersions is asked at the oldest flexible version; a broker that does not know it says so at version 0.
const API_VERSIONS_FIRST: i16 = 3;
const API_VERSIONS_OLDEST: i16 = 0;
const LENGTH_BYTES: usize = 4;
/// Bytes of a request's buffer at first.
const OUT_BYTES: usize = 16 << 10;
/// With less room than this behind them, unread bytes are moved to the front of the inbox.
const SHIFT_BELOW_BYTES: usize = 4 << 10;
