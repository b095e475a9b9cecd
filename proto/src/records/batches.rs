//! pure: walks record batches that arrive in pieces cut at any byte.
//!
//! The receive path feeds pieces as the network gives them and the recovery path feeds pieces of a file. Only the header of the
//! batch that a piece cuts through (61 bytes) and the record of a transaction marker are kept; nothing is allocated, and a batch
//! of 20 MB costs no more memory than one of 100 bytes. Checksums are computed as the bytes pass.
//!
//! The walker knows batches, not logs: whether offsets continue and epochs fit is decided by its callers.

use core::fmt;

use super::batch::{BatchHeader, CRC_FROM, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC_PREFIX_BYTES, MAGIC_V2};
use super::record::Record;
use crate::reader::Reader;

/// Bytes of a control batch's record that are kept to read the marker; a marker has 17.
const MARKER_BYTES_MAX: usize = 256;
/// The smallest length field that any format version allows.
const LEGACY_LENGTH_MIN: i32 = 14;
/// The smallest length field of a batch: its header and no records.
const LENGTH_MIN: i32 = (HEADER_BYTES - LENGTH_PREFIX_BYTES) as i32;
pub(crate) const MARKER_ABORT: i16 = 0;
pub(crate) const MARKER_COMMIT: i16 = 1;

/// What the caller lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Largest batch, header included, in bytes.
    pub batch_bytes_max: usize,
}

/// The end of a transaction, as a control batch says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// Committed, else aborted.
    pub commit: bool,
    /// Epoch of the transaction coordinator that wrote the marker.
    pub coordinator_epoch: i32,
}

/// What one call of [`BatchWalker::feed`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the piece that were taken.
    pub consumed: usize,
    /// What is known now; none when the whole piece was taken and more is needed.
    pub event: Option<BatchEvent>,
}

/// A step in the life of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchEvent {
    /// The header's last byte was just taken: where the batch goes must be decided now. Its checksum is not known yet.
    Header(BatchHeader),
    /// The batch's last byte was just taken and its checksum is right.
    Batch {
        /// The header, again.
        header: BatchHeader,
        /// Set for a control batch that ends a transaction.
        marker: Option<EndMarker>,
    },
}

/// Bytes that are no batch. The walker goes on after [`BatchWalker::reset`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchError {
    /// A message of magic 0 or 1, from before Kafka 0.11.
    OldFormat {
        /// Where the batch claims to start.
        base_offset: i64,
        /// 0 or 1.
        magic: i8,
    },
    /// A format version that this code does not know.
    UnknownMagic {
        /// Where the batch claims to start.
        base_offset: i64,
        /// The version.
        magic: i8,
    },
    /// A length field below what a header needs or above the limit.
    Size {
        /// Where the batch claims to start.
        base_offset: i64,
        /// The length field.
        batch_length: i32,
        /// Largest batch that is allowed, in bytes.
        batch_bytes_max: usize,
    },
    /// Offsets that no log can hold: negative, descending or past the end of the number range.
    Offsets {
        /// Where the batch claims to start.
        base_offset: i64,
        /// How far it claims to go.
        last_offset_delta: i32,
    },
    /// The checksum does not match.
    Crc {
        /// First offset of the batch.
        base_offset: i64,
        /// Last offset of the batch.
        last_offset: i64,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

/// The resumable walk. One per partition; small enough to copy.
#[derive(Debug, Clone)]
pub struct BatchWalker {
    limits: BatchLimits,
    carry: [u8; HEADER_BYTES],
    carry_bytes: usize,
    body: Option<Body>,
    marker_bytes: [u8; MARKER_BYTES_MAX],
    failed: Option<BatchError>,
}

/// The batch whose header has been seen.
#[derive(Debug, Clone, Copy)]
struct Body {
    header: BatchHeader,
    remaining: usize,
    crc: u32,
    marker: MarkerBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkerBytes {
    NotWanted,
    Kept(usize),
}

impl BatchWalker {
    /// Starts at the first byte of a batch.
    #[must_use]
    pub fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            carry: [0; HEADER_BYTES],
            carry_bytes: 0,
            body: None,
            marker_bytes: [0; MARKER_BYTES_MAX],
            failed: None,
        }
    }

    /// Takes bytes up to the next event. Call it again with the rest of the piece, **an empty rest included**, until `event` is
    /// none: a batch without records ends with its header.
    ///
    /// # Errors
    /// When the bytes are no batch; again on every call until [`BatchWalker::reset`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<Fed, BatchError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let fed = if self.body.is_some() { self.feed_body(piece) } else { self.feed_header(piece) };
        if let Err(error) = fed {
            self.failed = Some(error);
        }
        fed
    }

    /// Bytes of the unfinished batch that were taken so far; 0 between batches.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        match &self.body {
            Some(body) => body.header.size_bytes() - body.remaining,
            None => self.carry_bytes,
        }
    }

    /// Bytes of the unfinished batch that are still to come; none while its header is incomplete or between batches.
    #[must_use]
    pub fn remaining_bytes(&self) -> Option<usize> {
        self.body.as_ref().map(|body| body.remaining)
    }

    /// The bytes of the unfinished batch's header that were taken so far, all 61 once the header is known; empty between batches.
    #[must_use]
    pub fn header_bytes(&self) -> &[u8] {
        &self.carry[..self.carry_bytes]
    }

    /// Forgets the unfinished batch and any error: the next byte is the first of a batch.
    pub fn reset(&mut self) {
        self.carry_bytes = 0;
        self.body = None;
        self.failed = None;
    }

    fn feed_header(&mut self, piece: &[u8]) -> Result<Fed, BatchError> {
        let take = piece.len().min(HEADER_BYTES - self.carry_bytes);
        self.carry[self.carry_bytes..self.carry_bytes + take].copy_from_slice(&piece[..take]);
        self.carry_bytes += take;
        let header = BatchHeader::parse(&self.carry);
        self.check_prefix(&header)?;
        if self.carry_bytes < HEADER_BYTES {
            return Ok(Fed { consumed: take, event: None });
        }
        check_offsets(&header)?;
        let remaining = header.size_bytes() - HEADER_BYTES;
        let marker = if header.is_control() && remaining <= MARKER_BYTES_MAX {
            MarkerBytes::Kept(0)
        } else {
            MarkerBytes::NotWanted
        };
        let crc = crc32c::crc32c(&self.carry[CRC_FROM..]);
        self.body = Some(Body { header, remaining, crc, marker });
        Ok(Fed { consumed: take, event: Some(BatchEvent::Header(header)) })
    }

    /// Refuses what is known to be wrong before the header is whole: an old message may be shorter than a header.
    fn check_prefix(&self, prefix: &BatchHeader) -> Result<(), BatchError> {
        if self.carry_bytes < LENGTH_PREFIX_BYTES {
            return Ok(());
        }
        let BatchHeader { base_offset, batch_length, magic, .. } = *prefix;
        let size = BatchError::Size { base_offset, batch_length, batch_bytes_max: self.limits.batch_bytes_max };
        if batch_length < LEGACY_LENGTH_MIN || prefix.size_bytes() > self.limits.batch_bytes_max {
            return Err(size);
        }
        if self.carry_bytes < MAGIC_PREFIX_BYTES {
            return Ok(());
        }
        match magic {
            MAGIC_V2 if batch_length < LENGTH_MIN => Err(size),
            MAGIC_V2 => Ok(()),
            0 | 1 => Err(BatchError::OldFormat { base_offset, magic }),
            _ => Err(BatchError::UnknownMagic { base_offset, magic }),
        }
    }

    fn feed_body(&mut self, piece: &[u8]) -> Result<Fed, BatchError> {
        let Some(body) = &mut self.body else {
            return Ok(Fed { consumed: 0, event: None });
        };
        let take = piece.len().min(body.remaining);
        let bytes = &piece[..take];
        if let MarkerBytes::Kept(kept) = body.marker {
            self.marker_bytes[kept..kept + take].copy_from_slice(bytes);
            body.marker = MarkerBytes::Kept(kept + take);
        }
        body.crc = crc32c::crc32c_append(body.crc, bytes);
        body.remaining -= take;
        if body.remaining > 0 {
            return Ok(Fed { consumed: take, event: None });
        }
        let Body { header, crc: computed, marker, .. } = *body;
        if computed != header.crc {
            let (base_offset, last_offset) = (header.base_offset, header.last_offset());
            return Err(BatchError::Crc { base_offset, last_offset, stored: header.crc, computed });
        }
        let marker = match marker {
            MarkerBytes::Kept(kept) => parse_marker(&self.marker_bytes[..kept]),
            MarkerBytes::NotWanted => None,
        };
        self.body = None;
        self.carry_bytes = 0;
        Ok(Fed { consumed: take, event: Some(BatchEvent::Batch { header, marker }) })
    }
}

fn check_offsets(header: &BatchHeader) -> Result<(), BatchError> {
    let BatchHeader { base_offset, last_offset_delta, .. } = *header;
    // The offset after the batch must exist too.
    if base_offset < 0 || last_offset_delta < 0 || header.next_offset() == i64::MAX {
        return Err(BatchError::Offsets { base_offset, last_offset_delta });
    }
    Ok(())
}

/// Reads the end of a transaction from the record of a control batch; none when it is another kind of control record.
#[must_use]
pub fn parse_marker(record: &[u8]) -> Option<EndMarker> {
    let record = Record::decode(&mut Reader::new("control record", record)).ok()?;
    let mut key = Reader::new("control key", record.key?);
    let version = key.read_i16().ok()?;
    let kind = key.read_i16().ok()?;
    if version < 0 || !matches!(kind, MARKER_ABORT | MARKER_COMMIT) {
        return None;
    }
    let mut value = Reader::new("end marker", record.value?);
    let value_version = value.read_i16().ok()?;
    let coordinator_epoch = value.read_i32().ok()?;
    (value_version >= 0).then_some(EndMarker { commit: kind == MARKER_COMMIT, coordinator_epoch })
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldFormat { base_offset, magic } => write!(
                f,
                "the message at offset {base_offset} has the format of magic {magic} (before Kafka 0.11), which is not mirrored; \
                 let the source rewrite or expire such old segments"
            ),
            Self::UnknownMagic { base_offset, magic } => {
                write!(f, "the batch at offset {base_offset} has magic {magic}, which is not known")
            }
            Self::Size { base_offset, batch_length, batch_bytes_max } => write!(
                f,
                "the batch at offset {base_offset} claims {batch_length} bytes after its length field; batches of {HEADER_BYTES} \
                 to {batch_bytes_max} bytes are allowed"
            ),
            Self::Offsets { base_offset, last_offset_delta } => {
                write!(f, "a batch claims offset {base_offset} plus {last_offset_delta}, which no log can hold")
            }
            Self::Crc { base_offset, last_offset, stored, computed } => write!(
                f,
                "the batch of offsets {base_offset} to {last_offset} has checksum {stored:#010x} but its bytes give \
                 {computed:#010x}"
            ),
        }
    }
}

impl core::error::Error for BatchError {}
