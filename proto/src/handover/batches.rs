//! pure: the bytes of what a hand-over appends to a partition: one control batch for each marker, then the records.

use super::resolve::Appended;
use crate::records::batch::BatchHeader;
use crate::records::batches::{MARKER_ABORT, MARKER_COMMIT};
use crate::records::plain::{self, CONTROL};

/// Attributes of a marker's batch: control, and of a transaction.
const MARKER: i16 = CONTROL | 0x10;
/// Version of a marker's key and of its value.
const MARKER_VERSION: i16 = 0;
/// Bytes of keys and values in one batch: below `max.message.bytes` of any internal topic, whose default is 1 MiB.
const BATCH_PAYLOAD_BYTES: usize = 256 << 10;

/// Whole batches that continue the partition's log at its end; all carry the epoch of `appended` and the time `now_ms` (since 1970).
/// Empty when there is nothing to append.
#[must_use]
pub fn encode(appended: &Appended, now_ms: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut offset = appended.end_offset;
    for marker in &appended.markers {
        let kind = if marker.commit { MARKER_COMMIT } else { MARKER_ABORT };
        let key = [MARKER_VERSION.to_be_bytes(), kind.to_be_bytes()].concat();
        let value = [&MARKER_VERSION.to_be_bytes()[..], &marker.coordinator_epoch.to_be_bytes()].concat();
        let header = BatchHeader {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            ..plain::header(offset, appended.leader_epoch, MARKER, now_ms)
        };
        plain::encode(&mut out, header, [(Some(&key[..]), Some(&value[..]))]);
        offset += 1;
    }
    let mut rest = &appended.records[..];
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(batch_len(rest.iter().map(|(key, value)| key.len() + value.len())));
        let header = plain::header(offset, appended.leader_epoch, 0, now_ms);
        plain::encode(&mut out, header, batch.iter().map(|(key, value)| (Some(&key[..]), Some(&value[..]))));
        offset += batch.len() as i64;
        rest = later;
    }
    out
}

/// How many of these records go into one batch: at least one.
fn batch_len(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fit = sizes.take_while(|size| {
        bytes += size;
        bytes <= BATCH_PAYLOAD_BYTES
    });
    fit.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::resolve::Marker;
    use crate::records::batch::HEADER_BYTES;
    use crate::records::batches::{BatchEvent, BatchLimits, BatchWalker, EndMarker};

    fn walked(bytes: &[u8]) -> Vec<(BatchHeader, Option<EndMarker>)> {
        let mut walker = BatchWalker::new(BatchLimits { batch_bytes_max: 1 << 20 });
        let (mut rest, mut found) = (bytes, Vec::new());
        loop {
            let fed = walker.feed(rest).expect("a valid batch");
            rest = &rest[fed.consumed..];
            match fed.event {
                None => break,
                Some(BatchEvent::Header(_)) => {}
                Some(BatchEvent::Batch { header, marker }) => found.push((header, marker)),
            }
        }
        assert_eq!(walker.pending_bytes(), 0, "nothing is left over");
        found
    }

    fn appended() -> Appended {
        let marker = |producer_id, commit| Marker { producer_id, producer_epoch: 1, commit, coordinator_epoch: 3 };
        Appended {
            topic: "t".into(),
            partition: 0,
            end_offset: 70,
            leader_epoch: 5,
            markers: vec![marker(1000, true), marker(1001, false)],
            records: Vec::new(),
        }
    }

    /// Attributes, lengths, key and value are those of a marker that Kafka 4.4.0 writes.
    #[test]
    fn a_marker_has_the_bytes_that_a_broker_writes() {
        let bytes = encode(&appended(), 1_700_000_000_000);
        assert_eq!(bytes.len(), 2 * 78, "a marker's batch has 78 bytes");
        assert_eq!(bytes[21..23], [0, 0x30]);
        assert_eq!(bytes[HEADER_BYTES..78], [0x20, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 3, 0]);
        let found = walked(&bytes);
        assert_eq!(found[0].1, Some(EndMarker { commit: true, coordinator_epoch: 3 }));
        assert_eq!(found[1].1, Some(EndMarker { commit: false, coordinator_epoch: 3 }));
        for ((header, _), offset) in found.iter().zip(70..) {
            assert_eq!((header.base_offset, header.leader_epoch, header.record_count), (offset, 5, 1));
            assert_eq!((header.producer_id, header.producer_epoch), (1000 + offset - 70, 1));
            assert_eq!((header.base_sequence, header.max_timestamp), (-1, 1_700_000_000_000));
        }
    }

    #[test]
    fn records_follow_the_markers_in_batches_of_bounded_size() {
        let record = |bytes| (b"key".to_vec(), vec![7; bytes]);
        let records = vec![record(10), record(200 << 10), record(200 << 10), record(400 << 10), record(1)];
        let all = Appended { records, ..appended() };
        let found = walked(&encode(&all, 9));
        let shape: Vec<_> = found.iter().map(|(header, _)| (header.base_offset, header.record_count)).collect();
        assert_eq!(shape, [(70, 1), (71, 1), (72, 2), (74, 1), (75, 1), (76, 1)]);
        assert_eq!(found[5].0.next_offset(), all.new_end());
        assert!(found[2..].iter().all(|(header, _)| header.producer_id == -1 && header.attributes == 0));
    }

    #[test]
    fn nothing_to_append_has_no_bytes() {
        assert!(encode(&Appended { markers: Vec::new(), ..appended() }, 9).is_empty());
    }
}
