//! pure: writes batches of magic 2 without compression, as we write them ourselves.

use super::batch::{BatchHeader, CRC_FROM, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC_V2, NONE};
use crate::writer::Writer;

/// Key and value of a record; none is null.
pub type KeyValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Attributes of a control batch that belongs to no transaction.
pub const CONTROL: i16 = 0x20;

/// The header of a batch without a producer whose records all have the time `timestamp_ms`.
#[must_use]
pub fn header(base_offset: i64, leader_epoch: i32, attributes: i16, timestamp_ms: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        batch_length: 0,
        leader_epoch,
        magic: MAGIC_V2,
        crc: 0,
        attributes,
        last_offset_delta: 0,
        base_timestamp: timestamp_ms,
        max_timestamp: timestamp_ms,
        producer_id: NONE.into(),
        producer_epoch: NONE as i16,
        base_sequence: NONE,
        record_count: 0,
    }
}

/// Appends a batch of `records`, numbered one by one from the base offset and all at the base timestamp. Length, checksum, last offset
/// and number of records are counted, everything else is as `header` says.
///
/// # Panics
/// When there is no record, or they come to 2 GiB, which no caller's limits allow.
pub fn encode<'a>(out: &mut Vec<u8>, mut header: BatchHeader, records: impl IntoIterator<Item = KeyValue<'a>>) {
    let start = out.len();
    out.extend([0; HEADER_BYTES]);
    let (mut count, mut body) = (0, Vec::new());
    for (key, value) in records {
        body.clear();
        let mut w = Writer::new(&mut body);
        w.write_i8(0); // attributes
        w.write_varlong(0); // timestamp delta
        w.write_varint(count);
        write_bytes(&mut w, key);
        write_bytes(&mut w, value);
        w.write_varint(0); // headers
        let mut w = Writer::new(out);
        w.write_varint(i32::try_from(body.len()).expect("a record is bounded far below 2 GiB"));
        w.write_slice(&body);
        count += 1;
    }
    assert!(count > 0, "a batch has a record");
    header.batch_length =
        i32::try_from(out.len() - start - LENGTH_PREFIX_BYTES).expect("a batch is bounded far below 2 GiB");
    header.last_offset_delta = count - 1;
    header.record_count = count;
    out[start..start + HEADER_BYTES].copy_from_slice(&header.encode());
    let crc = crc32c::crc32c(&out[start + CRC_FROM..]);
    out[start + 17..start + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
}

fn write_bytes(w: &mut Writer<'_>, bytes: Option<&[u8]>) {
    let Some(bytes) = bytes else { return w.write_varint(NONE) };
    w.write_varint(i32::try_from(bytes.len()).expect("a value is bounded far below 2 GiB"));
    w.write_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::batches::{BatchEvent, BatchLimits, BatchWalker};
    use crate::records::record::records;

    #[test]
    fn what_is_written_is_a_batch_with_a_right_checksum() {
        let mut bytes = vec![9];
        let wanted: [KeyValue<'_>; 3] = [(None, Some(b"a")), (Some(b"k"), None), (Some(b""), Some(&[7; 300]))];
        encode(&mut bytes, header(41, 3, 0, 1_700_000_000_000), wanted);
        let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: bytes.len() });
        assert_eq!(walker.feed(&bytes[1..]).unwrap().consumed, HEADER_BYTES);
        let Some(BatchEvent::Batch { header, .. }) = walker.feed(&bytes[1 + HEADER_BYTES..]).unwrap().event else {
            panic!("no batch")
        };
        assert_eq!((header.base_offset, header.next_offset(), header.leader_epoch), (41, 44, 3));
        let found: Vec<_> = records(&bytes[1 + HEADER_BYTES..], header.record_count).map(Result::unwrap).collect();
        let found: Vec<KeyValue<'_>> = found.iter().map(|record| (record.key, record.value)).collect();
        assert_eq!(found, wanted);
    }
}
