//! A pass proves: filesystems that refuse direct writes, and full ones, are handled; needs root for its mounts, says so if not.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use twinlog_proto::channel::progress::FaultCode;

use super::kit::{Way, assert_same, batch, big_spec, feed, golden, golden_bytes, golden_spec, home};
use crate::buffers::Pool;
use crate::disk::uring::UringDisk;
use crate::disk::writers::Writers;
use crate::log::{LogHome, PartitionLog};

/// A mounted filesystem; unmounted when dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    /// None, and the reason on stderr, when it cannot be mounted.
    #[allow(clippy::print_stderr, reason = "a skipped test says why")]
    fn new(arguments: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let output = Command::new("mount").args(arguments).arg(dir.path()).output().unwrap();
        if output.status.success() {
            return Some(Self(dir));
        }
        assert!(!rustix::process::geteuid().is_root(), "root must be able to mount: {output:?}");
        eprintln!("skipped: mounting needs root ({})", String::from_utf8_lossy(&output.stderr).trim());
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _status = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_filesystem_without_direct_writes_gives_the_same_files() {
    let Some(mount) = Mount::new(&["-t", "ramfs", "ramfs"]) else { return };
    tokio_uring::start(async {
        let home = home();
        let mut log = PartitionLog::open(&home, golden_spec(mount.path())).await.unwrap();
        assert!(!log.alignment.is_direct());
        feed(&mut log, &home, &golden_bytes(), Way::Pieces(1234)).await;
        assert_eq!(log.residue(), 0);
        log.finish().await.unwrap();
        assert_same(&mount.path().join("golden-0"), &golden("log-4.2/golden-0"), "ramfs");
    });
}

#[test]
fn the_usual_filesystem_takes_direct_writes() {
    tokio_uring::start(async {
        let data = tempfile::tempdir().unwrap();
        let log = PartitionLog::open(&home(), golden_spec(data.path())).await.unwrap();
        assert!(log.alignment.is_direct());
    });
}

#[test]
fn buffers_that_the_kernel_does_not_know_give_the_same_files() {
    tokio_uring::start(async {
        let disk = Rc::new(UringDisk::new());
        let pool = Pool::unregistered(4, 8).unwrap();
        let home = LogHome { writers: Writers::start(Rc::clone(&disk), 4), disk, pool };
        for way in [Way::Pieces(1234), Way::Runs(1234)] {
            let data = tempfile::tempdir().unwrap();
            let mut log = PartitionLog::open(&home, golden_spec(data.path())).await.unwrap();
            feed(&mut log, &home, &golden_bytes(), way).await;
            log.finish().await.unwrap();
            assert_same(&data.path().join("golden-0"), &golden("log-4.2/golden-0"), "unregistered");
        }
    });
}

#[test]
fn an_idle_partition_takes_no_space_and_a_busy_one_grows_in_doubling_steps() {
    tokio_uring::start(async {
        let home = home();
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("golden-0/00000000000000000000.log");
        let mut log = PartitionLog::open(&home, big_spec(data.path())).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().blocks(), 0);
        let mut lengths = Vec::new();
        for offset in 0..200 {
            feed(&mut log, &home, &batch(offset, 1, 50_000), Way::Runs(50_000)).await;
            log.settle().await.unwrap();
            lengths.push(std::fs::metadata(&path).unwrap().len());
        }
        lengths.dedup();
        assert!(lengths.len() < 12 && lengths[0] <= 256 << 10, "{lengths:?}");
        assert!(lengths.iter().all(|bytes| *bytes <= 40 << 20), "{lengths:?}");
        log.flush().await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), log.bytes());
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 <= log.bytes() + 8192);
    });
}

#[test]
fn a_full_disk_stops_the_partition_at_its_end_and_freeing_space_lets_it_go_on() {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(16 << 20).unwrap();
    let path = image.path().to_str().unwrap().to_owned();
    let made = Command::new("mkfs.ext4").args(["-q", "-F", &path]).status();
    let loop_mount = made.is_ok_and(|status| status.success()).then(|| Mount::new(&["-o", "loop", &path])).flatten();
    let Some(mount) = loop_mount.or_else(|| Mount::new(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"])) else { return };
    let filler = mount.path().join("filler");
    std::fs::write(&filler, vec![1; 4 << 20]).unwrap();
    tokio_uring::start(async {
        let home = home();
        let mut log = PartitionLog::open(&home, big_spec(mount.path())).await.unwrap();
        let mut wanted = Vec::new();
        let fault = loop {
            let next = batch(log.next_offset(), 1, 300_000);
            feed(&mut log, &home, &next, Way::Pieces(1 << 20)).await;
            if let Err(fault) = log.settle().await {
                break fault;
            }
            wanted.extend(next);
            assert!(wanted.len() < 32 << 20, "the disk never fills");
        };
        assert_eq!(fault.code(), FaultCode::DISK_FULL);
        assert!(fault.to_string().contains("free space"), "{fault}");
        let end = wanted.len() as i64 / 300_000;
        assert_eq!((log.next_offset(), log.progress().leo), (end, end));
        std::fs::remove_file(&filler).unwrap();
        let next = batch(end, 1, 300_000);
        feed(&mut log, &home, &next, Way::Pieces(1 << 20)).await;
        wanted.extend(next);
        log.finish().await.unwrap();
        let stored = std::fs::read(mount.path().join("golden-0/00000000000000000000.log")).unwrap();
        assert!(stored == wanted);
    });
}
