//! Every way in which two sides can differ, and the ways in which they may.

use super::*;
use std::fs;
use std::path::Path;
use twinlog_proto::reader::Reader;
use twinlog_proto::records::batch::CRC_FROM;
use twinlog_proto::records::record::Record;

/// The golden log, with offsets 0 to 1154 in three segments.
fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/golden/log-4.2/golden-0")
}

fn segments() -> Vec<(String, Vec<u8>)> {
    let names = [0, 57, 1109].map(|base| format!("{base:020}.log"));
    names.map(|name| (name.clone(), fs::read(golden().join(name)).unwrap())).into()
}

/// The batches of the log, as a source would send them.
fn batches() -> Vec<Vec<u8>> {
    let all: Vec<u8> = segments().into_iter().flat_map(|(_, bytes)| bytes).collect();
    let mut rest = &all[..];
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(12 + u32::from_be_bytes(rest[8..12].try_into().unwrap()) as usize);
        batches.push(batch.to_vec());
        rest = after;
    }
    batches
}

/// What comes of a comparison of `local` with a source that sends `source` in pieces.
fn compare(local: &Path, source: &[Vec<u8>], from: i64, compacted: bool, piece: usize) -> (Tally, Option<Difference>) {
    let log = LocalLog::open(local, false).unwrap();
    let until = log.end_offset();
    let mut comparison = Comparison::new(log, from, until, compacted);
    for response in source.chunks(7) {
        // A broker cuts the last batch of a response.
        let mut bytes = response.concat();
        bytes.extend(&response[0][..40]);
        for piece in bytes.chunks(piece) {
            comparison.take(piece).unwrap();
        }
        comparison.end_of_response();
    }
    comparison.finish().unwrap()
}

fn with_crc(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    batch
}

#[test]
fn the_same_batches_are_identical_however_they_are_cut() {
    let source = batches();
    let bytes = source.iter().map(Vec::len).sum::<usize>() as u64;
    let all = Tally { batches: source.len() as u64, bytes, ..Tally::default() };
    for piece in [1, 13, 61, 4096, 1 << 20] {
        assert_eq!(compare(&golden(), &source, 0, false, piece), (all, None), "{piece}");
    }
}

#[test]
fn a_range_may_begin_within_a_batch() {
    let (tally, difference) = compare(&golden(), &batches()[1..], 4, false, 100);
    assert_eq!((tally.batches, difference), (batches().len() as u64 - 1, None));
}

#[test]
fn one_byte_that_differs_is_found_with_its_offset() {
    let mut source = batches();
    let at = source.len() - 2;
    let last = source[at].len() - 1;
    source[at][last] ^= 1;
    source[at] = with_crc(source[at].clone());
    let (_, difference) = compare(&golden(), &source, 0, true, 100);
    let difference = difference.unwrap();
    assert_eq!((difference.offset, difference.what), (1149, What::Header));
    assert_ne!(difference.here.unwrap().crc, difference.source.unwrap().crc);
}

#[test]
fn damage_of_a_local_file_differs_also_at_the_end_of_the_log() {
    for (name, at) in [("00000000000000000000.log", 300), ("00000000000000001109.log", 4880)] {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in segments() {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let mut bytes = fs::read(golden().join(name)).unwrap();
        bytes[at] ^= 0x40;
        fs::write(folder.path().join(name), bytes).unwrap();
        let (_, difference) = compare(folder.path(), &batches(), 0, false, 1000);
        assert!(difference.is_some(), "{name}");
    }
}

#[test]
fn a_batch_that_only_one_side_has_differs_unless_compaction_took_it_from_the_source() {
    let all = batches();
    let mut source = all.clone();
    source.remove(5);
    let (_, difference) = compare(&golden(), &source, 0, false, 100);
    assert_eq!(difference.map(|d| (d.what, d.source)), Some((What::OnlyHere, None)));
    let (tally, difference) = compare(&golden(), &source, 0, true, 100);
    assert_eq!((tally.forgotten, tally.batches, difference), (1, all.len() as u64 - 1, None));

    let local = tempfile::tempdir().unwrap();
    fs::write(local.path().join("00000000000000000000.log"), source.concat()).unwrap();
    let (_, difference) = compare(local.path(), &all, 0, true, 100);
    assert_eq!(difference.map(|d| (d.what, d.source.map(|h| h.base_offset))), Some((What::MissingHere, Some(15))));
}

/// `batch` without its last record, as compaction would leave it.
fn without_last_record(batch: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new("records", &batch[HEADER_BYTES..]);
    let count = u32::from_be_bytes(batch[57..61].try_into().unwrap());
    for _ in 1..count {
        Record::decode(&mut reader).unwrap();
    }
    let mut kept = batch[..HEADER_BYTES + reader.position()].to_vec();
    let length = kept.len() as u32 - 12;
    kept[8..12].copy_from_slice(&length.to_be_bytes());
    kept[57..61].copy_from_slice(&(count - 1).to_be_bytes());
    with_crc(kept)
}

#[test]
fn a_batch_with_fewer_records_at_a_compacting_source_was_rewritten() {
    let mut source = batches();
    source[2] = without_last_record(&source[2]);
    let (tally, difference) = compare(&golden(), &source, 0, true, 100);
    assert_eq!((tally.rewritten, difference), (1, None));
    assert_eq!(compare(&golden(), &source, 0, false, 100).1.unwrap().what, What::Header);
    let last = source[2].len() - 6;
    source[2][last] ^= 1;
    source[2] = with_crc(source[2].clone());
    assert_eq!(compare(&golden(), &source, 0, true, 100).1.unwrap().what, What::Record(7));
}

#[test]
fn what_the_source_lacks_at_the_end_is_only_here() {
    let mut source = batches();
    source.pop();
    assert_eq!(compare(&golden(), &source, 0, false, 100).1.unwrap().what, What::OnlyHere);
}
