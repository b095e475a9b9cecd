//! One connection to one broker of a source: connect, learn its versions, ask.

use crate::frames;
use crate::limits::{SOURCE_CONNECT, SOURCE_RESPONSE_BYTES_MAX};
use crate::source::{ConnectionError, SourceError};
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame;
use twinlog_proto::messages::api_versions::ApiVersionsRequest;
use twinlog_proto::messages::{Message, Request};

/// What we call ourselves.
const CLIENT_ID: &str = "twinlog-controlplane";
/// ApiVersions of a broker that tells no better.
const API_VERSIONS_OLDEST: i16 = 0;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    server: String,
    stream: TcpStream,
    versions: BTreeMap<i16, RangeInclusive<i16>>,
    has_mirrors: bool,
    correlation_id: i32,
    frame: Vec<u8>,
}

impl Connection {
    /// Connects to the first of `servers` that answers like a Kafka broker.
    ///
    /// # Errors
    /// What each of them said, when none did. The caller bounds the time of the whole.
    pub async fn open(servers: &[String]) -> Result<Self, SourceError> {
        let mut failures = Vec::new();
        let mut not_kafka = None;
        for server in servers {
            match Self::open_one(server).await {
                Ok(connection) => return Ok(connection),
                Err(ConnectionError::Io(cause)) => failures.push(format!("{server}: {cause}")),
                Err(ConnectionError::Protocol(why)) => {
                    not_kafka = Some(SourceError::NotKafka { server: server.clone(), why });
                }
            }
        }
        // Somebody who answers wrongly is the better hint.
        Err(not_kafka.unwrap_or_else(|| SourceError::Unreachable(failures.join(", "))))
    }

    async fn open_one(server: &str) -> Result<Self, ConnectionError> {
        let timed_out = || io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {SOURCE_CONNECT:?}"));
        let connecting = TcpStream::connect(server);
        let stream = timeout(SOURCE_CONNECT, connecting).await.map_err(|_elapsed| timed_out())??;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            server: server.to_owned(),
            stream,
            versions: BTreeMap::new(),
            has_mirrors: false,
            correlation_id: 0,
            frame: Vec::new(),
        };
        let learning = connection.learn_versions();
        match timeout(SOURCE_CONNECT, learning).await {
            Ok(learnt) => learnt?,
            // It took our bytes and says nothing: that is not how a broker behaves.
            Err(_elapsed) => {
                return Err(ConnectionError::Protocol(format!("no answer to ApiVersions within {SOURCE_CONNECT:?}")));
            }
        }
        Ok(connection)
    }

    async fn learn_versions(&mut self) -> Result<(), ConnectionError> {
        let request = ApiVersionsRequest {
            client_software_name: CLIENT_ID.to_owned(),
            client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let newest = *ApiVersionsRequest::VERSIONS.end();
        let not_kafka = |cause: ConnectionError| match cause {
            ConnectionError::Io(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
                ConnectionError::Protocol("it closed the connection instead of answering ApiVersions".to_owned())
            }
            cause => cause,
        };
        let mut answer = self.exchange(newest, &request).await.map_err(not_kafka)?;
        if ErrorCode(answer.error_code) == ErrorCode::UNSUPPORTED_VERSION {
            let theirs = answer.api_keys.iter().find(|row| row.api_key == api::API_VERSIONS);
            let highest = theirs.map_or(API_VERSIONS_OLDEST, |row| row.max_version.clamp(API_VERSIONS_OLDEST, newest));
            answer = self.exchange(highest, &request).await?;
        }
        if answer.error_code != 0 || answer.api_keys.is_empty() {
            let code = ErrorCode(answer.error_code);
            return Err(ConnectionError::Protocol(format!("its answer to ApiVersions is {code}")));
        }
        self.has_mirrors =
            answer.finalized_features.iter().any(|f| f.name == api::MIRROR_FEATURE && f.max_version_level >= 1);
        self.versions = answer.api_keys.iter().map(|row| (row.api_key, row.min_version..=row.max_version)).collect();
        Ok(())
    }

    /// Whether the cluster knows of mirrors, so that it may be asked for them.
    #[must_use]
    pub fn has_mirrors(&self) -> bool {
        self.has_mirrors
    }

    /// The highest version of a request that both sides speak; `None` when there is none.
    #[must_use]
    pub fn version_of<M: Message>(&self) -> Option<i16> {
        let ours = api::by_key(M::API_KEY)?.sent.clone()?;
        api::highest_common(&ours, self.versions.get(&M::API_KEY)?)
    }

    /// Asks at the highest common version.
    ///
    /// # Errors
    /// When there is no common version, or the broker fails in the middle.
    pub async fn ask<R: Request>(&mut self, request: &R) -> Result<R::Response, SourceError> {
        let Some(version) = self.version_of::<R>() else {
            let text = format!("{} has no usable version of {}", self.server, R::NAME);
            return Err(SourceError::Unsupported(text));
        };
        self.exchange(version, request).await.map_err(|cause| match cause {
            ConnectionError::Io(cause) => SourceError::Unreachable(format!("{}: {cause}", self.server)),
            ConnectionError::Protocol(why) => SourceError::NotKafka { server: self.server.clone(), why },
        })
    }

    async fn exchange<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response, ConnectionError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let mut out = Vec::new();
        frame::encode_request(&mut out, version, self.correlation_id, Some(CLIENT_ID), request)
            .map_err(|cause| ConnectionError::Protocol(cause.to_string()))?;
        self.stream.write_all(&out).await?;
        let got =
            frames::read(&mut self.stream, &mut self.frame, SOURCE_RESPONSE_BYTES_MAX).await.map_err(|cause| {
                match cause.kind() {
                    io::ErrorKind::InvalidData => ConnectionError::Protocol(cause.to_string()),
                    _ => ConnectionError::Io(cause),
                }
            })?;
        if !got {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let (correlation_id, response) = frame::decode_response::<R::Response>(&self.frame, version)
            .map_err(|cause| ConnectionError::Protocol(cause.to_string()))?;
        if correlation_id != self.correlation_id {
            let why = format!("it answered request {correlation_id} instead of {}", self.correlation_id);
            return Err(ConnectionError::Protocol(why));
        }
        Ok(response)
    }
}
