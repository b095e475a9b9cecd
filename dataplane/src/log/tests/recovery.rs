//! A pass proves: whatever a crash leaves behind, a log opens at its last whole batch, and goes on to the files that a stock
//! broker would have; damage that is no crash is reported, not cut away.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use twinlog_proto::channel::progress::FaultCode;

use super::kit::{
    Harm, Way, assert_same, batch, batches_of, big_spec, copy_dir, feed, golden, golden_bytes, golden_log, golden_spec,
    home,
};
use crate::disk::uring::UringDisk;
use crate::log::{LogHome, LogSpec, PartitionLog};

const LAST_LOG: &str = "golden-0/00000000000000001109.log";
const LAST_INDEX: &str = "golden-0/00000000000000001109.index";

/// A copy of the golden log as a crashed data plane leaves it, opened after `harm` was done to it.
async fn reopened(
    home: &LogHome<UringDisk>,
    data: &Path,
    spec: LogSpec,
    harm: impl FnOnce(),
) -> PartitionLog<UringDisk> {
    copy_dir(&golden("log-4.2/golden-0"), &data.join("golden-0"));
    harm();
    PartitionLog::open(home, spec).await.unwrap()
}

/// Feeds what is missing, finishes, and compares with the golden folder.
async fn complete(mut log: PartitionLog<UringDisk>, home: &LogHome<UringDisk>, data: &Path, context: &str) {
    let all = golden_bytes();
    let missing: Vec<u8> = batches_of(&all)
        .into_iter()
        .filter(|batch| i64::from_be_bytes(batch[..8].try_into().unwrap()) >= log.next_offset())
        .flatten()
        .copied()
        .collect();
    if !missing.is_empty() {
        feed(&mut log, home, &missing, Way::Pieces(777)).await;
    }
    log.finish().await.unwrap();
    assert_same(&data.join("golden-0"), &golden("log-4.2/golden-0"), context);
}

#[test]
fn a_log_cut_at_any_byte_of_its_last_batch_opens_before_it_and_completes() {
    tokio_uring::start(async {
        let home = home();
        let log = std::fs::read(golden_log(1109)).unwrap();
        let last = batches_of(&log).pop().unwrap();
        let whole = log.len() - last.len();
        for cut in (whole..log.len()).step_by(13).chain([whole + 1, whole + 60, whole + 61, log.len() - 1]) {
            for zeroes in [0, 5000] {
                if zeroes > 0 && log[cut..].iter().all(|byte| *byte == 0) {
                    // Zeroes that complete the batch are no tear.
                    continue;
                }
                let data = tempfile::tempdir().unwrap();
                let path = data.path().join(LAST_LOG);
                let spec = LogSpec { recovery_point: 1110, ..golden_spec(data.path()) };
                let opened = reopened(&home, data.path(), spec, || {
                    let mut torn = log[..cut].to_vec();
                    torn.resize(cut + zeroes, 0);
                    std::fs::write(&path, torn).unwrap();
                })
                .await;
                assert_eq!(opened.next_offset(), 1154, "cut at {cut}");
                assert_eq!(std::fs::metadata(&path).unwrap().len(), whole as u64);
                complete(opened, &home, data.path(), &format!("cut at {cut}, {zeroes} zeroes")).await;
            }
        }
    });
}

#[test]
fn indexes_that_lead_lag_or_miss_are_rebuilt() {
    tokio_uring::start(async {
        let home = home();
        let harms: [Harm; 6] = [
            ("leading index", |data| append(&data.join(LAST_INDEX), &[0, 0, 0, 45, 0, 0, 0x20, 0])),
            ("padded index", |data| append(&data.join(LAST_INDEX), &[0; 4096])),
            ("short index", |data| std::fs::write(data.join(LAST_INDEX), []).unwrap()),
            ("no index", |data| std::fs::remove_file(data.join(LAST_INDEX)).unwrap()),
            ("no old index", |data| remove(data, "00000000000000000057.index")),
            ("padded old time index", |data| {
                append(&data.join("golden-0/00000000000000000057.timeindex"), &[0; 12_000])
            }),
        ];
        for (name, harm) in harms {
            let data = tempfile::tempdir().unwrap();
            let spec = LogSpec { recovery_point: 1155, ..golden_spec(data.path()) };
            let log = reopened(&home, data.path(), spec, || harm(data.path())).await;
            assert_eq!(log.next_offset(), 1155);
            complete(log, &home, data.path(), name).await;
        }
    });
}

#[test]
fn snapshots_epochs_and_strays_are_rebuilt_from_the_batches() {
    tokio_uring::start(async {
        let home = home();
        let harms: [Harm; 5] = [
            ("no epochs", |data| remove(data, "leader-epoch-checkpoint")),
            ("torn epochs", |data| {
                std::fs::write(data.join("golden-0/leader-epoch-checkpoint"), "0\n9\n0 0\n").unwrap()
            }),
            ("bad end snapshot", |data| append(&data.join("golden-0/00000000000000001109.snapshot"), b"x")),
            ("snapshot above the end", |data| {
                std::fs::copy(
                    data.join("golden-0/00000000000000001155.snapshot"),
                    data.join("golden-0/00000000000000009999.snapshot"),
                )
                .unwrap();
            }),
            ("leftovers", |data| {
                std::fs::write(data.join("golden-0/00000000000000000900.index"), [0; 8]).unwrap();
                std::fs::write(data.join("golden-0/00000000000000000900.log.deleted"), [0; 8]).unwrap();
                std::fs::write(data.join("golden-0/leader-epoch-checkpoint.tmp"), [0; 8]).unwrap();
            }),
        ];
        for (name, harm) in harms {
            let data = tempfile::tempdir().unwrap();
            // From nothing: every segment is read, so that a snapshot that was removed is made again where stock has one.
            let log = reopened(&home, data.path(), golden_spec(data.path()), || harm(data.path())).await;
            complete(log, &home, data.path(), name).await;
        }
    });
}

#[test]
fn a_log_dropped_at_any_moment_opens_at_a_batch_and_completes() {
    tokio_uring::start(async {
        let home = home();
        let all = golden_bytes();
        for (i, way) in [Way::Pieces(500), Way::Runs(500), Way::Pieces(1 << 20)].into_iter().enumerate() {
            for cut in [600, 5600, 9000, 15_000] {
                let data = tempfile::tempdir().unwrap();
                let mut log = PartitionLog::open(&home, golden_spec(data.path())).await.unwrap();
                feed(&mut log, &home, &all[..cut], way).await;
                if i == 1 {
                    log.flush().await.unwrap();
                }
                // Nothing of this log is awaited any more: its writes end by themselves, or not at all.
                let (flushed, written) = (log.progress().flushed, log.next_offset());
                drop(log);
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
                let spec = LogSpec { recovery_point: flushed, ..golden_spec(data.path()) };
                let log = PartitionLog::open(&home, spec).await.unwrap();
                assert!((flushed..=written).contains(&log.next_offset()), "{}", log.next_offset());
                complete(log, &home, data.path(), &format!("{way:?} dropped after {cut} bytes")).await;
            }
        }
    });
}

#[test]
fn a_closed_segment_that_does_not_begin_as_its_own_is_found_also_below_the_recovery_point() {
    tokio_uring::start(async {
        let home = home();
        let path = |data: &Path| data.join("golden-0/00000000000000000057.log");
        let harms: [Harm; 2] = [
            ("another offset", |data| {
                let path = data.join("golden-0/00000000000000000057.log");
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[..8].copy_from_slice(&7_000_i64.to_be_bytes());
                std::fs::write(&path, bytes).unwrap();
            }),
            ("a size beyond the file", |data| {
                let path = data.join("golden-0/00000000000000000057.log");
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
                std::fs::write(&path, bytes).unwrap();
            }),
        ];
        for (name, harm) in harms {
            let data = tempfile::tempdir().unwrap();
            copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-0"));
            harm(data.path());
            let before = std::fs::read(path(data.path())).unwrap();
            let spec = LogSpec { recovery_point: 1155, ..golden_spec(data.path()) };
            let fault = PartitionLog::open(&home, spec).await.unwrap_err();
            assert_eq!(fault.code(), FaultCode::LOG_CORRUPT, "{name}");
            assert!(fault.to_string().contains("00000000000000000057.log"), "{fault}");
            assert_eq!(std::fs::read(path(data.path())).unwrap(), before, "{name}: nothing is cut");
        }
    });
}

#[test]
fn damage_below_the_recovery_point_of_an_earlier_segment_fails_and_names_it() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-0"));
        let path = data.path().join("golden-0/00000000000000000057.log");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        for recovery_point in [0, 1100] {
            let spec = LogSpec { recovery_point, ..golden_spec(data.path()) };
            let fault = PartitionLog::open(&home, spec).await.unwrap_err();
            assert_eq!(fault.code(), FaultCode::LOG_CORRUPT);
            assert!(fault.to_string().contains("00000000000000000057.log"), "{fault}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is cut");
        }
        // Once the last segment is known to be durable, the damaged one is not read.
        let spec = LogSpec { recovery_point: 1155, ..golden_spec(data.path()) };
        assert_eq!(PartitionLog::open(&home, spec).await.unwrap().next_offset(), 1155);
    });
}

#[test]
fn a_folder_of_another_topic_is_refused() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-0"));
        let spec = LogSpec { topic_id: twinlog_proto::ids::Uuid([7; 16]), ..golden_spec(data.path()) };
        let fault = PartitionLog::open(&home, spec).await.unwrap_err();
        assert_eq!(fault.code(), FaultCode::DIRECTORY);
    });
}

fn append(path: &Path, bytes: &[u8]) {
    let mut all = std::fs::read(path).unwrap();
    all.extend_from_slice(bytes);
    std::fs::write(path, all).unwrap();
}

fn remove(data: &Path, name: &str) {
    std::fs::remove_file(data.join("golden-0").join(name)).unwrap();
}

#[test]
fn others_on_the_core_go_on_while_a_long_segment_is_read() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        let bytes: Vec<u8> = (0..8).flat_map(|offset| batch(offset, 1, 1_000_000)).collect();
        feed(&mut log, &home, &bytes, Way::Pieces(1 << 20)).await;
        log.finish().await.unwrap();
        drop(log);
        let turns = Rc::new(Cell::new(0));
        let counted = Rc::clone(&turns);
        let other = tokio::task::spawn_local(async move {
            loop {
                counted.set(counted.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        assert_eq!(log.next_offset(), 8);
        assert!(turns.get() >= 7, "{} turns beside 8 MB", turns.get());
        other.abort();
    });
}
