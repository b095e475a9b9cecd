//! What the tests of a log share: a core without a network, batches, and comparisons of folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use twinlog_proto::ids::Uuid;
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES};
use twinlog_proto::storage::producer_snapshot;

use crate::buffers::Pool;
use crate::disk::Disk;
use crate::disk::uring::UringDisk;
use crate::disk::writers::Writers;
use crate::log::{LogHome, LogRules, LogSpec, PartitionLog, RegionEnd, RegionRules};

pub(super) const ANY_EPOCH: RegionRules = RegionRules { epoch_max: i32::MAX, now_ms: 1_700_000_000_000 };

/// A name, and what is done to the data directory.
pub(super) type Harm = (&'static str, fn(&Path));

/// A core's shared parts over the given disk.
pub(super) fn home_on<D: Disk>(disk: D) -> LogHome<D> {
    let disk = Rc::new(disk);
    let pool = Pool::new(4, 8).unwrap();
    LogHome { writers: Writers::start(Rc::clone(&disk), 4), disk, pool }
}

pub(super) fn home() -> LogHome<UringDisk> {
    home_on(UringDisk::new())
}

/// The log `golden-0` in `data_dir`, with the rules that the golden folders were made with.
pub(super) fn golden_spec(data_dir: &Path) -> LogSpec {
    LogSpec {
        token: 7,
        data_dir: data_dir.to_owned(),
        topic: "golden".to_owned(),
        partition: 0,
        topic_id: golden_topic_id(),
        rules: LogRules {
            segment_bytes: 6000,
            index_interval_bytes: 500,
            producer_expiration_ms: i64::MAX,
            ..LogRules::default()
        },
        recovery_point: 0,
        log_start: -1,
        alignment: None,
    }
}

/// The same with rules for large batches and no rolls.
pub(super) fn big_spec(data_dir: &Path) -> LogSpec {
    LogSpec { rules: LogRules { producer_expiration_ms: i64::MAX, ..LogRules::default() }, ..golden_spec(data_dir) }
}

pub(super) fn golden(folder: &str) -> PathBuf {
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden");
    repo.join(folder)
}

fn golden_topic_id() -> Uuid {
    let text = std::fs::read(golden("log-4.2/golden-0/partition.metadata")).unwrap();
    twinlog_proto::storage::partition_metadata::parse(&text).unwrap()
}

/// All batches of the golden log, as a source would send them.
pub(super) fn golden_bytes() -> Vec<u8> {
    [0, 57, 1109].iter().flat_map(|base| std::fs::read(golden_log(*base)).unwrap()).collect()
}

pub(super) fn golden_log(base: i64) -> PathBuf {
    golden(&format!("log-4.2/golden-0/{base:020}.log"))
}

/// The batches in `bytes`, one slice each.
pub(super) fn batches_of(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let header = BatchHeader::parse(bytes[..HEADER_BYTES].try_into().unwrap());
        let (batch, rest) = bytes.split_at(header.size_bytes());
        batches.push(batch);
        bytes = rest;
    }
    batches
}

/// A batch of the given size with bytes that depend on its offset, and a right checksum.
pub(super) fn batch(base_offset: i64, records: i32, size_bytes: usize) -> Vec<u8> {
    batch_at(base_offset, records, size_bytes, 0)
}

pub(super) fn batch_at(base_offset: i64, records: i32, size_bytes: usize, leader_epoch: i32) -> Vec<u8> {
    let mut bytes = vec![0; size_bytes];
    let mut seed = base_offset.wrapping_mul(0x5851_f42d_4c95_7f2d) | 1;
    for byte in &mut bytes[HEADER_BYTES..] {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *byte = (seed >> 56) as u8;
    }
    let mut header = BatchHeader {
        base_offset,
        batch_length: size_bytes as i32 - 12,
        leader_epoch,
        magic: 2,
        crc: 0,
        attributes: 0,
        last_offset_delta: records - 1,
        base_timestamp: 1_700_000_000_000 + base_offset,
        max_timestamp: 1_700_000_000_000 + base_offset,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: records,
    };
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    header.crc = crc32c::crc32c(&bytes[CRC_FROM..]);
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
    bytes
}

/// How bytes reach the log.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Received into pieces of the given size.
    Pieces(usize),
    /// Copied into stages in runs of the given size.
    Runs(usize),
}

/// Gives `bytes` to the log as one region; panics when the log stops it.
pub(super) async fn feed<D: Disk>(log: &mut PartitionLog<D>, home: &LogHome<D>, bytes: &[u8], way: Way) -> RegionEnd {
    log.begin_region(ANY_EPOCH);
    match way {
        Way::Pieces(size) => {
            let mut rest = bytes;
            while !rest.is_empty() {
                let mut lease = home.pool.take().await;
                let start = log.residue();
                let (part, more) = rest.split_at(size.min(rest.len()).min(lease.len() - start));
                rest = more;
                lease[start..start + part.len()].copy_from_slice(part);
                // What an earlier owner left around the bytes must not matter.
                lease[start + part.len()..].fill(0xee);
                log.append(lease, start..start + part.len()).unwrap();
            }
        }
        Way::Runs(size) => {
            home.pool.stage_available().await;
            for part in bytes.chunks(size) {
                log.stage(part).unwrap();
            }
        }
    }
    log.end_region()
}

/// The files of a folder by name; snapshots as their entries in order of producer id.
pub(super) fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name == "README.md" {
            // The golden folders say where they come from.
            continue;
        }
        let mut bytes = std::fs::read(entry.path()).unwrap();
        if name.ends_with(".snapshot") {
            let mut entries = producer_snapshot::decode(&bytes).unwrap();
            entries.sort_by_key(|entry| entry.producer_id);
            bytes = format!("{entries:?}").into_bytes();
        }
        files.insert(name, bytes);
    }
    files
}

/// Compares two folders file by file.
pub(super) fn assert_same(found: &Path, wanted: &Path, context: &str) {
    assert_same_files(&contents(found), &contents(wanted), context);
}

/// Compares the files of two folders.
pub(super) fn assert_same_files(found: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>, context: &str) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(wanted), "{context}: files");
    for (name, bytes) in wanted {
        let at = found[name].iter().zip(bytes).position(|(a, b)| a != b);
        let same = found[name] == *bytes;
        assert!(
            same,
            "{context}: {name} has {} bytes, wanted {}; first difference at {at:?}",
            found[name].len(),
            bytes.len()
        );
    }
}

/// Copies a folder's files.
pub(super) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::write(to.join(entry.file_name()), std::fs::read(entry.path()).unwrap()).unwrap();
    }
}
