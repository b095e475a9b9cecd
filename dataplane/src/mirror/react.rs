//! pure: what an error code of one partition means for a fetcher.

use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::error_code::ErrorCode;

/// What to do about an error of one partition. The other partitions of the response are not concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// Ask the leader for both ends of the partition.
    AskRange,
    /// Pause, then ask the same broker again; what is said if it lasts.
    Wait(Lasting),
    /// Refresh the metadata, pause, try again.
    Refresh(Lasting),
    /// Report it now, go on trying at long intervals: somebody must change something at the source.
    Report(FaultCode),
    /// Make the connection anew: it does not understand us.
    Reconnect,
}

/// What becomes of an error that does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// It is tried for ever; the partition shows this code after [`crate::limits::PARTITION_TRIES_MAX`] tries.
    Shows(FaultCode),
    /// The partition fails with this code after [`crate::limits::PARTITION_TRIES_MAX`] tries.
    Fails(FaultCode),
}

/// The reaction to `error`, which is not `NONE`.
#[must_use]
pub fn react(error: ErrorCode) -> Reaction {
    use Lasting::{Fails, Shows};
    match error {
        ErrorCode::OFFSET_OUT_OF_RANGE => Reaction::AskRange,
        ErrorCode::CORRUPT_MESSAGE => Reaction::Wait(Fails(FaultCode::CHECKSUM)),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => {
            Reaction::Refresh(Fails(FaultCode::UNKNOWN_TOPIC))
        }
        // The metadata tells whether the topic was made anew; that is judged there.
        ErrorCode::INCONSISTENT_TOPIC_ID => Reaction::Refresh(Fails(FaultCode::RECREATED)),
        ErrorCode::LEADER_NOT_AVAILABLE
        | ErrorCode::NOT_LEADER_OR_FOLLOWER
        | ErrorCode::REPLICA_NOT_AVAILABLE
        | ErrorCode::KAFKA_STORAGE_ERROR
        | ErrorCode::FENCED_LEADER_EPOCH => Reaction::Refresh(Shows(FaultCode::NO_LEADER)),
        // The broker is behind the metadata: no storm of metadata requests for that.
        ErrorCode::UNKNOWN_LEADER_EPOCH | ErrorCode::OFFSET_NOT_AVAILABLE => {
            Reaction::Wait(Shows(FaultCode::NO_LEADER))
        }
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => Reaction::Report(FaultCode::NOT_AUTHORIZED),
        ErrorCode::UNSUPPORTED_COMPRESSION_TYPE => Reaction::Wait(Fails(FaultCode::UNSUPPORTED)),
        ErrorCode::OFFSET_MOVED_TO_TIERED_STORAGE => Reaction::Wait(Fails(FaultCode::PROTOCOL)),
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::NOT_CONTROLLER => Reaction::Reconnect,
        ErrorCode::UNKNOWN_SERVER_ERROR => Reaction::Wait(Shows(FaultCode::PROTOCOL)),
        _ => Reaction::Wait(Fails(FaultCode::PROTOCOL)),
    }
}

/// What a top-level error of a Fetch response means for its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionReaction {
    /// A full request under a new id.
    StartOver,
    /// A full request under the old id, which closes it.
    StartOverAndClose,
    /// A full request, and the metadata again.
    StartOverAndRefresh,
    /// Close the connection, agree on versions again.
    Reconnect,
}

/// The reaction to the error of a whole response, which is not `NONE`.
#[must_use]
pub fn react_to_whole(error: ErrorCode) -> SessionReaction {
    match error {
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND => SessionReaction::StartOver,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH => SessionReaction::StartOverAndClose,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR | ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::INCONSISTENT_TOPIC_ID => {
            SessionReaction::StartOverAndRefresh
        }
        _ => SessionReaction::Reconnect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_a_source_may_send_has_a_reaction_of_its_kind() {
        use Lasting::{Fails, Shows};
        for (code, reaction) in [
            (1, Reaction::AskRange),
            (3, Reaction::Refresh(Fails(FaultCode::UNKNOWN_TOPIC))),
            (6, Reaction::Refresh(Shows(FaultCode::NO_LEADER))),
            (29, Reaction::Report(FaultCode::NOT_AUTHORIZED)),
            (56, Reaction::Refresh(Shows(FaultCode::NO_LEADER))),
            (74, Reaction::Refresh(Shows(FaultCode::NO_LEADER))),
            (75, Reaction::Wait(Shows(FaultCode::NO_LEADER))),
            (78, Reaction::Wait(Shows(FaultCode::NO_LEADER))),
            (100, Reaction::Refresh(Fails(FaultCode::UNKNOWN_TOPIC))),
            (103, Reaction::Refresh(Fails(FaultCode::RECREATED))),
            (-1, Reaction::Wait(Shows(FaultCode::PROTOCOL))),
            (9_999, Reaction::Wait(Fails(FaultCode::PROTOCOL))),
        ] {
            assert_eq!(react(ErrorCode(code)), reaction, "{code}");
        }
    }

    #[test]
    fn a_lost_session_is_no_reason_to_lose_the_connection() {
        assert_eq!(react_to_whole(ErrorCode(70)), SessionReaction::StartOver);
        assert_eq!(react_to_whole(ErrorCode(71)), SessionReaction::StartOverAndClose);
        assert_eq!(react_to_whole(ErrorCode(106)), SessionReaction::StartOverAndRefresh);
        assert_eq!(react_to_whole(ErrorCode(35)), SessionReaction::Reconnect);
    }
}
