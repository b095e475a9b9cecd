//! pure: how records fill a batch of a given size exactly, and the template batches made of them.

use twinlog_proto::writer::Writer;

use super::batches::{HEADER_BYTES, MARK_BYTES, Shape, split_mix};
use crate::limits::RECORD_BYTES_MIN;

const MAGIC: u8 = 2;

/// How many records a batch has, and how the last ones fill it.
#[derive(Debug)]
pub(super) struct Layout {
    /// Records of a batch.
    pub(super) records: u32,
    record_bytes: u32,
    /// The record before the last is as small as can be.
    has_filler: bool,
    last_value_bytes: u32,
    last_has_key: bool,
}

impl Layout {
    /// The layout of the batches of a shape whose sizes are within bounds.
    pub(super) fn of(shape: &Shape) -> Self {
        let mut left = shape.batch_bytes - HEADER_BYTES as u32;
        let mut before = 0;
        // The last record may grow, so stop when no two more of the plain size fit.
        loop {
            let plain = record_size(before, false, shape.record_bytes);
            if left < plain + record_size(before + 1, false, shape.record_bytes) {
                break;
            }
            left -= plain;
            before += 1;
        }
        let mut has_filler = false;
        // Where the length of a record grows by a byte there is a size that no record has: two records then share it.
        let (last_value_bytes, last_has_key) = fill(before, left).unwrap_or_else(|| {
            has_filler = true;
            left -= record_size(before, false, RECORD_BYTES_MIN);
            before += 1;
            fill(before, left).expect("the sizes that no record has are far apart")
        });
        let record_bytes = shape.record_bytes;
        Self { records: before + 1, record_bytes, has_filler, last_value_bytes, last_has_key }
    }

    /// Bytes of the value of a record, and whether it has a key.
    fn value(&self, record: u32) -> (u32, bool) {
        match self.records - record {
            1 => (self.last_value_bytes, self.last_has_key),
            2 if self.has_filler => (RECORD_BYTES_MIN, false),
            _ => (self.record_bytes, false),
        }
    }

    /// A whole batch with everything that differs from batch to batch left 0, and where the mark in its first value ends.
    pub(super) fn template(&self, shape: &Shape, number: u32) -> (Vec<u8>, usize) {
        let mut bytes = Vec::with_capacity(shape.batch_bytes as usize);
        self.write_header(shape, &mut Writer::new(&mut bytes));
        let mut random = split_mix(shape.seed ^ (u64::from(number) << 20));
        let mut mark_at = 0;
        for record in 0..self.records {
            let (value_bytes, has_key) = self.value(record);
            write_record_framing(record, has_key, value_bytes, &mut Writer::new(&mut bytes));
            if record == 0 {
                mark_at = bytes.len();
            }
            write_value(value_bytes, &mut random, &mut bytes);
            bytes.push(0); // no headers
        }
        assert_eq!(bytes.len(), shape.batch_bytes as usize, "the last record fills the batch");
        (bytes, mark_at + MARK_BYTES)
    }

    fn write_header(&self, shape: &Shape, w: &mut Writer<'_>) {
        w.write_i64(0); // base offset: per batch
        w.write_i32((shape.batch_bytes - 12).cast_signed());
        w.write_i32(shape.leader_epoch);
        w.write_u8(MAGIC);
        w.write_u32(0); // CRC: per batch
        w.write_i16(0); // no codec, CreateTime, not transactional
        w.write_i32(self.records.cast_signed() - 1);
        w.write_i64(0); // base timestamp: per batch
        w.write_i64(0); // max timestamp: per batch
        w.write_i64(-1); // no producer id
        w.write_i16(-1);
        w.write_i32(-1);
        w.write_i32(self.records.cast_signed());
    }
}

fn varint_bytes(value: u32) -> u32 {
    // Zigzag doubles a value that is not negative.
    let zigzag = u64::from(value) << 1;
    (64 - (zigzag | 1).leading_zeros()).div_ceil(7)
}

/// Bytes of a record without its length field.
fn inner_size(record: u32, has_key: bool, value_bytes: u32) -> u32 {
    let key = if has_key { 2 } else { 1 };
    1 + varint_bytes(record) + varint_bytes(record) + key + varint_bytes(value_bytes) + value_bytes + 1
}

fn record_size(record: u32, has_key: bool, value_bytes: u32) -> u32 {
    let inner = inner_size(record, has_key, value_bytes);
    varint_bytes(inner) + inner
}

/// The value length (and whether a key of one byte is needed) with which record number `record` has `size` bytes.
fn fill(record: u32, size: u32) -> Option<(u32, bool)> {
    for has_key in [false, true] {
        let overhead_max = record_size(record, has_key, size) - size;
        for value_bytes in size.saturating_sub(overhead_max)..size {
            if record_size(record, has_key, value_bytes) == size && value_bytes >= MARK_BYTES as u32 {
                return Some((value_bytes, has_key));
            }
        }
    }
    None
}

fn write_record_framing(record: u32, has_key: bool, value_bytes: u32, w: &mut Writer<'_>) {
    w.write_varint(inner_size(record, has_key, value_bytes).cast_signed());
    w.write_i8(0); // attributes
    w.write_varlong(i64::from(record)); // one millisecond apart
    w.write_varint(record.cast_signed());
    if has_key {
        w.write_varint(1);
        w.write_u8(b'k');
    } else {
        w.write_varint(-1);
    }
    w.write_varint(value_bytes.cast_signed());
}

fn write_value(value_bytes: u32, random: &mut u64, out: &mut Vec<u8>) {
    let end = out.len() + value_bytes as usize;
    while out.len() < end {
        *random = split_mix(*random);
        let word = random.to_le_bytes();
        let take = word.len().min(end - out.len());
        out.extend_from_slice(&word[..take]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_can_be_filled_also_where_a_varint_grows() {
        for batch_bytes in (128..700).chain(8_200..8_400).chain(16_400..16_500) {
            for record_bytes in [16, 57, 58, 63, 64, 100, 8_190] {
                let shape = Shape { seed: 7, batch_bytes, record_bytes, leader_epoch: 3 };
                // The template itself asserts that it is full.
                assert!(Layout::of(&shape).template(&shape, 0).1 < batch_bytes as usize);
            }
        }
    }
}
