//! A pass proves: whoever writes random bytes over the memory that the planes share stops no record and harms none and is reported; the
//! planes go on in new shared memory without a restart: the board tells the truth, orders arrive. What lies on the disk afterwards is what
//! the source has, also through a crash of the data plane. Who goes on writing for minutes cannot keep the planes busy.

use serde_json::json;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
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
/// Within the pause of 8 s after the fourth new region.
const SCRIBBLING_ON: Duration = Duration::from_secs(12);
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

/// What `/health` says of the memory, the status line first; "" when it says nothing.
fn health(site: &Site) -> String {
    let page = site.http("/health");
    let line = page.lines().find(|line| line.contains("the shared memory"));
    line.map_or_else(String::new, |line| format!("{}: {line}", page.lines().next().unwrap_or_default()))
}

/// Whole memory is attached, made anew `times` times at least.
fn is_whole(site: &Site, times: f64) -> Result<(), String> {
    let (damaged, rebuilt) =
        (site.metric("twinlog_shared_memory_damaged"), site.metric("twinlog_shared_memory_rebuilt_total"));
    let whole = damaged == 0.0 && rebuilt >= times && site.metric("twinlog_data_plane_up") == 1.0;
    if whole { Ok(()) } else { Err(format!("damaged {damaged}, rebuilt {rebuilt}: {}", health(site))) }
}

struct Scene {
    broker: Broker,
    oracle: Oracle,
    site: Site,
    house: House,
}

impl Scene {
    fn begin(scratch: &Path) -> Self {
        let broker = Broker::start(Spec::new(scratch.join("source")));
        let mut oracle = Oracle::start();
        let boot = broker.address();
        oracle.create(&boot, "orders", i32::try_from(PARTITIONS).expect("few"), &json!({}));
        let site = Site::new(scratch.join("site"));
        let house = House::up(&site);
        let mut scene = Self { broker, oracle, site, house };
        scene.produce(2000);
        scene.site.mirror("dr", &boot, &["orders"]);
        scene.caught_up();
        scene
    }

    fn produce(&mut self, count: u32) {
        self.oracle.produce(&self.broker.address(), "orders", json!({"count": count, "perBatch": 10}));
    }

    fn ends(&mut self) -> Vec<(String, i64, i64)> {
        let extents = copy::extents(&mut self.oracle, &self.broker.address(), &["orders"]);
        extents.into_iter().map(|e| (e.topic, i64::from(e.partition), e.end)).collect()
    }

    fn caught_up(&mut self) {
        let ends = self.ends();
        self.site.caught_up("dr", &ends, LIMIT);
    }

    /// The memory as it is now: there is another one each time that it was made anew.
    fn region(&self) -> File {
        region(self.house.plane(DATA_PLANE))
    }

    fn planes(&self) -> [u32; 2] {
        [self.house.plane(DATA_PLANE), self.house.plane(CONTROL_PLANE)]
    }

    /// Records flow on, whatever the planes tell of each other: the files say it.
    fn arrived(&mut self) {
        for (topic, partition, end) in &self.ends() {
            let folder = self.site.data().join(format!("{topic}-{partition}"));
            until("the records arrive", LIMIT, || match Log::read(&folder) {
                Ok(log) if log.end() >= *end => Ok(()),
                Ok(log) => Err(format!("{} of {end}", log.end())),
                Err(why) => Err(why),
            });
        }
    }
}

#[test]
fn random_bytes_in_the_shared_memory_cost_no_record_and_no_restart() {
    let _turn = place::turn();
    let scratch = place::scratch("hostile");
    let mut scene = Scene::begin(scratch.path());
    let planes = scene.planes();
    let seed = u64::from(std::process::id()) << 20 | 0x5_eed1;
    eprintln!("seed {seed}");
    let (mut random, began, mut reported) = (Random(seed), Instant::now(), String::new());
    while began.elapsed() < SCRIBBLING {
        let region = scene.region();
        for _round in 0..50 {
            scribble(&region, &mut random);
        }
        let said = health(&scene.site);
        reported = if said.is_empty() { reported } else { said };
        scene.produce(500);
    }
    scene.arrived();
    assert!(reported.contains("503") && reported.contains("who writes into it"), "{reported:?}\n{}", scene.house.log());
    until("the memory is made anew", LIMIT, || is_whole(&scene.site, 1.0));
    scene.caught_up();
    assert!(scene.site.cli(&["status"]).stdout.contains("the shared memory was damaged"), "a trace is left");
    for counter in ["twinlog_core_turns_total", "twinlog_core_batches_total", "twinlog_core_board_repairs_total"] {
        let counted = scene.site.metric(counter);
        assert!((1.0..1e7).contains(&counted), "{counter} {counted}: counters hold nothing that was written over them");
    }

    // An order that is given while its ring is full of garbage.
    let region = scene.region();
    let front: Vec<u8> = (0..FRONT_BYTES / 8).flat_map(|_| random.next().to_ne_bytes()).collect();
    region.write_all_at(&front, 0).expect("the region is written to");
    let wanted = scene.ends();
    scene.site.cli(&["topics", "stop", "dr", "--topic", "orders", "--wait", "--timeout", "60s"]).done();
    let told = scene.site.ask(&["lmo", "dr"]);
    for (topic, partition, end) in &wanted {
        let row = told.as_array().and_then(|rows| rows.iter().find(|row| row["partition"] == *partition));
        let row = row.unwrap_or_else(|| panic!("{topic}-{partition} in {told}"));
        assert_eq!(row["lastMirroredOffset"], *end, "{row}");
    }
    until("the memory is made anew", LIMIT, || is_whole(&scene.site, 2.0));
    assert_eq!(scene.planes(), planes, "no plane was started again: {}", scene.house.log());
    scene.site.cli(&["topics", "start", "dr", "--topic", "orders", "--wait", "--timeout", "60s"]).done();
    scene.produce(500);
    scene.caught_up();

    // Checkpoints were written meanwhile: none of them may have believed the scribbling.
    let gone = scene.house.kill_plane(DATA_PLANE);
    scene.house.revived(DATA_PLANE, gone);
    scene.produce(500);
    scene.caught_up();
    let Scene { broker, mut oracle, site, house } = scene;
    house.down();
    let extents = copy::extents(&mut oracle, &broker.address(), &["orders"]);
    copy::same_bytes(&broker, &site.data(), &extents).expect("the same bytes");
}

#[test]
fn who_goes_on_writing_gets_new_memory_ever_more_seldom_and_is_reported_all_the_time() {
    let _turn = place::turn();
    let scratch = place::scratch("hostile-long");
    let mut scene = Scene::begin(scratch.path());
    let planes = scene.planes();
    let (mut random, began) = (Random(0x1057), Instant::now());
    while began.elapsed() < SCRIBBLING_ON {
        scribble(&scene.region(), &mut random);
    }
    // Pauses of 1, 2, 4, 8 s ... between: five at most begin within this time, whoever is how fast.
    let rebuilt = scene.house.log().matches("the shared memory was made anew generation").count();
    assert!((2..=5).contains(&rebuilt), "{rebuilt} times: {}", scene.house.log());
    // Between two looks at it the latest damage is what is told.
    until("the pause is told", LIMIT, || match health(&scene.site) {
        told if told.contains("within a minute") => Ok(()),
        told => Err(told),
    });
    scene.produce(500);
    scene.arrived();
    until("the memory is made anew", LIMIT, || is_whole(&scene.site, 3.0));
    scene.caught_up();
    assert_eq!(scene.planes(), planes);
    scene.house.down();
}
