//! pure: Kafka's messages as typed values, with a codec for every version.
//!
//! The layouts are data (`schemas/*.json`); `build.rs` makes the structs and codecs from them, and the modules here only
//! include the result. Values are owned. A request or answer that carries records is never decoded through these on the
//! record path: that is what the walker of the Fetch answer is for.

use core::ops::RangeInclusive;

use crate::error::{DecodeError, EncodeError, Malformed};
use crate::reader::Reader;
use crate::writer::Writer;

pub mod add_topics_to_mirror;
pub mod allocate_producer_ids;
pub mod alter_replica_log_dirs;
pub mod alter_share_group_offsets;
pub mod api_versions;
pub mod assignment;
pub mod coordinator_records;
pub mod create_acls;
pub mod create_mirror;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_mirror;
pub mod delete_records;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_log_dirs;
pub mod describe_mirrors;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_share_group_offsets;
pub mod describe_user_scram_credentials;
pub mod fetch;
pub mod fetch_request;
pub mod find_coordinator;
pub mod hand_over;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod kraft_records;
pub mod last_mirrored_offsets;
pub mod list_groups;
pub mod list_mirrors;
pub mod list_offsets;
pub mod metadata;
pub mod offset_commit;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod pause_mirror_topics;
pub mod produce;
pub mod read_mirror_states;
pub mod record_hand_over;
pub mod remove_topics_from_mirror;
pub mod resume_mirror_topics;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod start_mirror_topics;
pub mod state_log;
pub mod stop_mirror_topics;
pub mod sync_mirror;
pub mod write_mirror_states;

/// A message with a codec for each of its versions.
///
/// `Default` gives the defaults of its schema.
pub trait Message: Sized + Default {
    /// Kafka's name of the message.
    const NAME: &'static str;
    /// Key of the request kind it belongs to; -1 for a message that is not sent by itself.
    const API_KEY: i16;
    /// The versions that can be encoded and decoded.
    const VERSIONS: RangeInclusive<i16>;
    /// The first version in the flexible form; `i16::MAX` when there is none.
    const FLEXIBLE_FROM: i16;

    /// Appends the message, without any header.
    ///
    /// # Errors
    /// When `version` is none of its versions, or cannot carry a value that is set.
    fn encode(&self, w: &mut Writer<'_>, version: i16) -> Result<(), EncodeError>;

    /// Reads the message, without any header. Bytes after it are left alone.
    ///
    /// # Errors
    /// When `version` is none of its versions, or the bytes do not follow its layout.
    fn decode(r: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError>;

    /// Shows the error codes that an answer holds, those of the whole before those of its parts.
    fn errors(&self, _see: &mut dyn FnMut(i16)) {}
}

/// A request, which knows its answer.
pub trait Request: Message {
    /// The answer to it, at the same version.
    type Response: Message;
}

fn check_encode<M: Message>(version: i16) -> Result<(), EncodeError> {
    if M::VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(EncodeError { what: M::NAME, version, why: "the message has no such version" })
}

fn check_decode<M: Message>(r: &Reader<'_>, version: i16) -> Result<(), DecodeError> {
    if M::VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(DecodeError { what: M::NAME, at: r.position(), why: Malformed::Version { found: version.into() } })
}
