//! Records within a batch.

use super::{Fields, Page, Stop, metadata, state_log};
use crate::codec;
use crate::segment::Batch;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use twinlog_proto::records::batch::HEADER_BYTES;
use twinlog_proto::records::record::{self, Record};

/// Longest key or value that is printed whole.
const SHOWN_BYTES_MAX: usize = 1 << 20;

impl Page<'_> {
    /// Prints the records of a batch that is intact and small enough to be held.
    pub(super) fn records_of(&mut self, file: &File, batch: &Batch) -> Result<(), Stop> {
        let position = batch.position + HEADER_BYTES as u64;
        let mut bytes = vec![0; batch.header.size_bytes().saturating_sub(HEADER_BYTES)];
        file.read_exact_at(&mut bytes, position).map_err(|cause| self.unreadable(cause))?;
        let plain = codec::decompress(batch.header.codec(), &bytes).map_err(|cause| {
            let codec = batch.header.codec().name();
            self.damaged(batch.position, format!("the records ({codec}) cannot be decompressed: {cause}"))
        })?;
        for found in record::records(&plain, batch.header.record_count) {
            let found = found.map_err(|cause| self.damaged(batch.position, format!("within its records: {cause}")))?;
            self.print(self.record_line(batch, &found))?;
        }
        Ok(())
    }

    fn record_line(&self, batch: &Batch, record: &Record<'_>) -> Fields {
        let timestamp = match batch.header.is_log_append_time() {
            true => batch.header.max_timestamp,
            // The base may be a delete horizon; the records count from it all the same.
            false => batch.header.base_timestamp.saturating_add(record.timestamp_delta),
        };
        let mut fields = vec![
            ("kind", json!("record")),
            ("offset", json!(batch.header.base_offset.saturating_add(record.offset_delta.into()))),
            ("timestamp", json!(timestamp)),
        ];
        if self.is_state_log() && !batch.header.is_control() {
            fields.extend(state_log::fields(record.key, record.value));
            return Fields(fields);
        }
        if self.is_metadata() {
            fields.extend(metadata::fields(record.key, record.value));
            return Fields(fields);
        }
        let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        fields.extend([
            ("keySize", json!(size(record.key))),
            ("valueSize", json!(size(record.value))),
            ("key", text(record.key)),
            ("value", text(record.value)),
        ]);
        let headers: Vec<Value> = record.headers.iter().map(|header| json!([header.key, text(header.value)])).collect();
        if !headers.is_empty() {
            fields.push(("headers", Value::Array(headers)));
        }
        Fields(fields)
    }
}

/// Bytes as text when they are some, else in hexadecimal digits after `0x`.
pub(super) fn text(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let printable = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    let mut out = match std::str::from_utf8(shown).ok().filter(printable) {
        Some(text) => text.to_owned(),
        None => shown.iter().fold("0x".to_owned(), |mut hex, byte| {
            hex.extend([byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('?')));
            hex
        }),
    };
    if shown.len() < bytes.len() {
        out.push('…');
    }
    Value::String(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_when_they_can_be_and_hexadecimal_else() {
        assert_eq!(text(Some("größe\n".as_bytes())), json!("größe\n"));
        assert_eq!(text(Some(&[0, 0xfe])), json!("0x00fe"));
        assert_eq!((text(Some(b"")), text(None)), (json!(""), Value::Null));
        let long = text(Some(&vec![b'a'; SHOWN_BYTES_MAX + 1]));
        assert_eq!(long.as_str().unwrap().chars().count(), SHOWN_BYTES_MAX + 1);
    }
}
