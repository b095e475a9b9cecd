//! A pass proves: once a log is warm, receiving, checking and storing batches allocates nothing, direct or staged, on this thread.
//! Run with `--nocapture` it also says what an append costs.

mod direct;

use std::rc::Rc;
use std::time::Instant;

use dataplane::allocator::{CountingAllocator, thread_allocations};
use dataplane::buffers::Pool;
use dataplane::disk::uring::UringDisk;
use dataplane::disk::writers::Writers;
use dataplane::log::{LogHome, LogRules, PartitionLog, RegionRules};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BATCH_BYTES: usize = 16 << 10;
const BATCHES: usize = 63;
const ROUNDS: usize = 400;
const WARM_ROUNDS: usize = 201;
const FLUSH_ROUNDS: usize = 200;

#[derive(Clone, Copy, Debug)]
enum Way {
    Received,
    Staged,
}

#[test]
fn a_warm_log_stores_without_allocating() {
    tokio_uring::start(async {
        let data = tempfile::tempdir().unwrap();
        let disk = Rc::new(UringDisk::new());
        let pool = Pool::new(16, 64).unwrap();
        let home = LogHome { writers: Writers::start(Rc::clone(&disk), 16), disk, pool };
        for way in [Way::Received, Way::Staged] {
            let spec = direct::spec(data.path(), format!("{way:?}"), LogRules::default());
            let mut log = PartitionLog::open(&home, spec).await.unwrap();
            let mut blob = direct::blob(BATCHES, BATCH_BYTES);
            let (mut counted, mut since) = (0, Instant::now());
            for round in 0..ROUNDS {
                if round % FLUSH_ROUNDS == 0 {
                    // Opens and writes small files, as at every flush interval: not part of the steady path.
                    log.flush().await.unwrap();
                }
                if round == WARM_ROUNDS {
                    since = Instant::now();
                    counted = thread_allocations();
                }
                restamp(&mut blob, log.next_offset());
                store(&mut log, &home, &blob, way).await;
                while home.writers.take_changed().is_some() {
                    log.poll_progress().unwrap();
                }
            }
            log.settle().await.unwrap();
            let (allocations, seconds) = (thread_allocations() - counted, since.elapsed().as_secs_f64());
            assert_eq!(log.progress().leo, (ROUNDS * BATCHES) as i64);
            let mb = ((ROUNDS - WARM_ROUNDS) * blob.len()) as f64 / 1e6;
            #[allow(clippy::print_stdout, reason = "asked for with --nocapture")]
            {
                println!("{way:?}: {:.0} MB/s, {allocations} allocations; {:?}", mb / seconds, home.pool.report());
            }
            assert_eq!(allocations, 0, "{way:?}");
        }
    });
}

async fn store(log: &mut PartitionLog<UringDisk>, home: &LogHome<UringDisk>, blob: &[u8], way: Way) {
    log.begin_region(RegionRules { epoch_max: i32::MAX, now_ms: 0 });
    match way {
        Way::Received => {
            let mut rest = blob;
            while !rest.is_empty() {
                let mut lease = home.pool.take().await;
                let start = log.residue();
                let (part, more) = rest.split_at(rest.len().min(lease.len() - start));
                lease[start..start + part.len()].copy_from_slice(part);
                log.append(lease, start..start + part.len()).unwrap();
                rest = more;
            }
        }
        Way::Staged => {
            for part in blob.chunks(BATCH_BYTES) {
                home.pool.stage_available().await;
                log.stage(part).unwrap();
            }
        }
    }
    assert_eq!(log.end_region().cut_off_bytes, 0);
}

/// Lets the batches begin at `offset`, which no checksum covers.
fn restamp(blob: &mut [u8], offset: i64) {
    for (i, batch) in blob.chunks_mut(BATCH_BYTES).enumerate() {
        batch[..8].copy_from_slice(&(offset + i as i64).to_be_bytes());
    }
}
