//! pure: whether compaction made the source's batch of the one that is here.
//!
//! It keeps offsets, producer and leader epoch of a batch, drops records that later ones replace, and notes when tombstones may go; a batch
//! that it rewrites may be compressed anew. What is left must be what is here.

use crate::codec::decompress;
use twinlog_proto::records::batch::BatchHeader;
use twinlog_proto::records::record::{Record, records};

/// Largest batch that is held to be compared record by record, in bytes.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Whether the headers allow it.
pub(super) fn is_possible(here: &BatchHeader, source: &BatchHeader) -> bool {
    let kept = |header: &BatchHeader| {
        let BatchHeader { base_offset, last_offset_delta, leader_epoch, .. } = *header;
        let producer = (header.producer_id, header.producer_epoch, header.base_sequence);
        (base_offset, last_offset_delta, leader_epoch, producer, header.is_transactional(), header.is_control())
    };
    let is_less = source.record_count < here.record_count
        || (source.record_count == here.record_count && source.has_delete_horizon() && !here.has_delete_horizon());
    kept(here) == kept(source) && is_less && here.size_bytes().max(source.size_bytes()) <= BATCH_BYTES_MAX
}

/// The offset of the first record of `source` that is not in `here`, each given by its header and the bytes after it; none when all are.
/// Records that cannot be read are not the same.
pub(super) fn changed_offset(here: (&BatchHeader, &[u8]), source: (&BatchHeader, &[u8])) -> Option<i64> {
    let base = source.0.base_offset;
    let (Ok(ours), Ok(theirs)) = (decompress(here.0.codec(), here.1), decompress(source.0.codec(), source.1)) else {
        return Some(base);
    };
    let mut ours = records(&ours, here.0.record_count).map_while(Result::ok);
    for theirs in records(&theirs, source.0.record_count) {
        let Ok(theirs) = theirs else { return Some(base) };
        // Offsets ascend on both sides.
        let ours = ours.by_ref().find(|ours| ours.offset_delta >= theirs.offset_delta);
        if ours.is_none_or(|ours| facts(here.0, &ours) != facts(source.0, &theirs)) {
            return Some(base.saturating_add(theirs.offset_delta.into()));
        }
    }
    None
}

fn facts<'r>(header: &BatchHeader, record: &Record<'r>) -> (i32, i64, Record<'r>) {
    let timestamp = header.base_timestamp.saturating_add(record.timestamp_delta);
    (record.offset_delta, timestamp, Record { timestamp_delta: 0, ..*record })
}
