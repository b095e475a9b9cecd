//! A pass proves: a log that was finished is opened without being read through, and goes on; one that is not as it was left is opened as
//! any other.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kit::{Harm, Way, batches_of, copy_dir, feed, golden, golden_bytes, golden_spec, home};
use crate::disk::uring::UringDisk;
use crate::log::{LogHome, LogSpec, PartitionLog, offline};

const END: i64 = 1155;
const LAST: &str = "00000000000000001109";

async fn opened(home: &LogHome<UringDisk>, data: &Path, end: i64) -> (PartitionLog<UringDisk>, bool) {
    let spec = LogSpec { recovery_point: end, ..golden_spec(data) };
    PartitionLog::open_finished(home, spec).await.unwrap()
}

#[test]
fn a_finished_log_is_taken_at_its_word() {
    tokio_uring::start(async {
        let (home, data) = (home(), tempfile::tempdir().unwrap());
        let dir = data.path().join("golden-0");
        copy_dir(&golden("log-4.2/golden-0"), &dir);
        // In front of the last entry of the index: found only by who reads the whole segment.
        let path = dir.join(LAST).with_extension("log");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[80] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (log, as_left) = opened(&home, data.path(), END).await;
        assert!(as_left);
        let progress = log.progress();
        assert_eq!((log.next_offset(), progress.leo, progress.log_start, progress.last_epoch), (END, END, 0, 4));
        assert_eq!(log.producers().open_txns().len(), 1);
        assert_eq!(log.bytes() as usize, golden_bytes().len());
        assert_eq!(log.tail(bytes.len() + 7).unwrap()[7..], bytes, "across segments");
    });
}

#[test]
fn a_log_that_is_resumed_goes_on_to_sound_files() {
    tokio_uring::start(async {
        let home = home();
        let all = golden_bytes();
        let batches = batches_of(&all);
        for kept in [1, 20, batches.len() - 1, batches.len()] {
            let data = tempfile::tempdir().unwrap();
            let mut log = PartitionLog::open(&home, golden_spec(data.path())).await.unwrap();
            feed(&mut log, &home, &batches[..kept].concat(), Way::Runs(4096)).await;
            log.finish().await.unwrap();
            let end = log.next_offset();
            drop(log);
            let (mut log, as_left) = opened(&home, data.path(), end).await;
            assert!(as_left && log.next_offset() == end, "{kept} batches");
            feed(&mut log, &home, &batches[kept..].concat(), Way::Runs(4096)).await;
            log.finish().await.unwrap();
            assert_eq!(log.next_offset(), END);
            let checked = offline::check(&data.path().join("golden-0")).unwrap();
            // Behind the place where it was opened again the indexes begin anew, as a stock broker's do.
            assert_eq!((checked.problems, checked.bytes as usize), (Vec::new(), all.len()), "{kept} batches");
        }
    });
}

#[test]
fn an_empty_log_is_taken_as_it_is() {
    tokio_uring::start(async {
        let (home, data) = (home(), tempfile::tempdir().unwrap());
        for start in [0, 30] {
            let spec = LogSpec { log_start: start, partition: start as i32, ..golden_spec(data.path()) };
            let mut log = PartitionLog::open(&home, spec.clone()).await.unwrap();
            log.finish().await.unwrap();
            drop(log);
            let spec = LogSpec { recovery_point: start, ..spec };
            let (log, as_left) = PartitionLog::open_finished(&home, spec).await.unwrap();
            assert!(as_left && log.next_offset() == start && log.progress().log_start == start);
        }
    });
}

#[test]
fn a_finish_leaves_epochs_alone_that_are_right_and_makes_those_that_are_missing_or_damaged() {
    tokio_uring::start(async {
        let home = home();
        for (name, damaged) in [("missing", false), ("damaged", true)] {
            let data = tempfile::tempdir().unwrap();
            let path = data.path().join("golden-0/leader-epoch-checkpoint");
            if damaged {
                std::fs::create_dir(path.parent().unwrap()).unwrap();
                std::fs::write(&path, "no epochs").unwrap();
            }
            let mut log = PartitionLog::open(&home, golden_spec(data.path())).await.unwrap();
            log.finish().await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"0\n0\n", "{name}, without records");
            feed(&mut log, &home, &golden_bytes(), Way::Runs(4096)).await;
            log.finish().await.unwrap();
            let (text, file) = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().ino());
            assert!(text.len() > 4, "{name}");
            log.finish().await.unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().ino(), file, "{name}: it was written again");
        }
    });
}

#[test]
fn what_is_not_as_it_was_left_is_recovered() {
    let harms: [Harm; 7] = [
        ("no snapshot", |dir| std::fs::remove_file(dir.join("00000000000000001155.snapshot")).unwrap()),
        ("a damaged snapshot", |dir| std::fs::write(dir.join("00000000000000001155.snapshot"), [0; 50]).unwrap()),
        ("no index", |dir| std::fs::remove_file(dir.join(LAST).with_extension("index")).unwrap()),
        ("a padded index", |dir| std::fs::write(dir.join(LAST).with_extension("index"), [0; 800]).unwrap()),
        ("a damaged time index", |dir| std::fs::write(dir.join(LAST).with_extension("timeindex"), [1; 25]).unwrap()),
        ("no epochs", |dir| std::fs::remove_file(dir.join("leader-epoch-checkpoint")).unwrap()),
        ("bytes behind the end", |dir| {
            let path = dir.join(LAST).with_extension("log");
            let bytes = [std::fs::read(&path).unwrap(), vec![0; 100]].concat();
            std::fs::write(path, bytes).unwrap();
        }),
    ];
    tokio_uring::start(async {
        let home = home();
        for (name, harm) in harms {
            let data = tempfile::tempdir().unwrap();
            let dir = data.path().join("golden-0");
            copy_dir(&golden("log-4.2/golden-0"), &dir);
            harm(&dir);
            let (mut log, as_left) = opened(&home, data.path(), END).await;
            assert!(!as_left && log.next_offset() == END, "{name}");
            log.finish().await.unwrap();
            assert_eq!(offline::check(&dir).unwrap().problems, Vec::<String>::new(), "{name}");
        }
        let data = tempfile::tempdir().unwrap();
        copy_dir(&golden("log-4.2/golden-0"), &data.path().join("golden-0"));
        for other_end in [0, 1109, 1154, 1156] {
            let (log, as_left) = opened(&home, data.path(), other_end).await;
            assert!(!as_left && log.next_offset() == END, "{other_end}");
        }
    });
}
