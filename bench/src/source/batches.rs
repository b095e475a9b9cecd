//! pure: seeded record batches, computable at any offset or byte position without a stored log.
//!
//! All batches of a topic have the same size and the same number of records, so that offsets and byte positions are
//! products. A batch is a small *head* (the 61-byte header and the start of the first record) made per batch, and a
//! *body* taken from one of a few templates. The head carries the partition and the number of the batch inside the
//! first record's value, so no two batches of a topic are equal; the CRC of the whole is the shifted CRC of the head
//! combined with the body's.

use core::array;

use crc32c::{crc32c, crc32c_combine};
use thiserror::Error;
use twinlog_proto::ids::Uuid;

use super::layout::Layout;
use crate::limits::{BATCH_BYTES_MAX, BATCH_BYTES_MIN, RECORD_BYTES_MIN};

/// Bytes of the header of a v2 batch.
pub const HEADER_BYTES: usize = 61;
/// The timestamp of the first record of every partition, in ms since 1970: 2023-11-14.
pub const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;
/// The most bytes of a head: header, framing of a record with a key of one byte, mark.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + 16 + MARK_BYTES;

pub(super) const MARK_BYTES: usize = 16;
const TEMPLATES_BYTES: u32 = 8 << 20;
const TEMPLATES_MIN: u32 = 2;
const TEMPLATES_MAX: u32 = 64;
const CRC_AT: usize = 17;
const CHECKED_FROM: usize = 21;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;

/// What the batches of a topic look like. Two sources with the same shape hold the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Everything random is drawn from this.
    pub seed: u64,
    /// Size of every batch, header included, [`BATCH_BYTES_MIN`] to [`BATCH_BYTES_MAX`].
    pub batch_bytes: u32,
    /// Bytes of a record's value, at least [`RECORD_BYTES_MIN`]; the last one of a batch is longer to fill it.
    pub record_bytes: u32,
    /// The leader epoch stamped on every batch.
    pub leader_epoch: i32,
}

/// A shape that no batch can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// The size of a batch is out of bounds.
    #[error("a batch of {0} bytes cannot be made; choose {BATCH_BYTES_MIN} to {BATCH_BYTES_MAX}")]
    BatchBytes(u32),
    /// The size of a record is out of bounds.
    #[error("a record of {0} bytes cannot be made; choose at least {RECORD_BYTES_MIN}")]
    RecordBytes(u32),
}

/// The content of every partition of a topic.
#[derive(Debug)]
pub struct Batches {
    shape: Shape,
    records: u32,
    head_bytes: usize,
    templates: Vec<Template>,
    shift: CrcShift,
}

#[derive(Debug)]
struct Template {
    head: Vec<u8>,
    body: Vec<u8>,
    body_crc: u32,
}

impl Template {
    fn new((mut head, head_bytes): (Vec<u8>, usize)) -> Self {
        let body = head.split_off(head_bytes);
        let body_crc = crc32c(&body);
        Self { head, body, body_crc }
    }
}

impl Batches {
    /// Makes the templates: a few MiB, a few milliseconds.
    ///
    /// # Errors
    /// When the shape is out of bounds.
    pub fn new(shape: Shape) -> Result<Self, ShapeError> {
        if !(BATCH_BYTES_MIN..=BATCH_BYTES_MAX).contains(&shape.batch_bytes) {
            return Err(ShapeError::BatchBytes(shape.batch_bytes));
        }
        if !(RECORD_BYTES_MIN..=BATCH_BYTES_MAX).contains(&shape.record_bytes) {
            return Err(ShapeError::RecordBytes(shape.record_bytes));
        }
        let layout = Layout::of(&shape);
        let count = (TEMPLATES_BYTES / shape.batch_bytes).clamp(TEMPLATES_MIN, TEMPLATES_MAX);
        let templates: Vec<Template> =
            (0..count).map(|number| Template::new(layout.template(&shape, number))).collect();
        let shift = CrcShift::over(templates[0].body.len());
        Ok(Self { shape, records: layout.records, head_bytes: templates[0].head.len(), templates, shift })
    }

    /// The shape these batches were made from.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Records in every batch, 1 or more.
    #[must_use]
    pub fn records_per_batch(&self) -> u32 {
        self.records
    }

    /// Bytes of every batch.
    #[must_use]
    pub fn batch_bytes(&self) -> u64 {
        u64::from(self.shape.batch_bytes)
    }

    /// Bytes of the part of a batch that [`Batches::write_head`] writes; the rest is [`Batches::body`].
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    /// The first offset of batch `index`.
    #[must_use]
    pub fn base_offset(&self, index: u64) -> i64 {
        index.saturating_mul(u64::from(self.records)).min(i64::MAX.cast_unsigned()).cast_signed()
    }

    /// The number of the batch that holds `offset`; negative offsets count as 0.
    #[must_use]
    pub fn index_of(&self, offset: i64) -> u64 {
        u64::try_from(offset).unwrap_or(0) / u64::from(self.records)
    }

    /// The first timestamp of batch `index` in ms: records are one millisecond apart.
    #[must_use]
    pub fn base_timestamp_ms(&self, index: u64) -> i64 {
        FIRST_TIMESTAMP_MS.saturating_add(self.base_offset(index))
    }

    /// Writes the head of a batch into the first [`Batches::head_bytes`] of `out`.
    ///
    /// # Panics
    /// When `out` is shorter than that.
    pub fn write_head(&self, partition: u32, index: u64, out: &mut [u8]) {
        let template = &self.templates[self.template_of(partition, index)];
        let head = &mut out[..self.head_bytes];
        head.copy_from_slice(&template.head);
        head[..8].copy_from_slice(&self.base_offset(index).to_be_bytes());
        let base_timestamp_ms = self.base_timestamp_ms(index);
        let max_timestamp_ms = base_timestamp_ms.saturating_add(i64::from(self.records) - 1);
        head[BASE_TIMESTAMP_AT..][..8].copy_from_slice(&base_timestamp_ms.to_be_bytes());
        head[MAX_TIMESTAMP_AT..][..8].copy_from_slice(&max_timestamp_ms.to_be_bytes());
        let mark = self.head_bytes - MARK_BYTES;
        head[mark..][..4].copy_from_slice(&partition.to_be_bytes());
        head[mark + 4..][..8].copy_from_slice(&index.to_be_bytes());
        head[mark + 12..].copy_from_slice(&(self.shape.seed as u32).to_be_bytes());
        let crc = self.shift.apply(crc32c(&head[CHECKED_FROM..])) ^ template.body_crc;
        head[CRC_AT..CHECKED_FROM].copy_from_slice(&crc.to_be_bytes());
    }

    /// The part of a batch after its head.
    #[must_use]
    pub fn body(&self, partition: u32, index: u64) -> &[u8] {
        &self.templates[self.template_of(partition, index)].body
    }

    /// Appends a whole batch to `out`.
    pub fn append_batch(&self, partition: u32, index: u64, out: &mut Vec<u8>) {
        let mut head = [0; HEAD_BYTES_MAX];
        self.write_head(partition, index, &mut head);
        out.extend_from_slice(&head[..self.head_bytes]);
        out.extend_from_slice(self.body(partition, index));
    }

    fn template_of(&self, partition: u32, index: u64) -> usize {
        let draw = split_mix(self.shape.seed ^ (u64::from(partition) << 40) ^ index);
        (draw % self.templates.len() as u64) as usize
    }
}

/// The id that a seed gives to `what` (a cluster, a topic).
#[must_use]
pub fn seeded_uuid(seed: u64, what: &str) -> Uuid {
    let high = split_mix(seed ^ u64::from(crc32c(what.as_bytes())));
    let low = split_mix(high ^ what.len() as u64);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    // Version and variant of a random uuid, as Kafka makes them; never one of the reserved small ones.
    bytes[6] = 0x40 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    Uuid(bytes)
}

/// One step of SplitMix64: a good hash of 64 bits.
pub(crate) fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What a run of a fixed number of bytes does to the CRC of the bytes before it: CRCs are linear, so 32 columns say all.
#[derive(Debug)]
struct CrcShift([u32; 32]);

impl CrcShift {
    fn over(bytes: usize) -> Self {
        Self(array::from_fn(|bit| crc32c_combine(1 << bit, 0, bytes)))
    }

    fn apply(&self, crc: u32) -> u32 {
        let mut shifted = 0;
        for (bit, column) in self.0.iter().enumerate() {
            // No branch: the bits of a CRC are random, and this runs once per batch.
            shifted ^= column & 0_u32.wrapping_sub((crc >> bit) & 1);
        }
        shifted
    }
}

#[cfg(test)]
mod tests {
    use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker};

    use super::*;

    fn batches(batch_bytes: u32, record_bytes: u32) -> Batches {
        Batches::new(Shape { seed: 7, batch_bytes, record_bytes, leader_epoch: 3 }).unwrap()
    }

    fn whole(batches: &Batches, partition: u32, index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        batches.append_batch(partition, index, &mut out);
        out
    }

    #[test]
    fn every_batch_has_the_asked_size_and_a_valid_crc() {
        for (batch_bytes, record_bytes) in
            [(128, 16), (129, 1000), (4096, 100), (4097, 1000), (65_536, 60), (1 << 20, 1000)]
        {
            let batches = batches(batch_bytes, record_bytes);
            for index in [0, 1, 77, 1 << 30] {
                let batch = whole(&batches, 5, index);
                assert_eq!(batch.len(), batch_bytes as usize);
                let stored = u32::from_be_bytes(batch[CRC_AT..CHECKED_FROM].try_into().unwrap());
                assert_eq!(stored, crc32c(&batch[CHECKED_FROM..]), "{batch_bytes} {record_bytes} {index}");
            }
        }
    }

    #[test]
    fn the_mirrors_own_walker_accepts_a_run_of_batches() {
        let batches = batches(4096, 100);
        let mut run = Vec::new();
        (10..14).for_each(|index| batches.append_batch(2, index, &mut run));
        let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: 1 << 20 });
        let (mut rest, mut seen) = (&run[..], Vec::new());
        loop {
            let fed = walker.feed(rest).unwrap();
            rest = &rest[fed.consumed..];
            match fed.event {
                Some(BatchEvent::Batch { header, .. }) => seen.push((header.base_offset, header.leader_epoch)),
                Some(BatchEvent::Header(_)) => {}
                None => break,
            }
        }
        assert_eq!(seen, (10..14).map(|index| (batches.base_offset(index), 3)).collect::<Vec<_>>());
    }

    #[test]
    fn no_two_batches_of_a_topic_are_equal_even_without_offset_and_epoch() {
        let batches = batches(256, 32);
        let mut seen = std::collections::HashSet::new();
        for partition in 0..20 {
            for index in 0..50 {
                assert!(seen.insert(whole(&batches, partition, index)[16..].to_vec()));
            }
        }
    }

    #[test]
    fn another_seed_gives_other_bytes_and_the_same_seed_the_same() {
        let one = whole(&batches(4096, 100), 1, 2);
        assert_eq!(one, whole(&batches(4096, 100), 1, 2));
        let other = Batches::new(Shape { seed: 8, batch_bytes: 4096, record_bytes: 100, leader_epoch: 3 }).unwrap();
        assert_ne!(one, whole(&other, 1, 2));
    }

    #[test]
    fn offsets_and_batch_numbers_are_inverse() {
        let batches = batches(4096, 100);
        let records = i64::from(batches.records_per_batch());
        assert!(records > 30);
        assert_eq!((batches.index_of(-5), batches.index_of(records - 1), batches.index_of(records)), (0, 0, 1));
        assert_eq!(batches.base_offset(3), 3 * records);
    }

    #[test]
    fn shapes_out_of_bounds_are_refused() {
        let shape = |batch_bytes, record_bytes| Shape { seed: 0, batch_bytes, record_bytes, leader_epoch: 0 };
        assert_eq!(Batches::new(shape(127, 16)).unwrap_err(), ShapeError::BatchBytes(127));
        assert_eq!(Batches::new(shape(128, 15)).unwrap_err(), ShapeError::RecordBytes(15));
    }
}
