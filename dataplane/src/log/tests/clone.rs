//! A pass proves: a clone of a log that is appended to, rolled, cut and shortened meanwhile is what the log was at one moment, or there is
//! none; and nothing that happens to the log afterwards changes the clone, nor does work on the clone change the log.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use twinlog_proto::records::batch::BatchHeader;

use super::kit::{
    Harm, Way, assert_same, batch_at, batches_of, contents, copy_dir, feed, golden, golden_bytes, golden_spec, home,
};
use crate::disk::files;
use crate::log::clone::{Means, clone, clone_while, means};
use crate::log::{LogRules, LogSpec, PartitionLog, offline};

const DIR: &str = "golden-0";

/// The data directory of a log that nobody writes to, and one beside it for its clone.
fn room() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    copy_dir(&golden("log-4.2/golden-0"), &data.join(DIR));
    fs::create_dir(&copy).unwrap();
    (dir, data, copy)
}

const LINKS: Means = Means { reflink: false, link: true };
const COPIES: Means = Means { reflink: false, link: false };

/// The clone, finished; what it was made of.
async fn finished(data: &Path, copy: &Path, end: i64, means: Means) -> crate::log::clone::Cloned {
    let cloned = clone(&data.join(DIR), &copy.join(DIR), end, means).unwrap().unwrap();
    let home = home();
    let spec = LogSpec { recovery_point: end, ..golden_spec(copy) };
    let mut log = PartitionLog::open_cut(&home, spec).await.unwrap();
    log.finish().await.unwrap();
    cloned
}

#[test]
fn a_clone_has_the_files_of_a_log_that_was_finished_there() {
    tokio_uring::start(async {
        for (means, linked) in [(LINKS, 2), (COPIES, 0)] {
            let (_dir, data, copy) = room();
            let before = contents(&data.join(DIR));
            let cloned = finished(&data, &copy, 1155, means).await;
            assert_eq!(cloned.linked.files, linked, "{cloned:?}");
            assert_same(&copy.join(DIR), &data.join(DIR), "a clone of all of it");
            for end in [57, 77, 1109, 1110] {
                let cut = tempfile::tempdir().unwrap();
                copy_dir(&golden("log-4.2/golden-0"), &cut.path().join(DIR));
                let wanted = offline::cut(&home(), &cut.path().join(DIR), golden_spec(cut.path()).rules, end).await;
                let end = wanted.unwrap().leo;
                finished(&data, &copy, end, means).await;
                assert_same(&copy.join(DIR), &cut.path().join(DIR), &format!("a clone up to {end}"));
            }
            assert!(before == contents(&data.join(DIR)), "the log is as it was");
        }
    });
}

#[test]
fn an_end_that_is_no_batchs_or_lies_before_the_log_gives_no_clone() {
    let (_dir, data, copy) = room();
    let tried = |end| clone(&data.join(DIR), &copy.join(DIR), end, LINKS).unwrap();
    assert!(tried(60).is_none() && tried(1160).is_none());
    for base in [0, 57] {
        fs::remove_file(data.join(DIR).join(format!("{base:020}.log"))).unwrap();
    }
    assert!(tried(70).is_none() && tried(1155).is_some());
    fs::remove_dir_all(data.join(DIR)).unwrap();
    assert!(tried(1155).is_none() && !copy.join(DIR).exists());
}

#[test]
fn a_segment_is_linked_only_when_it_is_whole_and_indexed() {
    fn first(name: &str) -> String {
        format!("{:020}.{name}", 0)
    }
    let harms: [Harm; 5] = [
        ("without its index", |dir| fs::remove_file(dir.join(first("index"))).unwrap()),
        ("without its time index", |dir| fs::remove_file(dir.join(first("timeindex"))).unwrap()),
        ("with half an entry", |dir| files::set_len(&dir.join(first("index")), 9).unwrap()),
        ("with bytes behind its last batch", |dir| {
            let log = dir.join(first("log"));
            files::set_len(&log, fs::metadata(&log).unwrap().len() + 10).unwrap();
        }),
        ("cut short", |dir| {
            let log = dir.join(first("log"));
            files::set_len(&log, fs::metadata(&log).unwrap().len() - 10).unwrap();
        }),
    ];
    for (what, harm) in harms {
        let (_dir, data, copy) = room();
        harm(&data.join(DIR));
        let cloned = clone(&data.join(DIR), &copy.join(DIR), 1155, LINKS).unwrap().unwrap();
        assert_eq!(cloned.linked.files, 1, "{what}");
        let links = |name: String| fs::metadata(copy.join(DIR).join(name)).unwrap().nlink();
        assert_eq!((links(first("log")), links(format!("{:020}.log", 57))), (1, 2), "{what}");
    }
}

#[test]
fn a_log_that_is_cut_into_a_linked_segment_leaves_the_clone_alone_and_the_other_way_round() {
    tokio_uring::start(async {
        for cut_the_clone in [false, true] {
            let (_dir, data, copy) = room();
            assert!(means(&data.join(DIR).join("partition.metadata"), &copy).unwrap().link);
            finished(&data, &copy, 1155, LINKS).await;
            let (worked, left) = if cut_the_clone { (&copy, &data) } else { (&data, &copy) };
            let before = contents(&left.join(DIR));
            let home = home();
            let spec = LogSpec { recovery_point: 1155, ..golden_spec(worked) };
            let mut log = PartitionLog::open(&home, spec).await.unwrap();
            // At the end of a segment nothing is cut off, and it is appended to.
            for offset in [1109, 57, 40] {
                log.cut(offset).await.unwrap();
                let next = log.next_offset();
                let more: Vec<u8> = (0..20).flat_map(|i| batch_at(next + i, 1, 300, 9)).collect();
                feed(&mut log, &home, &more, Way::Runs(4000)).await;
                log.finish().await.unwrap();
            }
            assert!(before == contents(&left.join(DIR)), "cut_the_clone={cut_the_clone}");
        }
    });
}

/// The golden log with all that lies behind offset 57 written in another epoch, as after a divergence.
async fn diverged(data: &Path) {
    let home = home();
    copy_dir(&golden("log-4.2/golden-0"), &data.join(DIR));
    let mut log = PartitionLog::open(&home, golden_spec(data)).await.unwrap();
    log.cut(57).await.unwrap();
    let (all, mut more) = (golden_bytes(), Vec::new());
    for batch in batches_of(&all).into_iter().filter(|batch| batch[..8] >= 57_i64.to_be_bytes()[..]) {
        let mut batch = batch.to_vec();
        batch[12..16].copy_from_slice(&99_i32.to_be_bytes());
        more.extend(batch);
    }
    feed(&mut log, &home, &more, Way::Runs(500)).await;
    log.finish().await.unwrap();
    assert_eq!(log.next_offset(), 1155);
}

#[test]
fn a_log_that_is_cut_and_written_anew_while_it_is_cloned_is_not_mixed_with_what_it_was() {
    tokio_uring::start(async {
        for means in [LINKS, COPIES] {
            let (_dir, data, copy) = room();
            let other = tempfile::tempdir().unwrap();
            diverged(other.path()).await;
            let mut happened = false;
            let cloned = clone_while(&data.join(DIR), &copy.join(DIR), 1155, means, || {
                if std::mem::replace(&mut happened, true) {
                    return;
                }
                // As a cut does it: later segments go, the one with the cut is a file of its own by then when it was linked.
                for (name, bytes) in contents(&other.path().join(DIR)) {
                    let path = data.join(DIR).join(&name);
                    if name == format!("{:020}.log", 57) && !means.link {
                        fs::write(&path, bytes).unwrap();
                    } else if !name.ends_with(".snapshot") {
                        fs::write(data.join("aside"), bytes).unwrap();
                        fs::rename(data.join("aside"), &path).unwrap();
                    }
                }
            });
            assert!(cloned.unwrap().is_some() && happened);
            let (_, epochs) = read_back(&copy.join(DIR));
            let (_, wanted) = read_back(&other.path().join(DIR));
            assert!(epochs == wanted && epochs.contains(&99), "{epochs:?}");
        }
    });
}

/// What the log held: for each of its pasts the epochs of its offsets, one batch each.
type Pasts = Mutex<Vec<Vec<i32>>>;

/// Appends, rolls, cuts back and begins later, until told to stop.
fn keep_writing(data: &Path, pasts: &Pasts, flushed: &AtomicI64, start: &AtomicI64, stop: &AtomicBool) {
    tokio_uring::start(async {
        let home = home();
        let rules = LogRules { segment_bytes: 8000, index_interval_bytes: 500, ..golden_spec(data).rules };
        let mut log = PartitionLog::open(&home, LogSpec { rules, ..golden_spec(data) }).await.unwrap();
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut epoch = 0;
        while !stop.load(Ordering::Acquire) {
            match draw(20) {
                0 => {
                    let back = draw(60) as i64;
                    let to = (log.next_offset() - back).max(log.progress().log_start);
                    flushed.fetch_min(to, Ordering::AcqRel);
                    log.cut(to).await.unwrap();
                    epoch += 1;
                    let mut pasts = pasts.lock().unwrap();
                    let mut next = pasts.last().unwrap().clone();
                    next.truncate(log.next_offset() as usize);
                    pasts.push(next);
                }
                1 => {
                    let to = (log.next_offset() - 100).max(0);
                    log.advance_log_start(to).await.unwrap();
                    start.store(log.progress().log_start, Ordering::Release);
                }
                _ => {
                    let (next, count) = (log.next_offset(), 1 + draw(20) as i64);
                    pasts.lock().unwrap().last_mut().unwrap().extend((0..count).map(|_| epoch));
                    let more: Vec<u8> =
                        (0..count).flat_map(|i| batch_at(next + i, 1, 100 + draw(400) as usize, epoch)).collect();
                    feed(&mut log, &home, &more, Way::Runs(3000)).await;
                    log.flush().await.unwrap();
                    flushed.store(log.progress().flushed, Ordering::Release);
                }
            }
        }
    });
}

/// The epochs of the log's offsets from its start on, after a check of all of it.
fn read_back(dir: &Path) -> (i64, Vec<i32>) {
    let checked = offline::check(dir).unwrap();
    let listed = files::list(dir).unwrap();
    let logs = listed.iter().filter(|file| file.name.ends_with(".log"));
    let bytes: Vec<u8> = logs.flat_map(|file| fs::read(dir.join(&file.name)).unwrap()).collect();
    let headers = batches_of(&bytes).into_iter().map(|batch| BatchHeader::parse(batch[..61].try_into().unwrap()));
    (checked.first_offset, headers.map(|header| header.leader_epoch).collect())
}

#[test]
fn clones_of_a_log_that_never_rests_are_each_a_past_of_it() {
    for means in [LINKS, COPIES] {
        let dir = tempfile::tempdir().unwrap();
        let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
        for made in [&data, &copy] {
            fs::create_dir(made).unwrap();
        }
        let pasts: Pasts = Mutex::new(vec![Vec::new()]);
        let (flushed, start) = (AtomicI64::new(0), AtomicI64::new(0));
        let stop = AtomicBool::new(false);
        let (mut done, mut none, mut linked) = (0, 0, 0);
        thread::scope(|scope| {
            scope.spawn(|| keep_writing(&data, &pasts, &flushed, &start, &stop));
            let deadline = Instant::now() + Duration::from_secs(120);
            while done < 60 && Instant::now() < deadline {
                let end = flushed.load(Ordering::Acquire);
                if end == 0 {
                    continue;
                }
                let Some(cloned) = clone(&data.join(DIR), &copy.join(DIR), end, means).unwrap() else {
                    none += 1;
                    continue;
                };
                tokio_uring::start(async {
                    let home = home();
                    let spec = LogSpec { recovery_point: end, ..golden_spec(&copy) };
                    let mut log = PartitionLog::open_cut(&home, spec).await.unwrap();
                    assert_eq!(log.next_offset(), end);
                    log.finish().await.unwrap();
                });
                assert_eq!(offline::check(&copy.join(DIR)).unwrap().problems, Vec::<String>::new());
                let (first, epochs) = read_back(&copy.join(DIR));
                let pasts = pasts.lock().unwrap();
                let is_past = pasts.iter().any(|past| past.get(first as usize..end as usize) == Some(&epochs[..]));
                assert!(is_past, "clone {done} from {first} to {end} never was: {epochs:?}");
                done += 1;
                linked += cloned.linked.files;
            }
            stop.store(true, Ordering::Release);
        });
        assert!(done == 60 && (linked > 0) == means.link, "{done} clones with {linked} links, {none} times none");
    }
}
