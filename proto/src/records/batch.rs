//! pure: the 61-byte header of a record batch, magic 2.
//!
//! ```text
//!  0 i64 baseOffset          17 u32 crc (CRC-32C of byte 21 to the end)   43 i64 producerId
//!  8 i32 batchLength         21 i16 attributes                            51 i16 producerEpoch
//! 12 i32 leaderEpoch         23 i32 lastOffsetDelta                       53 i32 baseSequence
//! 16 i8  magic               27 i64 baseTimestamp, 35 i64 maxTimestamp    57 i32 recordCount
//! ```
//! `batchLength` counts the bytes after itself. The leader epoch and the base offset are outside of the checksum.

/// Bytes of a batch before its first record.
pub const HEADER_BYTES: usize = 61;
/// Bytes before and including the length field, which the length does not count.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// Bytes that suffice to know the format version.
pub const MAGIC_PREFIX_BYTES: usize = 17;
/// The first byte under the checksum.
pub const CRC_FROM: usize = 21;
/// The only format version that is mirrored.
pub const MAGIC_V2: i8 = 2;
/// No producer id, epoch, sequence or leader epoch.
pub const NONE: i32 = -1;

const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;
const DELETE_HORIZON_BIT: i16 = 0x40;

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// As they are.
    None,
    /// One gzip stream.
    Gzip,
    /// Snappy blocks in the "xerial" framing.
    Snappy,
    /// An LZ4 frame.
    Lz4,
    /// Zstandard frames.
    Zstd,
    /// A number that this code does not know; such batches are mirrored all the same.
    Unknown(u8),
}

impl Codec {
    /// The name that Kafka's tools print.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The fields of a batch header. Values are as found: nothing is checked by [`BatchHeader::parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record the batch was produced with.
    pub base_offset: i64,
    /// Bytes after this field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch; -1 none.
    pub leader_epoch: i32,
    /// Format version.
    pub magic: i8,
    /// CRC-32C as stored.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: i16,
    /// Last offset minus base offset; compaction keeps it.
    pub last_offset_delta: i32,
    /// What the records' timestamps are relative to, ms.
    pub base_timestamp: i64,
    /// Largest timestamp of a record, ms.
    pub max_timestamp: i64,
    /// -1 none.
    pub producer_id: i64,
    /// -1 none.
    pub producer_epoch: i16,
    /// -1 none.
    pub base_sequence: i32,
    /// Records in the batch; compaction can leave 0.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the fields, whatever they hold.
    #[must_use]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        Self {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            batch_length: i32::from_be_bytes(field(bytes, 8)),
            leader_epoch: i32::from_be_bytes(field(bytes, 12)),
            magic: i8::from_be_bytes(field(bytes, 16)),
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: i16::from_be_bytes(field(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            producer_id: i64::from_be_bytes(field(bytes, 43)),
            producer_epoch: i16::from_be_bytes(field(bytes, 51)),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        }
    }

    /// The header's bytes; `crc` and `batch_length` are written as they are in `self`.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.leader_epoch.to_be_bytes());
        out[16] = self.magic.cast_unsigned();
        out[17..21].copy_from_slice(&self.crc.to_be_bytes());
        out[21..23].copy_from_slice(&self.attributes.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[57..61].copy_from_slice(&self.record_count.to_be_bytes());
        out
    }

    /// Bytes of the whole batch; 0 when the length field is so negative that there is none.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        usize::try_from(i64::from(self.batch_length) + LENGTH_PREFIX_BYTES as i64).unwrap_or(0)
    }

    /// Offset of the last record; at the end of the number range when the fields overflow.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The offset that a batch after this one may start at.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch holds a control record.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether the timestamps are the broker's append time.
    #[must_use]
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME_BIT != 0
    }

    /// Whether `base_timestamp` holds a delete horizon.
    #[must_use]
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON_BIT != 0
    }

    /// Whether a producer id is set.
    #[must_use]
    pub fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }

    /// How the records are compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        match self.attributes & CODEC_MASK {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            other => Codec::Unknown(other as u8),
        }
    }

    /// Sequence of the last record, wrapping from 2147483647 to 0; -1 without a sequence.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return NONE;
        }
        advance_sequence(self.base_sequence, self.last_offset_delta)
    }
}

/// `sequence` plus `by`, where 0 follows 2147483647.
#[must_use]
pub fn advance_sequence(sequence: i32, by: i32) -> i32 {
    let wrapped = (i64::from(sequence) + i64::from(by)).rem_euclid(1 << 31);
    i32::try_from(wrapped).unwrap_or(i32::MAX)
}

fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commit marker of the golden log at offset 30.
    const COMMIT: &str = "000000000000001e00000042000000010258fb09e700300000000000000\
                          18bcfe594ec0000018bcfe594ec00000000000007d10003ffffffff00000001";

    fn commit() -> [u8; HEADER_BYTES] {
        let digits: Vec<u8> = COMMIT.bytes().filter_map(|b| char::from(b).to_digit(16)).map(|d| d as u8).collect();
        let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        bytes.try_into().unwrap()
    }

    #[test]
    fn a_commit_marker_of_stock_kafka_reads_as_documented() {
        let header = BatchHeader::parse(&commit());
        assert_eq!((header.base_offset, header.size_bytes(), header.leader_epoch, header.magic), (30, 78, 1, 2));
        assert_eq!((header.producer_id, header.producer_epoch, header.record_count), (2001, 3, 1));
        assert!(header.is_control() && header.is_transactional() && !header.is_log_append_time());
        assert_eq!((header.codec(), header.last_sequence(), header.next_offset()), (Codec::None, -1, 31));
        assert_eq!(header.encode(), commit());
    }

    #[test]
    fn sequences_wrap_from_the_largest_to_zero() {
        assert_eq!(advance_sequence(i32::MAX, 1), 0);
        assert_eq!(advance_sequence(i32::MAX - 1, 5), 3);
        assert_eq!(advance_sequence(7, 0), 7);
    }

    #[test]
    fn hostile_fields_saturate_instead_of_wrapping() {
        let mut header = BatchHeader::parse(&commit());
        header.base_offset = i64::MAX;
        header.last_offset_delta = i32::MAX;
        header.batch_length = i32::MIN;
        assert_eq!((header.last_offset(), header.next_offset(), header.size_bytes()), (i64::MAX, i64::MAX, 0));
    }
}
