//! Segments: a line for each batch, and for each record when that is wanted.

use super::{Fields, Page, Stop};
use crate::segment::{Batch, Item, SegmentWalk};
use serde_json::json;
use std::fs::File;
use twinlog_proto::records::batch::BatchHeader;

/// Largest batch whose records are printed; more is not read into memory.
pub(super) const RECORDS_BYTES_MAX: usize = 64 << 20;

impl Page<'_> {
    pub(super) fn segment(&mut self) -> Result<(), Stop> {
        let file = File::open(self.path).map_err(|cause| self.unreadable(cause))?;
        let mut walk = SegmentWalk::new(&file);
        let mut wrong = None;
        while let Some(item) = walk.next().map_err(|cause| self.unreadable(cause))? {
            match item {
                Item::Batch(batch) => {
                    self.batch(&file, &batch)?;
                    if !batch.is_intact() {
                        let (stored, computed) = (batch.header.crc, batch.computed_crc);
                        let why = format!("the checksum is {stored:#010x} but the bytes give {computed:#010x}");
                        wrong.get_or_insert((batch.position, why));
                    }
                }
                Item::ZeroTail { position, bytes } => self.print(zero_tail(position, bytes))?,
                Item::Torn { position, bytes } => {
                    wrong.get_or_insert((position, format!("the file ends after {bytes} bytes of a batch")));
                }
                Item::Bad { position, error } => {
                    wrong.get_or_insert((position, error.to_string()));
                }
            }
        }
        wrong.map_or(Ok(()), |(position, why)| Err(self.damaged(position, why)))
    }

    fn batch(&mut self, file: &File, batch: &Batch) -> Result<(), Stop> {
        self.print(batch_line(batch))?;
        let wanted = self.records || self.is_state_log() || self.is_metadata();
        if !wanted || !batch.is_intact() || batch.header.record_count == 0 {
            return Ok(());
        }
        if batch.header.size_bytes() > RECORDS_BYTES_MAX {
            return self.print(Fields(vec![
                ("kind", json!("note")),
                ("baseOffset", json!(batch.header.base_offset)),
                ("text", json!(format!("records of a batch above {RECORDS_BYTES_MAX} bytes are not printed"))),
            ]));
        }
        self.records_of(file, batch)
    }
}

fn zero_tail(position: u64, bytes: u64) -> Fields {
    Fields(vec![("kind", json!("zeroTail")), ("position", json!(position)), ("bytes", json!(bytes))])
}

fn batch_line(batch: &Batch) -> Fields {
    let header = &batch.header;
    let mut fields = vec![("kind", json!("batch")), ("position", json!(batch.position))];
    fields.extend(header_fields(header));
    fields.push(("crcIsValid", json!(batch.is_intact())));
    if !batch.is_intact() {
        fields.push(("computedCrc", json!(batch.computed_crc)));
    }
    if let Some(marker) = batch.marker {
        fields.push(("endTxnMarker", json!(if marker.commit { "COMMIT" } else { "ABORT" })));
        fields.push(("coordinatorEpoch", json!(marker.coordinator_epoch)));
    }
    Fields(fields)
}

fn header_fields(header: &BatchHeader) -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("baseOffset", json!(header.base_offset)),
        ("lastOffset", json!(header.last_offset())),
        ("lastOffsetDelta", json!(header.last_offset_delta)),
        ("count", json!(header.record_count)),
        ("leaderEpoch", json!(header.leader_epoch)),
        ("sizeInBytes", json!(header.size_bytes())),
        ("magic", json!(header.magic)),
        ("compression", json!(header.codec().name())),
        ("timestampType", json!(if header.is_log_append_time() { "LogAppendTime" } else { "CreateTime" })),
        ("baseTimestamp", json!(header.base_timestamp)),
        ("maxTimestamp", json!(header.max_timestamp)),
        ("hasDeleteHorizon", json!(header.has_delete_horizon())),
        ("isTransactional", json!(header.is_transactional())),
        ("isControl", json!(header.is_control())),
        ("producerId", json!(header.producer_id)),
        ("producerEpoch", json!(header.producer_epoch)),
        ("baseSequence", json!(header.base_sequence)),
        ("lastSequence", json!(header.last_sequence())),
        ("attributes", json!(header.attributes)),
        ("crc", json!(header.crc)),
    ]
}
