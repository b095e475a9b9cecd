//! Reads what the coordinators of the source wrote into their topics, and has it decided what becomes of open transactions and of
//! offsets of groups.

use crate::handover::facts::{Files, Topic, epoch_max};
use crate::handover::tail;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
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
    let mut next = None;
    for base in bases.into_iter().filter(|base| *base < files.end) {
        let path = files.directory.join(names::file_name(base, FileKind::Log));
        let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(&path)?);
        loop {
            let header = match next_batch(&mut file, files.end, &mut batch) {
                Ok(Some(header)) => header,
                Ok(None) => break,
                // Behind the end a batch may be being written.
                Err(_) if next == Some(files.end) => break,
                Err(cause) => return Err(io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))),
            };
            next = Some(header.next_offset());
            resolver.take(topic, partition, &batch).map_err(|cause| io::Error::other(cause.to_string()))?;
        }
    }
    match next {
        Some(next) if next != files.end => {
            Err(io::Error::other(format!("its batches end at offset {next}, and the log at {}", files.end)))
        }
        _ => Ok(()),
    }
}

/// Reads the next batch that lies below `end`; none at the end of what is written.
fn next_batch(file: &mut impl BufRead, end: i64, batch: &mut Vec<u8>) -> io::Result<Option<BatchHeader>> {
    batch.clear();
    file.take(HEADER_BYTES as u64).read_to_end(batch)?;
    // Space that is allocated and not written yet is zeros.
    if batch.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(&batch[..]) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let header = BatchHeader::parse(bytes);
    let size = header.size_bytes();
    if header.magic != MAGIC_V2 || size < HEADER_BYTES {
        return Err(io::Error::other("what lies behind its last batch is none; look with `twinlog verify`"));
    }
    if header.next_offset() > end {
        return Ok(None);
    }
    if size > BATCH_BYTES_MAX {
        return Err(io::Error::other(format!("the batch at offset {} has {size} bytes", header.base_offset)));
    }
    file.take((size - HEADER_BYTES) as u64).read_to_end(batch)?;
    match batch.len() == size {
        true => Ok(Some(header)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use twinlog_proto::records::plain;

    const END: i64 = 6;

    /// A partition of `__transaction_state` with tombstones at offsets 0 to 5, three in each segment.
    fn files(directory: &Path) -> Files {
        for base in [0, 3] {
            let mut bytes = Vec::new();
            for offset in base..base + 3 {
                plain::encode(&mut bytes, plain::header(offset, 1, 0, 5), [(Some(&b"\0\0\0\x01x"[..]), None)]);
            }
            fs::write(directory.join(names::file_name(base, FileKind::Log)), bytes).unwrap();
        }
        Files {
            directory: directory.to_owned(),
            device: 0,
            owner: (0, 0),
            is_writable: true,
            topic_id: None,
            start: 0,
            end: END,
            epoch_max: 1,
            producers: Vec::new(),
            samples: Vec::new(),
            segments: Vec::new(),
            snapshot: None,
            bytes: 0,
        }
    }

    fn fed(files: &Files) -> Result<(), String> {
        let mut resolver = Resolver::new(Vec::new()).unwrap();
        feed(&mut resolver, TRANSACTION_STATE, 0, files).map_err(|cause| cause.to_string())
    }

    #[test]
    fn what_cannot_be_read_to_the_end_is_refused_and_what_is_being_written_behind_it_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let files = files(scratch.path());
        let path = |base| scratch.path().join(names::file_name(base, FileKind::Log));
        fed(&files).unwrap();
        let whole = [0, 3].map(|base| fs::read(path(base)).unwrap());
        for behind in [&[0_u8; 4096][..], &[9; 30], &[9; 4096]] {
            fs::write(path(3), [&whole[1], behind].concat()).unwrap();
            fed(&files).unwrap();
        }
        let third = whole[1].len() / 3;
        fs::write(path(3), &whole[1][..2 * third]).unwrap();
        assert!(fed(&files).unwrap_err().contains("end at offset 5"));
        fs::write(path(3), &whole[1]).unwrap();
        let mut odd = whole[0].clone();
        odd[third + 16] = 0;
        for wrong in [&odd, &whole[0][..third + 20], &whole[0][..third + 70]] {
            fs::write(path(0), wrong).unwrap();
            let refused = fed(&files).unwrap_err();
            assert!(refused.contains("00000.log"), "{refused}");
        }
    }
}
