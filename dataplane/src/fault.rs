//! pure: what went wrong, who stops because of it, and its cause.
//!
//! `Retry`: a connection or request, tried again after a pause. `Partition`: one partition stops and shows why on the board.
//! `Core`: the core cannot know any more what is on its disk (a failed sync); it stops and comes back through recovery.

use std::io;
use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::error::DecodeError;

/// A failure, by who stops.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A connection is closed and made again; no partition changes its state.
    #[error("{0}")]
    Retry(#[from] RetryCause),
    /// One partition stops.
    #[error("{0}")]
    Partition(#[from] PartitionCause),
    /// The whole core stops.
    #[error("{0}")]
    Core(#[from] CoreCause),
}

/// Why a request or a connection is tried again.
#[derive(Debug, thiserror::Error)]
pub enum RetryCause {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the peer.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The peer closed the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// Our own side ended the connection, by order.
    #[error("the connection was ended by order")]
    Ended,
    /// The answer took longer than its deadline.
    #[error("no answer within {waited_ms} ms")]
    Deadline {
        /// How long was waited.
        waited_ms: u64,
    },
    /// The answer breaks the protocol.
    #[error("the broker's answer breaks the protocol: {0}")]
    Malformed(#[from] DecodeError),
    /// The answer belongs to another request.
    #[error("the answer carries correlation id {found}, {awaited} was awaited")]
    Correlation {
        /// The id of our request.
        awaited: i32,
        /// The id found.
        found: i32,
    },
    /// The frame is larger than any answer to our request may be.
    #[error("the broker announces a frame of {found} bytes, {max} are the most that its answer may have")]
    FrameTooLarge {
        /// The size announced.
        found: i64,
        /// The bound.
        max: u64,
    },
    /// An answer with an error code for the whole request.
    #[error("the broker answers {request} with error {code}")]
    Refused {
        /// The request's name.
        request: &'static str,
        /// Kafka's error code.
        code: i16,
    },
    /// An answer about partitions that the request did not name.
    #[error("the broker answers for {count} partitions that were not asked for")]
    Strangers {
        /// How many.
        count: u64,
    },
    /// The peer lacks what mirroring needs.
    #[error("the broker does not serve {0}")]
    Unsupported(&'static str),
}

/// Why a partition stops, and at which offsets.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", code.name())]
pub struct PartitionCause {
    /// The kind, as the board carries it.
    pub code: FaultCode,
    /// First offset concerned, -1 unknown.
    pub from: i64,
    /// End (exclusive) of the offsets concerned, -1 unknown.
    pub to: i64,
    /// What, why, and the remedy where there is one.
    pub what: String,
    /// What the kernel said, if it was the kernel.
    #[source]
    pub source: Option<io::Error>,
}

/// Why a core stops.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct CoreCause {
    /// What failed, with the path.
    pub what: String,
    /// What the kernel said.
    pub source: io::Error,
}

impl Fault {
    /// A partition stops; the offsets concerned are not known.
    pub fn partition(code: FaultCode, what: impl Into<String>) -> Self {
        Self::partition_at(code, -1, -1, what)
    }

    /// A partition stops because of the offsets `from..to`.
    pub fn partition_at(code: FaultCode, from: i64, to: i64, what: impl Into<String>) -> Self {
        Self::Partition(PartitionCause { code, from, to, what: what.into(), source: None })
    }

    /// A partition stops because the disk refused something; a full disk and too many open files have codes of their own.
    pub fn disk(what: impl Into<String>, source: io::Error) -> Self {
        let code = match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => FaultCode::DISK_FULL,
            Some(libc::EMFILE | libc::ENFILE) => FaultCode::TOO_MANY_OPEN_FILES,
            _ => FaultCode::DISK,
        };
        let what = format!("{}: {source}", what.into());
        Self::Partition(PartitionCause { code, from: -1, to: -1, what, source: Some(source) })
    }

    /// The core stops because a sync failed: what it wrote may be gone, and asking again would not tell.
    pub fn sync(what: impl Into<String>, source: io::Error) -> Self {
        Self::Core(CoreCause { what: what.into(), source })
    }

    /// The code for the board.
    #[must_use]
    pub fn code(&self) -> FaultCode {
        match self {
            Self::Retry(_) => FaultCode::UNREACHABLE,
            Self::Partition(cause) => cause.code,
            Self::Core(_) => FaultCode::DISK,
        }
    }

    /// The offsets concerned, -1 where unknown.
    #[must_use]
    pub fn range(&self) -> (i64, i64) {
        match self {
            Self::Partition(cause) => (cause.from, cause.to),
            Self::Retry(_) | Self::Core(_) => (-1, -1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_broken_one_and_keeps_its_cause() {
        let full = Fault::disk("cannot write a/0.log", io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full.code(), FaultCode::DISK_FULL);
        assert!(full.to_string().contains("a/0.log"), "{full}");
        assert!(std::error::Error::source(&full).is_some());
        assert_eq!(Fault::disk("x", io::Error::from_raw_os_error(libc::EIO)).code(), FaultCode::DISK);
    }
}
