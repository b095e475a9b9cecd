//! A pass proves: what a region may hold and what ends it; rolls, large batches and large logs keep every byte.

use super::kit::{ANY_EPOCH, Way, batch, batch_at, big_spec, feed, golden_spec, home};
use crate::log::{AppendStop, LogRules, LogSpec, PartitionLog, RegionRules};

fn run(offsets: std::ops::Range<i64>, size: usize) -> Vec<u8> {
    offsets.flat_map(|offset| batch(offset, 1, size)).collect()
}

#[test]
fn a_new_log_is_a_folder_with_an_id_and_an_empty_segment_at_its_start() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let spec = LogSpec { log_start: 500, ..big_spec(data.path()) };
        let log = PartitionLog::open(&home, spec).await.unwrap();
        assert_eq!((log.next_offset(), log.last_epoch(), log.residue(), log.bytes()), (500, -1, 0, 0));
        let names: Vec<_> = super::kit::contents(&data.path().join("golden-0")).into_keys().collect();
        assert_eq!(names, ["00000000000000000500.log", "partition.metadata"]);
    });
}

#[test]
fn what_was_accepted_before_a_stop_is_kept_and_stored() {
    tokio_uring::start(async {
        let home = home();
        for staged in [false, true] {
            let data = tempfile::tempdir().unwrap();
            let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
            let good = run(0..5, 1000);
            let mut bad = batch(5, 1, 1000);
            bad[500] ^= 1;
            let bytes = [good.clone(), bad, run(6..8, 1000)].concat();
            log.begin_region(ANY_EPOCH);
            let stop = if staged {
                log.stage(&bytes).unwrap_err()
            } else {
                let mut lease = home.pool.try_take().unwrap();
                lease[..bytes.len()].copy_from_slice(&bytes);
                log.append(lease, 0..bytes.len()).unwrap_err()
            };
            assert!(matches!(stop, AppendStop::Corrupt { next_offset: 5, .. }), "{stop}");
            assert!(matches!(log.stage(b"more"), Err(AppendStop::Over)));
            let end = log.end_region();
            assert_eq!((end.next_offset, end.batches, end.cut_off_bytes), (5, 5, 3004));
            assert_eq!(end.uniform_batch_bytes, Some(1000));
            feed(&mut log, &home, &run(5..8, 1000), Way::Pieces(1 << 20)).await;
            log.finish().await.unwrap();
            let stored = std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap();
            assert!(stored == run(0..8, 1000));
        }
    });
}

#[test]
fn a_newer_epoch_ends_the_region_before_it() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        let bytes = [batch_at(0, 3, 400, 1), batch_at(3, 1, 400, 2), batch_at(4, 1, 400, 5)].concat();
        log.begin_region(RegionRules { epoch_max: 2, ..ANY_EPOCH });
        assert!(matches!(log.stage(&bytes), Err(AppendStop::NewerEpoch { offset: 4, epoch: 5 })));
        let end = log.end_region();
        assert_eq!((end.newer_epoch, end.next_offset, log.last_epoch()), (Some(5), 4, 2));
        feed(&mut log, &home, &bytes[800..], Way::Runs(100)).await;
        log.finish().await.unwrap();
        let epochs = std::fs::read_to_string(data.path().join("golden-0/leader-epoch-checkpoint")).unwrap();
        assert_eq!(epochs, "0\n3\n1 0\n2 3\n5 4\n");
    });
}

#[test]
fn a_batch_that_spans_the_start_of_an_empty_log_moves_its_first_segment() {
    tokio_uring::start(async {
        let home = home();
        for way in [Way::Pieces(40), Way::Pieces(1 << 20), Way::Runs(40)] {
            let data = tempfile::tempdir().unwrap();
            let spec = LogSpec { log_start: 105, ..big_spec(data.path()) };
            let mut log = PartitionLog::open(&home, spec.clone()).await.unwrap();
            let bytes = [batch(100, 10, 700), batch(110, 1, 700)].concat();
            feed(&mut log, &home, &bytes, way).await;
            log.finish().await.unwrap();
            assert_eq!((log.progress().log_start, log.progress().leo), (105, 111));
            let dir = data.path().join("golden-0");
            assert!(std::fs::read(dir.join("00000000000000000100.log")).unwrap() == bytes);
            assert!(!dir.join("00000000000000000105.log").exists());
            let log = PartitionLog::open(&home, spec).await.unwrap();
            assert_eq!((log.progress().log_start, log.next_offset()), (105, 111));
        }
    });
}

#[test]
fn a_roll_in_the_middle_of_a_piece_splits_it_at_the_batch() {
    tokio_uring::start(async {
        let home = home();
        for way in [Way::Pieces(1 << 20), Way::Pieces(100_003), Way::Runs(30_011)] {
            let data = tempfile::tempdir().unwrap();
            let rules = LogRules { segment_bytes: 700_000, ..LogRules::default() };
            let mut log = PartitionLog::open(&home, LogSpec { rules, ..golden_spec(data.path()) }).await.unwrap();
            let wanted = run(0..400, 8_111);
            feed(&mut log, &home, &wanted, way).await;
            log.settle().await.unwrap();
            assert_eq!(log.bytes(), wanted.len() as u64);
            log.finish().await.unwrap();
            let mut stored = Vec::new();
            for (name, bytes) in super::kit::contents(&data.path().join("golden-0")) {
                if name.ends_with(".log") {
                    assert!(bytes.len() <= 700_000 && bytes.len() > 600_000 || stored.len() > 2_500_000, "{name}");
                    stored.extend(bytes);
                }
            }
            assert!(stored == wanted, "{way:?}");
            let checked = crate::log::offline::check(&data.path().join("golden-0")).unwrap();
            assert_eq!((checked.batches, checked.end_offset), (400, 400));
            assert_eq!(checked.problems, Vec::<String>::new(), "{way:?}");
        }
    });
}

#[test]
fn a_batch_of_20_mb_passes_through_pieces_of_1_mib() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        let wanted = [batch(0, 5, 999), batch(5, 70_000, 20 << 20), batch(70_005, 1, 77)].concat();
        // Cut off inside of the large batch: the header says how much to ask for.
        let end = feed(&mut log, &home, &wanted[..3 << 20], Way::Pieces(1_040_000)).await;
        assert_eq!((end.next_offset, end.cut_off_batch_bytes), (5, Some(20 << 20)));
        feed(&mut log, &home, &wanted[999..], Way::Pieces(1_040_000)).await;
        log.finish().await.unwrap();
        assert!(std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap() == wanted);
    });
}

#[test]
fn bytes_that_lie_elsewhere_than_the_residue_are_moved_and_right() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        let wanted = run(0..300, 3_501);
        let mut at = 0;
        for size in [1 << 20, 1000] {
            log.begin_region(ANY_EPOCH);
            let end = (at + size).min(wanted.len());
            let mut lease = home.pool.take().await;
            let start = lease.len() - (end - at);
            lease[start..].copy_from_slice(&wanted[at..end]);
            let whole = start..start + end - at;
            log.append(lease, whole).unwrap();
            at += log.end_region().bytes as usize;
        }
        log.finish().await.unwrap();
        assert!(std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap() == wanted[..at]);
    });
}

#[test]
fn an_idle_log_gives_back_its_descriptor_and_goes_on_in_the_middle_of_a_block() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        let wanted = run(0..9, 777);
        for part in wanted.chunks(777 * 3) {
            feed(&mut log, &home, part, Way::Runs(100)).await;
            log.flush().await.unwrap();
            assert!(!log.begin_flush().unwrap());
            assert!(log.active.file.is_none() && log.tails.is_none());
            let path = data.path().join("golden-0/00000000000000000000.log");
            assert_eq!(std::fs::metadata(path).unwrap().len(), log.bytes());
        }
        assert_eq!(log.progress().flushed, 9);
        assert!(std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap() == wanted);
    });
}

#[test]
fn whole_batches_below_the_log_end_are_left_out_wherever_they_stand() {
    tokio_uring::start(async {
        let home = home();
        // The log ends at 5: old ones first, in the middle, and last; between them what follows.
        let parts = [run(0..5, 1500), run(5..9, 1500), run(2..7, 900), run(9..30, 1500), run(8..10, 61)];
        let bytes = parts.concat();
        for way in [350, 1500, 5000, 1 << 20].map(Way::Pieces).into_iter().chain([61, 700, 9000].map(Way::Runs)) {
            let data = tempfile::tempdir().unwrap();
            let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
            feed(&mut log, &home, &run(0..5, 1500), way).await;
            if let Way::Runs(_) = way {
                log.settle().await.unwrap();
            }
            let end = feed(&mut log, &home, &bytes, way).await;
            assert_eq!((end.next_offset, end.batches, end.left_out), (30, 25, Some((0, 0))), "{way:?}");
            assert_eq!(end.cut_off_bytes, 5 * 1500 + 5 * 900 + 2 * 61, "{way:?}");
            let end = feed(&mut log, &home, &run(3..9, 1500)[..4000], way).await;
            assert_eq!((end.next_offset, end.batches, end.left_out), (30, 0, Some((3, 3))), "{way:?}");
            feed(&mut log, &home, &run(30..32, 1500), way).await;
            log.finish().await.unwrap();
            let stored = std::fs::read(data.path().join("golden-0/00000000000000000000.log")).unwrap();
            assert!(stored == run(0..32, 1500), "{way:?}");
        }
    });
}
