//! A pass proves: segments that roll many times within a piece do not pile up in memory, and hold the bytes that came.

mod direct;

use std::path::Path;
use std::rc::Rc;

use dataplane::buffers::Pool;
use dataplane::disk::uring::UringDisk;
use dataplane::disk::writers::Writers;
use dataplane::limits::CLOSING_MAX;
use dataplane::log::{LogHome, LogRules, PartitionLog, RegionRules};

const BATCH_BYTES: usize = 1_000;
const SEGMENT_BYTES: i32 = 5_000;
const BYTES: usize = 3 << 20;
/// What the process may need above what it had: pieces, segments that are being closed, and slack.
const GROWTH_KB_MAX: u64 = 40 << 10;

#[test]
fn tiny_segments_cost_little_memory_and_lose_nothing() {
    tokio_uring::start(async {
        let data = tempfile::tempdir().unwrap();
        let disk = Rc::new(UringDisk::new());
        let pool = Pool::new(8, 16).unwrap();
        let home = LogHome { writers: Writers::start(Rc::clone(&disk), 16), disk, pool };
        let rules = LogRules { segment_bytes: SEGMENT_BYTES, ..LogRules::default() };
        let mut log = PartitionLog::open(&home, direct::spec(data.path(), "tiny".to_owned(), rules)).await.unwrap();
        let blob = direct::blob(BYTES / BATCH_BYTES, BATCH_BYTES);
        let before = peak_kb();
        log.begin_region(RegionRules { epoch_max: i32::MAX, now_ms: 0 });
        let mut rest = &blob[..];
        while !rest.is_empty() {
            let mut lease = home.pool.take().await;
            while log.closing() > CLOSING_MAX {
                home.writers.changed().await;
                while home.writers.take_changed().is_some() {}
                log.poll_progress().unwrap();
            }
            let start = log.residue();
            let (part, more) = rest.split_at(rest.len().min(lease.len() - start));
            lease[start..start + part.len()].copy_from_slice(part);
            log.append(lease, start..start + part.len()).unwrap();
            rest = more;
        }
        let end = log.end_region();
        assert_eq!((end.bytes as usize, end.cut_off_bytes), (blob.len(), 0));
        let grown = peak_kb() - before;
        assert!(grown < GROWTH_KB_MAX, "{grown} KiB for {} segments", log.bytes() / SEGMENT_BYTES as u64);
        log.finish().await.unwrap();
        assert!(stored(log.dir()) == blob, "the segments hold other bytes than came");
    });
}

fn stored(dir: &Path) -> Vec<u8> {
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    files.sort();
    files.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// The most memory that this process ever had.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
