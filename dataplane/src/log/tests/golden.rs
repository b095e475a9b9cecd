//! A pass proves: the bytes that a stock broker stored give, in whatever pieces they come, the files that it wrote.

use super::kit::{Way, assert_same, feed, golden, golden_bytes, golden_spec, home, home_on};
use crate::disk::Disk;
use crate::disk::uring::UringDisk;
use crate::log::PartitionLog;

async fn rebuild<D: Disk>(home: &crate::log::LogHome<D>, way: Way, regions: usize) {
    let data = tempfile::tempdir().unwrap();
    let mut log = PartitionLog::open(home, golden_spec(data.path())).await.unwrap();
    let bytes = golden_bytes();
    let mut at = 0;
    for region in 1..=regions {
        // Every region but the last is cut off somewhere; the next one begins at the batch that was cut.
        let end = if region == regions { bytes.len() } else { (bytes.len() * region / regions).max(at) };
        let done = feed(&mut log, home, &bytes[at..end], way).await;
        at += done.bytes as usize;
        assert_eq!(done.cut_off_bytes as usize, end - at);
    }
    log.finish().await.unwrap();
    assert_eq!((log.progress().leo, log.progress().flushed, log.progress().log_start), (1155, 1155, 0));
    let context = format!("{way:?}, {regions} regions");
    assert_same(&data.path().join("golden-0"), &golden("log-4.2/golden-0"), &context);
}

#[test]
fn any_piece_size_gives_the_files_of_the_stock_broker() {
    tokio_uring::start(async {
        let home = home();
        for size in [37, 61, 62, 499, 4095, 4096, 4097, 15_914, 1 << 20] {
            rebuild(&home, Way::Pieces(size), 1).await;
        }
    });
}

#[test]
fn any_run_size_gives_the_files_of_the_stock_broker() {
    tokio_uring::start(async {
        let home = home();
        for size in [1, 61, 100, 5000, 1 << 20] {
            rebuild(&home, Way::Runs(size), 1).await;
        }
    });
}

#[test]
fn regions_cut_off_anywhere_give_the_same_files() {
    tokio_uring::start(async {
        let home = home();
        for regions in [2, 3, 7, 20] {
            rebuild(&home, Way::Pieces(700), regions).await;
            rebuild(&home, Way::Runs(700), regions).await;
        }
    });
}

#[test]
fn the_page_cache_gives_the_same_files() {
    tokio_uring::start(async {
        let home = home_on(UringDisk::buffered());
        for way in [Way::Pieces(333), Way::Pieces(1 << 20), Way::Runs(333)] {
            rebuild(&home, way, 3).await;
        }
    });
}
