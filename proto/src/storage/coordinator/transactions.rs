//! pure: keys and values of `__transaction_state`.

pub use crate::messages::coordinator_records::{TransactionLogKey, TransactionLogValue, TransactionTopic};

use crate::error::{DecodeError, EncodeError, Malformed};
use crate::messages::Message;
use crate::reader::Reader;

/// Record type of the only kind of key.
const TRANSACTION: i16 = 0;

/// State of a transactional id, by Kafka's codes and names (`TransactionState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum TransactionState {
    /// A producer has registered, no transaction has begun.
    Empty = 0,
    /// A transaction is open.
    Ongoing = 1,
    /// It is decided that it commits; markers are being written.
    PrepareCommit = 2,
    /// It is decided that it aborts; markers are being written.
    PrepareAbort = 3,
    /// All markers of a commit are written.
    CompleteCommit = 4,
    /// All markers of an abort are written.
    CompleteAbort = 5,
    /// The transactional id has expired; never stored, a tombstone is.
    Dead = 6,
    /// A producer is being fenced; never stored, `PrepareAbort` follows it in memory.
    PrepareEpochFence = 7,
}

impl TransactionState {
    /// The code that is stored.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The meaning of a stored code; `None` for one that has none.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        [
            Self::Empty,
            Self::Ongoing,
            Self::PrepareCommit,
            Self::PrepareAbort,
            Self::CompleteCommit,
            Self::CompleteAbort,
            Self::Dead,
            Self::PrepareEpochFence,
        ]
        .into_iter()
        .find(|state| state.code() == code)
    }

    /// Kafka's name, as `kafka-transactions` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }
}

/// The transactional id of a key.
///
/// # Errors
/// When the key is of another record type, which is named as its version, or malformed.
pub fn decode_key(bytes: &[u8]) -> Result<String, DecodeError> {
    let mut r = Reader::new(TransactionLogKey::NAME, bytes);
    let record_type = r.read_i16()?;
    if record_type != TRANSACTION {
        return Err(DecodeError { what: KEY, at: 0, why: Malformed::Version { found: record_type.into() } });
    }
    let key = TransactionLogKey::decode(&mut r, 0)?;
    r.finish()?;
    Ok(key.transactional_id)
}

const KEY: &str = "key of __transaction_state";

/// The key of a transactional id.
///
/// # Errors
/// When the id is longer than 32767 bytes.
pub fn encode_key(transactional_id: &str) -> Result<Vec<u8>, EncodeError> {
    super::encode(TRANSACTION, 0, &TransactionLogKey { transactional_id: transactional_id.to_owned() })
}

/// A value with its version.
///
/// # Errors
/// When the version is unknown or the value malformed, its state included.
pub fn decode_value(bytes: &[u8]) -> Result<(i16, TransactionLogValue), DecodeError> {
    let (version, value) = super::decode_value::<TransactionLogValue>(bytes)?;
    if TransactionState::from_code(value.transaction_status).is_none() {
        return Err(DecodeError::rule(
            TransactionLogValue::NAME,
            0,
            "the code of the transaction's state has no meaning",
        ));
    }
    Ok((version, value))
}

/// The bytes of a value at a version.
///
/// # Errors
/// When there is no such version, or a name is longer than 32767 bytes.
pub fn encode_value(version: i16, value: &TransactionLogValue) -> Result<Vec<u8>, EncodeError> {
    super::encode(version, version, value)
}

/// What a value says, for those who know that it was decoded by [`decode_value`].
impl TransactionLogValue {
    /// The state; `Empty` for a code without meaning, which [`decode_value`] refuses.
    #[must_use]
    pub fn state(&self) -> TransactionState {
        TransactionState::from_code(self.transaction_status).unwrap_or(TransactionState::Empty)
    }

    /// Whether each end of a transaction raises the producer's epoch (KIP-890, `transaction.version` 2).
    #[must_use]
    pub fn raises_epochs(&self) -> bool {
        self.client_transaction_version >= 2
    }

    /// Whether the transaction has a partition; one without any partitions is not asked.
    #[must_use]
    pub fn has_partition(&self, topic: &str, partition: i32) -> bool {
        let topics = self.transaction_partitions.iter().flatten();
        topics.into_iter().any(|each| each.topic == topic && each.partition_ids.contains(&partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TransactionLog.valueToBytes` of Kafka 4.4.0 writes an ongoing transaction of `transaction.version` 2.
    const ONGOING: &[u8] = &[
        0, 1, // version
        0, 0, 0, 0, 0, 0, 0x03, 0xe8, // producer id 1000
        0, 7, // epoch
        0, 0, 0xea, 0x60, // timeout 60000
        1,    // Ongoing
        2, 7, b'o', b'r', b'd', b'e', b'r', b's', 2, 0, 0, 0, 3, 0, // one topic with one partition
        0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 10, // updated, started
        2, 0, 8, 0, 0, 0, 0, 0, 0, 0x03, 0xe8, 2, 2, 0, 2, // previous producer id, client version
    ];

    #[test]
    fn a_value_of_a_stock_broker_is_read_and_written_back() {
        let (version, value) = decode_value(ONGOING).unwrap();
        assert_eq!((version, value.state(), value.raises_epochs()), (1, TransactionState::Ongoing, true));
        assert_eq!((value.producer_id, value.producer_epoch, value.previous_producer_id), (1000, 7, 1000));
        assert!(value.has_partition("orders", 3) && !value.has_partition("orders", 2));
        assert_eq!(encode_value(1, &value).unwrap(), ONGOING);
    }

    #[test]
    fn a_version_or_a_state_without_meaning_is_named() {
        let mut later = ONGOING.to_vec();
        later[1] = 2;
        assert_eq!(decode_value(&later).unwrap_err().why, Malformed::Version { found: 2 });
        let mut odd = ONGOING.to_vec();
        odd[16] = 8;
        assert!(decode_value(&odd).unwrap_err().to_string().contains("state"));
        let key = encode_key("tx").unwrap();
        assert_eq!(decode_key(&key), Ok("tx".to_owned()));
        assert_eq!(decode_key(&[0, 1, 0, 0]).unwrap_err().why, Malformed::Version { found: 1 });
    }

    #[test]
    fn no_cut_of_a_value_is_taken() {
        for end in 0..ONGOING.len() {
            assert!(decode_value(&ONGOING[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn every_state_is_found_by_its_code() {
        for code in 0..8 {
            assert_eq!(TransactionState::from_code(code).map(TransactionState::code), Some(code));
        }
        assert_eq!(TransactionState::from_code(8), None);
    }
}
