//! A pass proves: once a log is warm, receiving, checking and storing batches allocates nothing, direct or staged, on this thread.
//! Run with `--nocapture` it also says what an append costs.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use dataplane::allocator::{CountingAllocator, thread_allocations};
use dataplane::buffers::Pool;
use dataplane::disk::uring::UringDisk;
use dataplane::disk::writers::Writers;
use dataplane::log::{LogHome, LogRules, LogSpec, PartitionLog, RegionRules};
use twinlog_proto::ids::Uuid;
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES};

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
            let mut log = PartitionLog::open(&home, spec(data.path(), way)).await.unwrap();
            let mut blob = blob();
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

fn spec(data_dir: &Path, way: Way) -> LogSpec {
    LogSpec {
        token: 1,
        data_dir: data_dir.to_owned(),
        topic: format!("{way:?}"),
        partition: 0,
        topic_id: Uuid([1; 16]),
        rules: LogRules::default(),
        recovery_point: 0,
        log_start: 0,
        alignment: None,
    }
}

/// Batches that follow each other from offset 0, without checksums.
fn blob() -> Vec<u8> {
    let mut blob = vec![0x5a; BATCHES * BATCH_BYTES];
    for (i, batch) in blob.chunks_mut(BATCH_BYTES).enumerate() {
        let header = BatchHeader {
            base_offset: i as i64,
            batch_length: BATCH_BYTES as i32 - 12,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 1,
        };
        batch[..HEADER_BYTES].copy_from_slice(&header.encode());
        let crc = crc32c::crc32c(&batch[CRC_FROM..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    blob
}

/// Lets the batches begin at `offset`, which no checksum covers.
fn restamp(blob: &mut [u8], offset: i64) {
    for (i, batch) in blob.chunks_mut(BATCH_BYTES).enumerate() {
        batch[..8].copy_from_slice(&(offset + i as i64).to_be_bytes());
    }
}
