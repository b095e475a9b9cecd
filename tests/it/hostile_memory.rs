//! A pass proves: whoever writes random bytes over the memory that the planes share stops no record and harms none, is noticed, and the
//! board tells the truth again; what lies on the disk afterwards is what the source has, also through a crash of the data plane.

use serde_json::json;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use twinlog_tests::copy;
use twinlog_tests::house::{CONTROL_PLANE, DATA_PLANE, House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(40);
const SCRIBBLING: Duration = Duration::from_secs(4);
const PARTITIONS: u64 = 4;
const SLOT_BYTES: u64 = 128;
const SLOTS: u64 = 1 << 16;
/// Header, counters and rings of one core lie below this.
const FRONT_BYTES: u64 = 300 << 10;

/// The region, as every process of the data plane's user can have it.
fn region(pid: u32) -> File {
    let folder = format!("/proc/{pid}/fd");
    let fds = std::fs::read_dir(&folder).expect("the data plane runs");
    let shared = fds.flatten().find(|fd| {
        std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("memfd:twinlog-channel"))
    });
    let path = shared.expect("the region is open").path();
    OpenOptions::new().read(true).write(true).open(path).expect("the region can be written to")
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn scribble(region: &File, random: &mut Random) {
    let board = region.metadata().expect("its size").len() - SLOTS * SLOT_BYTES;
    for _word in 0..64 {
        let at = match random.next() % 3 {
            0 => random.next() % FRONT_BYTES,
            1 => random.next() % 80,
            _ => board + random.next() % (PARTITIONS * SLOT_BYTES),
        };
        // Small numbers look like offsets; they are the ones that could be believed.
        let value = if random.next().is_multiple_of(2) { random.next() % 100_000 } else { random.next() };
        region.write_all_at(&value.to_ne_bytes(), at & !7).expect("the region is written to");
    }
}

#[test]
fn random_bytes_in_the_shared_memory_cost_no_record() {
    let _turn = place::turn();
    let scratch = place::scratch("hostile");
    let broker = Broker::start(Spec::new(scratch.path().join("source")));
    let boot = broker.address();
    let mut oracle = Oracle::start();
    oracle.create(&boot, "orders", i32::try_from(PARTITIONS).expect("few"), &json!({}));
    let site = Site::new(scratch.path().join("site"));
    let house = House::up(&site);
    let ends = |oracle: &mut Oracle| -> Vec<(String, i64, i64)> {
        let extents = copy::extents(oracle, &boot, &["orders"]);
        extents.into_iter().map(|e| (e.topic, i64::from(e.partition), e.end)).collect()
    };
    oracle.produce(&boot, "orders", json!({"count": 2000, "perBatch": 10}));
    site.mirror("dr", &boot, &["orders"]);
    site.caught_up("dr", &ends(&mut oracle), LIMIT);

    let seed = u64::from(std::process::id()) << 20 | 0x5_eed1;
    eprintln!("seed {seed}");
    let (region, mut random, began) = (region(house.plane(DATA_PLANE)), Random(seed), Instant::now());
    while began.elapsed() < SCRIBBLING {
        for _round in 0..50 {
            scribble(&region, &mut random);
        }
        oracle.produce(&boot, "orders", json!({"count": 500, "perBatch": 10}));
    }
    // Records flow on meanwhile: nobody is asked, the files say it.
    let wanted = ends(&mut oracle);
    for (topic, partition, end) in &wanted {
        until("the records arrive", LIMIT, || match Log::read(&site.data().join(format!("{topic}-{partition}"))) {
            Ok(log) if log.end() >= *end => Ok(()),
            Ok(log) => Err(format!("{} of {end}", log.end())),
            Err(why) => Err(why),
        });
    }
    until("the damage is reported", LIMIT, || {
        let found = house.log().contains("wrote where only the data plane may");
        if found { Ok(()) } else { Err("nothing in the log".to_owned()) }
    });
    // The remedy that the message names.
    let gone = house.kill_plane(CONTROL_PLANE);
    house.revived(CONTROL_PLANE, gone);
    until("the control plane serves", LIMIT, || {
        let ran = site.cli(&["status"]);
        if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
    });
    site.caught_up("dr", &wanted, LIMIT);

    // Checkpoints were written meanwhile: none of them may have believed the scribbling.
    let gone = house.kill_plane(DATA_PLANE);
    house.revived(DATA_PLANE, gone);
    oracle.produce(&boot, "orders", json!({"count": 500, "perBatch": 10}));
    site.caught_up("dr", &ends(&mut oracle), LIMIT);
    house.down();
    let extents = copy::extents(&mut oracle, &boot, &["orders"]);
    copy::same_bytes(&broker, &site.data(), &extents).expect("the same bytes");
}
