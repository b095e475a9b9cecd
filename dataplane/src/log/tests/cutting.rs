//! A pass proves: cuts land on batch borders, leave what a stock broker leaves, and the log goes on from there.

use super::kit::{
    Way, assert_same, assert_same_files, batch, contents, copy_dir, feed, golden, golden_bytes, golden_spec, home,
};
use crate::disk::uring::UringDisk;
use crate::log::discard::discard;
use crate::log::{LogHome, LogSpec, PartitionLog, offline};

async fn opened(home: &LogHome<UringDisk>, data: &std::path::Path) -> PartitionLog<UringDisk> {
    copy_dir(&golden("log-4.2/golden-0"), &data.join("golden-0"));
    PartitionLog::open(home, golden_spec(data)).await.unwrap()
}

#[test]
fn a_log_cut_anywhere_ends_at_a_batch_and_can_be_completed() {
    tokio_uring::start(async {
        let home = home();
        for offset in [0, 1, 17, 18, 56, 57, 60, 77, 500, 1108, 1109, 1150, 1154, 1155, 2000] {
            let data = tempfile::tempdir().unwrap();
            let mut log = opened(&home, data.path()).await;
            log.cut(offset).await.unwrap();
            let end = log.next_offset();
            assert!(end <= offset.min(1155), "cut at {offset} ends at {end}");
            assert_eq!((log.progress().leo, log.progress().flushed), (end, end));
            let all = golden_bytes();
            let rest: Vec<u8> = super::kit::batches_of(&all)
                .into_iter()
                .filter(|batch| i64::from_be_bytes(batch[..8].try_into().unwrap()) >= end)
                .flatten()
                .copied()
                .collect();
            if !rest.is_empty() {
                feed(&mut log, &home, &rest, Way::Pieces(900)).await;
            }
            log.finish().await.unwrap();
            assert_same(&data.path().join("golden-0"), &golden("log-4.2/golden-0"), &format!("cut at {offset}"));
        }
    });
}

#[test]
fn a_cut_leaves_the_files_that_stock_leaves() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-0"));
        let end = offline::cut(&home, &data.path().join("golden-0"), golden_spec(data.path()).rules, 60).await.unwrap();
        // Stock says 60; the batch that holds it begins at 57, and so do we.
        assert_eq!(end.leo, 57);
        let (mut ours, mut stock) =
            (contents(&data.path().join("golden-0")), contents(&golden("log-4.2-truncated-to-60")));
        stock.remove("00000000000000000060.snapshot").unwrap();
        ours.remove("00000000000000000057.snapshot").unwrap();
        stock.remove("00000000000000000057.snapshot").unwrap();
        assert_same_files(&ours, &stock, "cut at 60");
    });
}

#[test]
fn the_log_start_moves_and_whole_segments_below_it_go() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = opened(&home, data.path()).await;
        log.advance_log_start(60).await.unwrap();
        log.advance_log_start(50).await.unwrap();
        log.finish().await.unwrap();
        assert_eq!((log.progress().log_start, log.progress().leo), (60, 1155));
        assert_same(&data.path().join("golden-0"), &golden("log-4.2-delete-records-60"), "log start 60");
        let spec = LogSpec { log_start: 60, ..golden_spec(data.path()) };
        let log = PartitionLog::open(&home, spec).await.unwrap();
        assert_eq!((log.progress().log_start, log.next_offset()), (60, 1155));
    });
}

#[test]
fn a_log_start_above_the_end_changes_nothing() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = opened(&home, data.path()).await;
        log.advance_log_start(1156).await.unwrap();
        assert_eq!((log.progress().log_start, log.next_offset()), (0, 1155));
        log.advance_log_start(1155).await.unwrap();
        assert_eq!((log.progress().log_start, log.next_offset()), (1155, 1155), "all of it is forgotten");
    });
}

#[test]
fn a_log_that_begins_anew_is_empty_and_keeps_the_offset() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let mut log = opened(&home, data.path()).await;
        log.restart_at(5000).await.unwrap();
        assert_eq!((log.progress().log_start, log.next_offset(), log.last_epoch()), (5000, 5000, -1));
        let names = contents(&data.path().join("golden-0"));
        assert_eq!(names["00000000000000005000.log"], b"");
        drop(log);
        let mut log = PartitionLog::open(&home, golden_spec(data.path())).await.unwrap();
        assert_eq!((log.progress().log_start, log.next_offset()), (5000, 5000));
        feed(&mut log, &home, &batch(5000, 1, 100), Way::Runs(100)).await;
        log.finish().await.unwrap();
        assert_eq!(log.progress().leo, 5001);
        let checked = offline::check(&data.path().join("golden-0")).unwrap();
        assert_eq!((checked.first_offset, checked.end_offset, checked.problems), (5000, 5001, vec![]));
    });
}

#[test]
fn check_accepts_a_stock_folder_and_names_what_is_wrong_in_a_harmed_one() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("golden-0");
    copy_dir(&golden("log-4.2/golden-0"), &dir);
    let checked = offline::check(&dir).unwrap();
    assert_eq!((checked.batches, checked.bytes, checked.problems.len()), (41, 15_914, 0), "{:?}", checked.problems);
    let path = dir.join("00000000000000000057.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3000] ^= 4;
    std::fs::remove_file(dir.join("00000000000000001109.txnindex")).unwrap();
    let problems = offline::check(&dir).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].starts_with("00000000000000001109.txnindex"), "{problems:?}");
    std::fs::write(&path, bytes).unwrap();
    let problems = offline::check(&dir).unwrap().problems;
    assert!(problems.iter().any(|p| p.starts_with("00000000000000000057.log holds no valid batch")), "{problems:?}");
}

#[test]
fn a_folder_is_thrown_away_whole_and_what_an_earlier_try_left_with_it() {
    tokio_uring::start(async {
        let data = tempfile::tempdir().unwrap();
        let (dir, aside) = (data.path().join("golden-0"), data.path().join(ASIDE));
        assert_eq!(discard(data.path(), ("golden", 0)).await.unwrap(), None, "there is none");
        // An earlier try that was killed after the rename, and one before it.
        copy_dir(&golden("log-4.2/golden-0"), &aside);
        std::fs::remove_file(aside.join("00000000000000000057.log")).unwrap();
        assert_eq!(discard(data.path(), ("golden", 0)).await.unwrap(), None);
        copy_dir(&golden("log-4.2/golden-0"), &aside);
        copy_dir(&golden("log-4.2/golden-0"), &dir);
        // Nothing has to be readable.
        std::fs::write(dir.join("00000000000000000057.log"), b"?").unwrap();
        std::fs::create_dir(dir.join("somebody's")).unwrap();
        copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-01"));
        let gone = discard(data.path(), ("golden", 0)).await.unwrap().unwrap();
        assert_eq!(
            (gone.first_base, gone.last_base, gone.topic_id),
            (0, 1109, Some(golden_spec(data.path()).topic_id))
        );
        let left = std::fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["golden-01"], "and nothing of another");
    });
}

#[test]
fn a_link_is_not_followed_to_throw_files_away() {
    tokio_uring::start(async {
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        copy_dir(&golden("log-4.2/golden-0"), &other.path().join("golden-0"));
        std::os::unix::fs::symlink(other.path().join("golden-0"), data.path().join("golden-0")).unwrap();
        let refused = discard(data.path(), ("golden", 0)).await.unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        assert_same(&other.path().join("golden-0"), &golden("log-4.2/golden-0"), "untouched");
    });
}

const ASIDE: &str = "golden-0.00000000000000000000000000000000-delete";
