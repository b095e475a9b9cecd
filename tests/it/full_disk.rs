//! A pass proves: when the disk is full the partition stops with a message that says so, the planes live on, and when there is space
//! again the copy ends in the source's bytes. Needs root, for the small filesystem.

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(60);

/// A small filesystem; gone when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir_all(at).expect("a folder");
        let small = Self(at.to_path_buf());
        small.sized("16m", "");
        small
    }

    fn sized(&self, size: &str, remount: &str) {
        let options = format!("{remount}size={size}");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&self.0).status();
        assert!(done.is_ok_and(|s| s.success()), "mount -o {options}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        Command::new("umount").arg("--lazy").arg(&self.0).status().ok();
    }
}

#[test]
fn a_full_disk_stops_the_partition_with_a_clear_message_and_space_lets_it_go_on() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: mounting a small filesystem needs root");
        return;
    }
    let _turn = place::turn();
    let scratch = place::scratch("full");
    let source = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = source.address();
    let mut oracle = Oracle::start();
    oracle.create(&boot, "big", 1, &json!({}));
    oracle.produce(&boot, "big", json!({"count": 40_000, "perBatch": 100, "valueBytes": 1000, "incompressible": true}));
    let site = Site::new(scratch.path().join("site"));
    let small = Small::mount(&site.data());
    let house = House::up(&site);
    site.cli(&["mirrors", "create", "dr", "--source", &boot]).done();
    site.cli(&["topics", "start", "dr", "--topic", "big"]).done();
    let row = until("the partition stops", LIMIT, || {
        let row = site.partition("dr", "big", 0)?;
        if row["errorMessage"].is_string() { Ok(row) } else { Err(row.to_string()) }
    });
    let message = row["errorMessage"].as_str().unwrap_or_default();
    assert!(message.contains("space") || message.contains("full"), "{row}");
    assert_eq!(site.cli(&["status"]).code, 0, "the planes live on");

    small.sized("256m", "remount,");
    let ran = site.cli(&["topics", "start", "dr", "--topic", "big"]);
    let extents = copy::extents(&mut oracle, &boot, &["big"]);
    let end = extents[0].end;
    until("the copy goes on", LIMIT, || {
        let row = site.partition("dr", "big", 0)?;
        if row["flushedOffset"] == end { Ok(()) } else { Err(format!("{row}, start again said {ran:?}")) }
    });
    house.down();
    copy::same_bytes(&source, &site.data(), &extents).expect("the same bytes");
}
