//! The control plane's questions to a source cluster: who are you, which topics do you have, how are they set up.
//!
//! Short-lived connections, one for each question, everything within one time limit. The mirror's records never come this
//! way. Every answer is foreign input: bounded, decoded by `proto`, and believed only as far as it makes sense.

pub mod connection;
pub mod report;
pub mod topics;
pub mod trail;

use std::io;
use twinlog_proto::error_code::ErrorCode;

/// Why a question to a source has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nobody answered at any address.
    #[error("the source cannot be reached: {0}; check bootstrap.servers and that the brokers run")]
    Unreachable(String),
    /// Somebody answered who is no Kafka broker.
    #[error("{server} does not speak the Kafka protocol ({why}); check the port in bootstrap.servers")]
    NotKafka {
        /// The address.
        server: String,
        /// What was wrong.
        why: String,
    },
    /// A broker that lacks what mirroring needs.
    #[error("the source is too old or not supported: {0}")]
    Unsupported(String),
    /// A broker that says no.
    #[error("the source refuses {what}: {code}")]
    Refused {
        /// The question.
        what: &'static str,
        /// The answer.
        code: ErrorCode,
    },
}

impl SourceError {
    /// The error code that a client is told.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            // A stock client retries these by itself, which is right when a broker is just starting.
            Self::Unreachable(_) => ErrorCode::REQUEST_TIMED_OUT,
            Self::NotKafka { .. } => ErrorCode::INVALID_CONFIG,
            Self::Unsupported(_) => ErrorCode::UNSUPPORTED_VERSION,
            Self::Refused { code, .. } => *code,
        }
    }

    /// Whether the source could not be asked at all, now.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// What went wrong on one connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The network.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Bytes that are not the Kafka protocol.
    #[error("{0}")]
    Protocol(String),
}
