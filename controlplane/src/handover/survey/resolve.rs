//! Reads what the coordinators of the source wrote into their topics, and has it decided what becomes of open transactions and of
//! offsets of groups.

use crate::handover::facts::{Files, Topic, epoch_max};
use crate::handover::tail;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use twinlog_proto::handover::resolve::{PartitionEnd, Resolution, Resolver, Trail};
use twinlog_proto::records::batch::{BatchHeader, HEADER_BYTES, MAGIC_V2};
use twinlog_proto::storage::coordinator::{CONSUMER_OFFSETS, TRANSACTION_STATE};
use twinlog_proto::storage::names::{self, FileKind};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Largest batch of a coordinator that is held: `max.message.bytes` of these topics is 1 MiB unless somebody raised it.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Batches that we append carry an epoch so far above every other one; the broker's is further above.
pub const EPOCH_OF_OURS: i32 = 1;

/// What becomes of transactions and offsets as the topics end now.
///
/// # Errors
/// What cannot be read or understood.
pub fn resolve(topics: &[Topic], now_ms: i64) -> Result<Resolution, String> {
    let mut ends = Vec::new();
    let producers = topics.iter().flat_map(Topic::files).flat_map(|(_, files)| &files.producers);
    let open: HashSet<i64> = producers.filter(|p| p.has_open_txn()).map(|producer| producer.producer_id).collect();
    for topic in topics {
        for (partition, files) in topic.files() {
            ends.push(PartitionEnd {
                topic: topic.name.clone(),
                partition: partition.index,
                topic_id: topic.id,
                end_offset: files.end,
                leader_epoch: epoch_max(partition).saturating_add(EPOCH_OF_OURS).max(0),
                producers: files.producers.clone(),
                trail: trail(files, &open).map_err(|cause| format!("{}: {cause}", files.directory.display()))?,
            });
        }
    }
    let mut resolver = Resolver::new(ends).map_err(|cause| cause.to_string())?;
    // What groups committed within a transaction is decided by the transactions, which are read first.
    for name in [TRANSACTION_STATE, CONSUMER_OFFSETS] {
        for topic in topics.iter().filter(|topic| topic.name == name) {
            for (partition, files) in topic.files() {
                feed(&mut resolver, name, partition.index, files)
                    .map_err(|cause| format!("{}: {cause}", files.directory.display()))?;
            }
        }
    }
    resolver.resolve(now_ms).map_err(|cause| cause.to_string())
}

/// What the partition knows of the producers that have a transaction open anywhere.
fn trail(files: &Files, open: &HashSet<i64>) -> io::Result<Trail> {
    if !files.producers.iter().any(|producer| open.contains(&producer.producer_id)) {
        return Ok(Trail::default());
    }
    tail::trail(&files.directory, files.end, &files.producers, open)
}

/// Gives the batches of a partition to the resolver, up to the end that was looked at: behind it a batch may be being written.
fn feed(resolver: &mut Resolver, topic: &str, partition: i32, files: &Files) -> io::Result<()> {
    let mut bases = Vec::new();
    for entry in fs::read_dir(&files.directory)? {
        let name = entry?.file_name();
        let parsed = name.to_str().and_then(names::parse_file_name);
        bases.extend(
            parsed.filter(|file| file.kind == FileKind::Log && file.leftover.is_none()).map(|file| file.offset),
        );
    }
    bases.sort_unstable();
    let mut batch = Vec::new();
    for base in bases {
        let file = File::open(files.directory.join(names::file_name(base, FileKind::Log)))?;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        while next_batch(&mut file, files.end, &mut batch)? {
            resolver.take(topic, partition, &batch).map_err(|cause| io::Error::other(cause.to_string()))?;
        }
    }
    Ok(())
}

/// Reads the next batch that lies below `end`; false when there is none.
fn next_batch(file: &mut impl Read, end: i64, batch: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; HEADER_BYTES];
    match file.read_exact(&mut bytes) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(cause) => return Err(cause),
    }
    let header = BatchHeader::parse(&bytes);
    let size = header.size_bytes();
    if header.magic != MAGIC_V2 || size < HEADER_BYTES || header.next_offset() > end {
        return Ok(false);
    }
    if size > BATCH_BYTES_MAX {
        return Err(io::Error::other(format!("the batch at offset {} has {size} bytes", header.base_offset)));
    }
    batch.clear();
    batch.extend_from_slice(&bytes);
    file.take((size - HEADER_BYTES) as u64).read_to_end(batch)?;
    match batch.len() == size {
        true => Ok(true),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
