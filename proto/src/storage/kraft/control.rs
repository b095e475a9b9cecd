//! pure: control records of a metadata log and its snapshots.
//!
//! ```text
//! key   = i16 version = 0 | i16 type            value = the message, which begins with its own version (i16)
//! ```

use crate::error::DecodeError;
use crate::messages::Message;
use crate::messages::kraft_records::{
    KRAFT_VERSION, KRaftVersionRecord, LEADER_CHANGE, LeaderChangeMessage, SNAPSHOT_FOOTER, SNAPSHOT_HEADER,
    SnapshotFooterRecord, SnapshotHeaderRecord, VOTERS, VotersRecord,
};
use crate::reader::Reader;

const WHAT: &str = "control record";
/// What the arrays of a record may take in memory, as a multiple of its bytes: an endpoint has 56 bytes for 5.
const ALLOWANCE_TIMES: usize = 24;

/// What a control record says.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlRecord {
    /// A leader of the quorum begins.
    LeaderChange(LeaderChangeMessage),
    /// A snapshot begins.
    SnapshotHeader(SnapshotHeaderRecord),
    /// A snapshot is whole.
    SnapshotFooter(SnapshotFooterRecord),
    /// The level of kraft.version.
    KRaftVersion(KRaftVersionRecord),
    /// Who may vote.
    Voters(VotersRecord),
    /// A type or version that is not read here.
    Other {
        /// Control record type.
        kind: i16,
    },
}

impl ControlRecord {
    /// Reads the record with this key and value.
    ///
    /// # Errors
    /// When the key is none of a control record, or a record of a known type and version does not follow its layout to the last byte.
    pub fn decode(key: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(WHAT, key);
        let (_version, kind) = (r.read_i16()?, r.read_i16()?);
        Ok(match kind {
            LEADER_CHANGE => known(value, Self::LeaderChange)?,
            SNAPSHOT_HEADER => known(value, Self::SnapshotHeader)?,
            SNAPSHOT_FOOTER => known(value, Self::SnapshotFooter)?,
            KRAFT_VERSION => known(value, Self::KRaftVersion)?,
            VOTERS => known(value, Self::Voters)?,
            _ => None,
        }
        .unwrap_or(Self::Other { kind }))
    }
}

/// The record, or none when its version is not known.
fn known<M: Message>(value: &[u8], into: fn(M) -> ControlRecord) -> Result<Option<ControlRecord>, DecodeError> {
    let mut r = Reader::new(WHAT, value).with_allowance(value.len().saturating_mul(ALLOWANCE_TIMES));
    let mut bookmark = r;
    let version = bookmark.read_i16()?;
    if !M::VERSIONS.contains(&version) {
        return Ok(None);
    }
    let record = M::decode(&mut r, version)?;
    r.finish()?;
    Ok(Some(into(record)))
}
