//! Gives a stock node of 4.4 a metadata history that knows our topics: the 0-0 checkpoint that `kafka-storage format` wrote, with our
//! records behind its own. Written by hand from the record layouts, so that the tests do not lean on the product's writer.

use std::path::Path;

const HEADER_BYTES: usize = 61;
const CHECKPOINT: &str = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";
/// Producer ids that the node gives out begin here, above all that the source ever gave.
const PRODUCER_ID_NEXT: i64 = 1_000_000;

/// A topic as the node is to know it.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Name.
    pub name: String,
    /// Id, 22 base64url characters.
    pub id: String,
    /// Configs of the topic.
    pub configs: Vec<(String, String)>,
    /// Leader epoch of each partition, by index.
    pub leader_epochs: Vec<i32>,
}

/// Rewrites the checkpoint in `data`, a formatted log folder of node `node`; gives the number of data records in it, which the node
/// reports when it starts ("Appending N bootstrap record(s)").
///
/// # Panics
/// When the folder was not formatted by 4.4 for a static voter.
pub fn write(data: &Path, node: i32, topics: &[Topic]) -> usize {
    let path = data.join(CHECKPOINT);
    let formatted = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let batches = split(&formatted);
    assert_eq!(batches.len(), 3, "header, levels, footer");
    let directory = uuid(&meta(data, "directory.id"));
    let mut records = values(batches[1]);
    records.push(
        [&[1, 15, 0][..], &(-1_i32).to_be_bytes(), &(-1_i64).to_be_bytes(), &PRODUCER_ID_NEXT.to_be_bytes(), &[0]]
            .concat(),
    );
    for topic in topics {
        let id = uuid(&topic.id);
        records.push([&[1, 2, 0][..], &text(&topic.name), &id, &[0]].concat());
        for (key, value) in &topic.configs {
            records.push([&[1, 4, 0, 2][..], &text(&topic.name), &text(key), &text(value), &[0]].concat());
        }
        for (index, epoch) in (0_i32..).zip(&topic.leader_epochs) {
            records.push(partition(index, &id, node, *epoch, &directory));
        }
    }
    let footer_offset = 1 + i64::try_from(records.len()).expect("a countable number of records");
    let mut footer = batches[2].to_vec();
    footer[..8].copy_from_slice(&footer_offset.to_be_bytes());
    let whole = [batches[0], &data_batch(&records), &footer].concat();
    std::fs::remove_file(&path).expect("the old checkpoint removed: format makes it read-only");
    std::fs::write(&path, whole).expect("the new checkpoint written");
    records.len()
}

fn partition(index: i32, topic: &[u8], node: i32, epoch: i32, directory: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 3, 2];
    out.extend(index.to_be_bytes());
    out.extend(topic);
    for _replicas_then_isr in 0..2 {
        out.push(2);
        out.extend(node.to_be_bytes());
    }
    out.extend([1, 1]); // removing, adding: none
    out.extend(node.to_be_bytes());
    out.extend(epoch.to_be_bytes());
    out.extend(0_i32.to_be_bytes()); // partition epoch
    out.push(2);
    out.extend(directory);
    out.push(0);
    out
}

fn data_batch(values: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    let last = i32::try_from(values.len()).expect("a countable number of records") - 1;
    body.extend(0_i16.to_be_bytes());
    body.extend(last.to_be_bytes());
    body.extend([0; 16]); // both timestamps
    body.extend((-1_i64).to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    body.extend((-1_i32).to_be_bytes());
    body.extend((last + 1).to_be_bytes());
    for (delta, value) in (0_i64..).zip(values) {
        let mut record = vec![0, 0]; // attributes, timestamp delta
        varint(&mut record, delta);
        varint(&mut record, -1); // no key
        varint(&mut record, i64::try_from(value.len()).expect("a small value"));
        record.extend(value);
        record.push(0); // no headers
        varint(&mut body, i64::try_from(record.len()).expect("a small record"));
        body.extend(record);
    }
    let mut out = Vec::new();
    out.extend(1_i64.to_be_bytes());
    out.extend(i32::try_from(body.len() + 9).expect("a small batch").to_be_bytes());
    out.extend(0_i32.to_be_bytes());
    out.push(2);
    out.extend(crc32c::crc32c(&body).to_be_bytes());
    out.extend(body);
    out
}

/// The batches of a checkpoint file.
fn split(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while rest.len() >= HEADER_BYTES {
        let length = u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize + 12;
        let (batch, tail) = rest.split_at(length);
        out.push(batch);
        rest = tail;
    }
    out
}

/// The values of the records of an uncompressed batch.
fn values(batch: &[u8]) -> Vec<Vec<u8>> {
    let (mut at, mut out) = (HEADER_BYTES, Vec::new());
    while at < batch.len() {
        let end = read_varint(batch, &mut at) as usize + at;
        at += 2; // attributes, timestamp delta of zero
        read_varint(batch, &mut at);
        assert_eq!(read_varint(batch, &mut at), -1, "metadata records have no keys");
        let length = read_varint(batch, &mut at) as usize;
        out.push(batch[at..at + length].to_vec());
        at = end;
    }
    out
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn read_varint(bytes: &[u8], at: &mut usize) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (value >> 1) as i64 ^ -((value & 1) as i64);
        }
    }
}

/// A compact string: unsigned varint of length + 1, bytes.
fn text(value: &str) -> Vec<u8> {
    let (mut out, mut length) = (Vec::new(), value.len() + 1);
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(value.as_bytes());
    out
}

fn meta(data: &Path, key: &str) -> String {
    let path = data.join("meta.properties");
    let lines = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let found = lines.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("{} has no {key}", path.display())).to_owned()
}

/// The 16 bytes of a base64url id.
fn uuid(id: &str) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut held, mut out) = (0_u32, 0, Vec::new());
    for byte in id.trim_end_matches('=').bytes() {
        let six = ALPHABET.iter().position(|a| *a == byte).unwrap_or_else(|| panic!("{id} is no base64url id"));
        bits = bits << 6 | six as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    assert_eq!(out.len(), 16, "{id} has 16 bytes");
    out
}
