//! The reader on folders that a stock broker wrote, whole and damaged.

use super::*;
use crate::place;

fn golden(name: &str) -> PathBuf {
    place::repository().join("proto/golden").join(name)
}

/// A copy of the golden folder to be damaged.
fn copied() -> tempfile::TempDir {
    let scratch = place::scratch("reader");
    place::copy_folder(&golden("log-4.2/golden-0"), scratch.path());
    scratch
}

fn damage(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).expect("the file");
    change(&mut bytes);
    std::fs::write(file, bytes).expect("the file written");
}

#[test]
fn a_stock_folder_is_read_whole_and_found_sound() {
    let log = Log::read(&golden("log-4.2/golden-0")).expect("a sound log");
    let bases: Vec<_> = log.segments.iter().map(|s| s.base).collect();
    assert_eq!((bases, log.end()), (vec![0, 57, 1109], 1155));
    log.check_side_files().expect("sound side files");
    assert!(!epoch_file(&log.dir).expect("a sound epoch file").is_empty());
    assert_eq!(topic_id(&log.dir).expect("partition.metadata").len(), 22);
    assert_eq!(compare(&log, &log, 0, log.end()).map(|e| e.batches), Ok(log.batches().count() as u64));
}

#[test]
fn a_flipped_bit_in_any_batch_is_found() {
    let scratch = copied();
    let file = scratch.path().join("00000000000000000057.log");
    let length = std::fs::metadata(&file).expect("the file").len() as usize;
    for at in (21..length).step_by(499) {
        damage(&file, |b| b[at] ^= 1);
        assert!(Log::read(scratch.path()).is_err(), "byte {at}");
        damage(&file, |b| b[at] ^= 1);
    }
    assert!(Log::read(scratch.path()).is_ok());
}

#[test]
fn a_torn_end_is_reported_and_a_torn_middle_refused() {
    let scratch = copied();
    damage(&scratch.path().join("00000000000000001109.log"), |b| b.truncate(b.len() - 1));
    let log = Log::read(scratch.path()).expect("a torn end may be");
    assert!(log.segments[2].trailing_bytes > 0 && log.end() < 1155);
    damage(&scratch.path().join("00000000000000000057.log"), |b| b.truncate(b.len() - 1));
    assert!(Log::read(scratch.path()).is_err());
}

#[test]
fn wrong_side_files_are_found() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change); 6] = [
        ("00000000000000000057.index", |b| b[3] ^= 1),
        ("00000000000000000057.index", |b| b.extend([0; 8])),
        ("00000000000000000057.timeindex", |b| b[6] ^= 1),
        ("00000000000000000057.timeindex", |b| b.truncate(b.len() - 12)),
        ("00000000000000001109.txnindex", |b| b[9] ^= 1),
        ("00000000000000001155.snapshot", |b| b[20] ^= 1),
    ];
    for (name, change) in cases {
        let scratch = copied();
        damage(&scratch.path().join(name), change);
        let log = Log::read(scratch.path()).expect("sound segments");
        assert!(log.check_side_files().is_err(), "{name}");
    }
}

#[test]
fn copies_that_differ_are_told_apart() {
    let scratch = copied();
    let whole = Log::read(&golden("log-4.2/golden-0")).expect("a sound log");
    damage(&scratch.path().join("00000000000000001109.log"), |b| {
        b[15] ^= 1; // the leader epoch lies outside the CRC
    });
    let other = Log::read(scratch.path()).expect("still sound");
    assert!(compare(&whole, &other, 0, 1155).is_err());
    assert!(compare(&whole, &other, 0, 1109).is_ok());
    std::fs::remove_file(scratch.path().join("00000000000000000000.log")).expect("removed");
    let shorter = Log::read(scratch.path()).expect("still sound");
    assert!(compare(&whole, &shorter, 0, 1109).is_err());
    assert!(compare(&shorter, &whole, 0, 1109).is_err());
}
