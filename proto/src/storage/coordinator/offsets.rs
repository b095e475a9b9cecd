//! pure: keys and values of committed offsets in `__consumer_offsets`, told apart from the other records there.

pub use crate::messages::coordinator_records::{OffsetCommitKey, OffsetCommitValue};

use crate::error::{DecodeError, EncodeError};
use crate::messages::Message;
use crate::reader::Reader;

/// The highest record type that is an offset: types 0 and 1 have the same key.
const OFFSET_TYPE_MAX: i16 = 1;

/// What a record of `__consumer_offsets` is about.
#[derive(Debug, Clone, PartialEq)]
pub enum OffsetsKey {
    /// A group's offset in a partition.
    Offset {
        /// The record type in the key, 0 or 1.
        record_type: i16,
        /// The key behind it.
        key: OffsetCommitKey,
    },
    /// A group, a member, an assignment or anything else: kept as it is.
    Other {
        /// The record type in the key.
        record_type: i16,
    },
}

/// Reads a key.
///
/// # Errors
/// When the key is shorter than a record type, or one of an offset that is malformed.
pub fn decode_key(bytes: &[u8]) -> Result<OffsetsKey, DecodeError> {
    let mut r = Reader::new(OffsetCommitKey::NAME, bytes);
    let record_type = r.read_i16()?;
    if !(0..=OFFSET_TYPE_MAX).contains(&record_type) {
        return Ok(OffsetsKey::Other { record_type });
    }
    let key = OffsetCommitKey::decode(&mut r, record_type)?;
    r.finish()?;
    Ok(OffsetsKey::Offset { record_type, key })
}

/// The key of an offset; `record_type` is 0 or 1.
///
/// # Errors
/// When there is no such type of offset, or a name is longer than 32767 bytes.
pub fn encode_key(record_type: i16, key: &OffsetCommitKey) -> Result<Vec<u8>, EncodeError> {
    super::encode(record_type, record_type, key)
}

/// A value with its version.
///
/// # Errors
/// When the version is unknown or the value malformed.
pub fn decode_value(bytes: &[u8]) -> Result<(i16, OffsetCommitValue), DecodeError> {
    super::decode_value(bytes)
}

/// The bytes of a value at a version.
///
/// # Errors
/// When there is no such version, or the metadata is longer than it allows.
pub fn encode_value(version: i16, value: &OffsetCommitValue) -> Result<Vec<u8>, EncodeError> {
    super::encode(version, version, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Malformed;
    use crate::ids::Uuid;

    fn key() -> OffsetCommitKey {
        OffsetCommitKey { group: "g".into(), topic: "t".into(), partition: 3 }
    }

    #[test]
    fn an_offset_is_read_back_under_both_record_types() {
        for record_type in [0, 1] {
            let bytes = encode_key(record_type, &key()).unwrap();
            assert_eq!(bytes, [0, record_type as u8, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 3]);
            assert_eq!(decode_key(&bytes), Ok(OffsetsKey::Offset { record_type, key: key() }));
        }
    }

    #[test]
    fn other_records_are_told_apart_and_never_decoded() {
        for record_type in [2_i16, 3, 21, i16::MAX, -1] {
            let bytes = [&record_type.to_be_bytes()[..], &[0xff; 3]].concat();
            assert_eq!(decode_key(&bytes), Ok(OffsetsKey::Other { record_type }));
        }
        assert!(decode_key(&[0]).is_err() && decode_key(&[0, 1, 0]).is_err());
    }

    #[test]
    fn every_version_of_a_value_keeps_what_it_can_carry() {
        let value = OffsetCommitValue {
            offset: 42,
            leader_epoch: 5,
            metadata: "m".into(),
            commit_timestamp: 9,
            expire_timestamp: 10,
            topic_id: Uuid([7; 16]),
        };
        for version in 0..=4 {
            let (found, back) = decode_value(&encode_value(version, &value).unwrap()).unwrap();
            assert_eq!((found, back.offset, back.metadata.as_str(), back.commit_timestamp), (version, 42, "m", 9));
            assert_eq!(back.leader_epoch, if version >= 3 { 5 } else { -1 });
            assert_eq!(back.expire_timestamp, if version == 1 { 10 } else { -1 });
            assert_eq!(back.topic_id, if version == 4 { Uuid([7; 16]) } else { Uuid::ZERO });
        }
        assert!(encode_value(5, &value).is_err());
        let later = [0, 5, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(decode_value(&later).unwrap_err().why, Malformed::Version { found: 5 });
    }
}
