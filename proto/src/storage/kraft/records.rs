//! pure: records of the cluster's metadata: which type a value has, and the value both ways.
//!
//! ```text
//! uvarint frame version = 1 | uvarint record type | uvarint record version | the message
//! ```

use crate::error::{DecodeError, EncodeError, Malformed};
use crate::messages::Message;
use crate::messages::kraft_records::{
    ACCESS_CONTROL_ENTRY, AccessControlEntryRecord, CLIENT_QUOTA, CONFIG, ClientQuotaRecord, ConfigRecord,
    FEATURE_LEVEL, FeatureLevelRecord, PARTITION, PARTITION_CHANGE, PRODUCER_IDS, PartitionChangeRecord,
    PartitionRecord, ProducerIdsRecord, REMOVE_TOPIC, RemoveTopicRecord, TOPIC, TopicRecord, USER_SCRAM_CREDENTIAL,
    UserScramCredentialRecord,
};
use crate::reader::Reader;
use crate::writer::Writer;

const WHAT: &str = "metadata record";
/// The only frame version that there is.
const FRAME_VERSION: u32 = 1;
/// Levels of metadata.version from which on partitions have directories (3.7-IV2), and eligible leader replicas (4.0-IV1).
const DIRECTORIES_FROM: i16 = 17;
const ELR_FROM: i16 = 23;
/// What the arrays of a record may take in memory, as a multiple of its bytes: the largest element, an entity of a quota, has 48 bytes for 3.
const ALLOWANCE_TIMES: usize = 24;

/// Record types that hold what delegation tokens are checked by: nothing of them is shown.
pub const DELEGATION_TOKEN: u32 = 10;
/// See [`DELEGATION_TOKEN`].
pub const REMOVE_DELEGATION_TOKEN: u32 = 26;

/// The feature whose level says which records a controller understands.
pub const METADATA_VERSION: &str = "metadata.version";

/// A record of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataRecord {
    /// A topic is there.
    Topic(TopicRecord),
    /// A partition is there.
    Partition(PartitionRecord),
    /// What is new at a partition.
    PartitionChange(PartitionChangeRecord),
    /// A config.
    Config(ConfigRecord),
    /// A topic is gone.
    RemoveTopic(RemoveTopicRecord),
    /// What a user's password is checked by.
    UserScramCredential(UserScramCredentialRecord),
    /// The level of a feature.
    FeatureLevel(FeatureLevelRecord),
    /// A quota.
    ClientQuota(ClientQuotaRecord),
    /// Producer ids that are given out.
    ProducerIds(ProducerIdsRecord),
    /// An access control entry.
    AccessControlEntry(AccessControlEntryRecord),
    /// A type or version that is not read here: kept as it is.
    Other {
        /// Record type.
        kind: u32,
        /// Record version.
        version: u32,
        /// The message.
        body: Vec<u8>,
    },
}

/// The version in which controllers at level `metadata_version` write a partition.
#[must_use]
pub fn partition_version(metadata_version: i16) -> i16 {
    match metadata_version {
        ELR_FROM.. => 2,
        DIRECTORIES_FROM.. => 1,
        _ => 0,
    }
}

impl MetadataRecord {
    /// The value of the record, frame included. `partition_version` is that of partitions and their changes; all others have one version.
    ///
    /// # Errors
    /// When a text is too long, or the version cannot carry what is set.
    pub fn encode(&self, partition_version: i16) -> Result<Vec<u8>, EncodeError> {
        match self {
            Self::Topic(record) => framed(TOPIC, 0, record),
            Self::Partition(record) => framed(PARTITION, partition_version, record),
            Self::PartitionChange(record) => framed(PARTITION_CHANGE, partition_version, record),
            Self::Config(record) => framed(CONFIG, 0, record),
            Self::RemoveTopic(record) => framed(REMOVE_TOPIC, 0, record),
            Self::UserScramCredential(record) => framed(USER_SCRAM_CREDENTIAL, 0, record),
            Self::FeatureLevel(record) => framed(FEATURE_LEVEL, 0, record),
            Self::ClientQuota(record) => framed(CLIENT_QUOTA, 0, record),
            Self::ProducerIds(record) => framed(PRODUCER_IDS, 0, record),
            Self::AccessControlEntry(record) => framed(ACCESS_CONTROL_ENTRY, 0, record),
            Self::Other { kind, version, body } => {
                let mut out = Vec::with_capacity(body.len() + 3);
                let mut w = Writer::new(&mut out);
                [FRAME_VERSION, *kind, *version].into_iter().for_each(|number| w.write_uvarint(number));
                w.write_slice(body);
                Ok(out)
            }
        }
    }

    /// Reads the value of a record.
    ///
    /// # Errors
    /// When the frame is of another version, or a record of a known type and version does not follow its layout to the last byte.
    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(WHAT, value).with_allowance(value.len().saturating_mul(ALLOWANCE_TIMES));
        let (kind, version) = frame(&mut r)?;
        let known = match kind {
            TOPIC => known(r, version, Self::Topic)?,
            PARTITION => known(r, version, Self::Partition)?,
            PARTITION_CHANGE => known(r, version, Self::PartitionChange)?,
            CONFIG => known(r, version, Self::Config)?,
            REMOVE_TOPIC => known(r, version, Self::RemoveTopic)?,
            USER_SCRAM_CREDENTIAL => known(r, version, Self::UserScramCredential)?,
            FEATURE_LEVEL => known(r, version, Self::FeatureLevel)?,
            CLIENT_QUOTA => known(r, version, Self::ClientQuota)?,
            PRODUCER_IDS => known(r, version, Self::ProducerIds)?,
            ACCESS_CONTROL_ENTRY => known(r, version, Self::AccessControlEntry)?,
            _ => None,
        };
        Ok(known.unwrap_or_else(|| Self::Other { kind, version, body: r.rest().to_vec() }))
    }
}

/// Record type and record version of the value of a record.
///
/// # Errors
/// When the frame is cut off or of another version.
pub fn type_and_version(value: &[u8]) -> Result<(u32, u32), DecodeError> {
    frame(&mut Reader::new(WHAT, value))
}

fn frame(r: &mut Reader<'_>) -> Result<(u32, u32), DecodeError> {
    let frame = r.read_uvarint()?;
    if frame != FRAME_VERSION {
        let found = i32::try_from(frame).unwrap_or(i32::MAX);
        return Err(DecodeError { what: WHAT, at: 0, why: Malformed::Version { found } });
    }
    Ok((r.read_uvarint()?, r.read_uvarint()?))
}

/// Kafka's name of a record type, as in 4.4.
#[must_use]
pub fn type_name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        0 => "REGISTER_BROKER_RECORD",
        1 => "UNREGISTER_BROKER_RECORD",
        TOPIC => "TOPIC_RECORD",
        PARTITION => "PARTITION_RECORD",
        CONFIG => "CONFIG_RECORD",
        PARTITION_CHANGE => "PARTITION_CHANGE_RECORD",
        7 => "FENCE_BROKER_RECORD",
        8 => "UNFENCE_BROKER_RECORD",
        REMOVE_TOPIC => "REMOVE_TOPIC_RECORD",
        DELEGATION_TOKEN => "DELEGATION_TOKEN_RECORD",
        USER_SCRAM_CREDENTIAL => "USER_SCRAM_CREDENTIAL_RECORD",
        FEATURE_LEVEL => "FEATURE_LEVEL_RECORD",
        CLIENT_QUOTA => "CLIENT_QUOTA_RECORD",
        PRODUCER_IDS => "PRODUCER_IDS_RECORD",
        17 => "BROKER_REGISTRATION_CHANGE_RECORD",
        ACCESS_CONTROL_ENTRY => "ACCESS_CONTROL_ENTRY_RECORD",
        19 => "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        20 => "NO_OP_RECORD",
        21 => "ZK_MIGRATION_STATE_RECORD",
        22 => "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        23 => "BEGIN_TRANSACTION_RECORD",
        24 => "END_TRANSACTION_RECORD",
        25 => "ABORT_TRANSACTION_RECORD",
        REMOVE_DELEGATION_TOKEN => "REMOVE_DELEGATION_TOKEN_RECORD",
        27 => "REGISTER_CONTROLLER_RECORD",
        28 => "CLEAR_ELR_RECORD",
        29 => "UNREGISTER_CONTROLLER_RECORD",
        _ => return None,
    })
}

/// The record, or none when its version is not known.
fn known<M: Message>(
    mut r: Reader<'_>,
    version: u32,
    into: fn(M) -> MetadataRecord,
) -> Result<Option<MetadataRecord>, DecodeError> {
    let Some(version) = i16::try_from(version).ok().filter(|version| M::VERSIONS.contains(version)) else {
        return Ok(None);
    };
    let record = M::decode(&mut r, version)?;
    r.finish()?;
    Ok(Some(into(record)))
}

fn framed<M: Message>(kind: u32, version: i16, record: &M) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.write_uvarint(FRAME_VERSION);
    w.write_uvarint(kind);
    // A negative version is refused by the message.
    w.write_uvarint(u32::try_from(version).unwrap_or(0));
    record.encode(&mut w, version)?;
    Ok(out)
}
