//! What tests need that write to one log of their own: where it lies, and batches of one record each.

use std::path::Path;

use dataplane::log::{LogRules, LogSpec};
use twinlog_proto::ids::Uuid;
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES};

/// Partition 0 of `topic` in `data_dir`, new.
pub(crate) fn spec(data_dir: &Path, topic: String, rules: LogRules) -> LogSpec {
    LogSpec {
        token: 1,
        data_dir: data_dir.to_owned(),
        topic,
        partition: 0,
        topic_id: Uuid([1; 16]),
        rules,
        recovery_point: 0,
        log_start: 0,
        alignment: None,
    }
}

/// `count` batches of one record that follow each other from offset 0; what is in the record is no record, for nobody looks into it.
pub(crate) fn blob(count: usize, batch_bytes: usize) -> Vec<u8> {
    let mut blob = vec![0x5a; count * batch_bytes];
    for (offset, batch) in blob.chunks_mut(batch_bytes).enumerate() {
        let header = BatchHeader {
            base_offset: offset as i64,
            batch_length: batch_bytes as i32 - 12,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 1,
        };
        batch[..HEADER_BYTES].copy_from_slice(&header.encode());
        let crc = crc32c::crc32c(&batch[CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    blob
}
