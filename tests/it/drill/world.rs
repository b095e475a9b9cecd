//! A source whose topics have many closed segments, a mirror of it, and what a drill must leave alone.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::copy;
use twinlog_tests::house::{House, Site};
use twinlog_tests::kafka::{Broker, Spec};
use twinlog_tests::oracle::Oracle;
use twinlog_tests::place;
use twinlog_tests::process::{log_to, mortal, signal, until};

/// Longest wait for anything.
pub(super) const LIMIT: Duration = Duration::from_secs(90);
const TOPICS: [(&str, i32); 2] = [("plain", 2), ("paid", 1)];
const OLD: i64 = 1_790_000_000_000;
const GROUP: &str = "readers";

pub(super) struct World {
    oracle: Oracle,
    _source: Broker,
    boot: String,
    pub(super) site: Site,
    pub(super) house: House,
    /// Only its way to start a broker is used.
    stock: Broker,
    scratch: tempfile::TempDir,
}

/// Records that go on coming to the source.
pub(super) struct Flow {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<()>,
    ends: Value,
}

impl Flow {
    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.writer.join().expect("the writer wrote");
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are UTF-8").to_owned()
}

impl World {
    pub(super) fn new(name: &str) -> Self {
        let scratch = place::scratch(name);
        let source = Broker::start(Spec::new(scratch.path().join("source")));
        let (boot, mut oracle) = (source.address(), Oracle::start());
        for (topic, partitions) in TOPICS {
            oracle.create(&boot, topic, partitions, &json!({"segment.ms": "2000", "retention.ms": "-1"}));
        }
        // Their times make the log roll.
        let more =
            json!({"partitions": 2, "count": 1000, "perBatch": 5, "valueBytes": 1000, "time": OLD, "timeStep": 20});
        oracle.produce(&boot, "plain", more);
        for (txn, end) in [("one", "commit"), ("two", "abort"), ("three", "open")] {
            let more = json!({"partitions": 1, "count": 20, "perBatch": 5, "txn": txn, "end": end});
            oracle.produce(&boot, "paid", more);
        }
        let offsets = json!({"0": [30, -1, "noted"], "1": [100, -1, ""]});
        oracle.ask(&json!({"do": "commit", "boot": boot, "group": GROUP, "topic": "plain", "offsets": offsets}));
        let site = Site::new(scratch.path().join("site"));
        let house = House::up(&site);
        site.mirror_with("dr", &boot, &TOPICS.map(|(name, _)| name), &["mirror.internal.topics=standby"]);
        let stock = Broker::prepare(Spec::new(scratch.path().join("stock")).unformatted());
        let mut world = Self { oracle, _source: source, boot, site, house, stock, scratch };
        world.caught_up();
        world
    }

    pub(super) fn caught_up(&mut self) {
        let extents = copy::extents(&mut self.oracle, &self.boot, &TOPICS.map(|(name, _)| name));
        let ends: Vec<_> = extents.iter().map(|e| (e.topic.clone(), i64::from(e.partition), e.end)).collect();
        self.site.caught_up("dr", &ends, LIMIT);
    }

    /// Records come in from now on, one batch after the other.
    pub(super) fn flow(&self) -> Flow {
        let (stop, boot) = (Arc::new(AtomicBool::new(false)), self.boot.clone());
        let told = Arc::clone(&stop);
        let writer = std::thread::spawn(move || {
            let (mut oracle, mut time) = (Oracle::start(), OLD + 900_000);
            while !told.load(Ordering::Acquire) {
                let more = json!({"partitions": 2, "count": 40, "perBatch": 5, "valueBytes": 1000, "time": time, "timeStep": 20});
                oracle.produce(&boot, "plain", more);
                time += 800;
            }
        });
        let flow = Flow { stop, writer, ends: self.described() };
        until("records flow", LIMIT, || self.has_grown(&flow.ends));
        Flow { ends: self.described(), ..flow }
    }

    fn described(&self) -> Value {
        self.site.ask(&["mirrors", "describe", "dr"])
    }

    fn has_grown(&self, before: &Value) -> Result<(), String> {
        let end = |of: &Value| -> i64 { rows(of).iter().filter_map(|row| row["destinationOffset"].as_i64()).sum() };
        let now = self.described();
        if end(&now) > end(before) { Ok(()) } else { Err(now.to_string()) }
    }

    /// Everything is mirrored as when the records began to flow, and they do.
    pub(super) fn is_as_before(&self, flow: &Flow) {
        self.has_grown(&flow.ends).unwrap_or_else(|now| panic!("nothing came in during the drill: {now}"));
        let now = self.described();
        for row in rows(&now) {
            assert_eq!((&row["state"], &row["lastMirroredOffset"]), (&json!("MIRRORING"), &Value::Null), "{now}");
        }
        for topic in now[0]["topics"].as_array().expect("topics") {
            assert!(topic["handedOverTo"].is_null(), "{now}");
        }
        until("records flow", LIMIT, || self.has_grown(&now));
    }

    fn command(&self, mirror: &str, more: &[&str]) -> Vec<String> {
        let state = text(&self.site.state());
        let fixed = ["drill", mirror, "--state", &state, "--bootstrap-server", &self.site.listen];
        let mut words: Vec<String> = fixed.iter().chain(more).map(|word| (*word).to_owned()).collect();
        if !more.contains(&"--clean") && !more.contains(&"--start-command") {
            words.extend(["--start-command".to_owned(), self.stock.start_command()]);
        }
        words
    }

    /// Runs `twinlog drill dr`.
    pub(super) fn drill(&self, more: &[&str]) -> Ran {
        self.drill_of("dr", more)
    }

    pub(super) fn drill_of(&self, mirror: &str, more: &[&str]) -> Ran {
        twinlog(&self.command(mirror, more).iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A drill whose broker was started; with its folder and the broker's process.
    pub(super) fn drill_under_way(&self) -> (Child, PathBuf, u32) {
        let mut command = mortal(place::binary("twinlog"));
        log_to(&mut command, &self.scratch.path().join("drill.log")).args(self.command("dr", &[]));
        let mut drill = command.spawn().expect("twinlog starts");
        let (folder, broker) = until("the drill's broker starts", LIMIT, || {
            if let Some(status) = drill.try_wait().expect("it was started here") {
                return Err(format!("the drill ended: {status}"));
            }
            let folder = self.folders().pop().ok_or("no folder")?;
            let marker = std::fs::read_to_string(folder.join("drill.json")).map_err(|e| e.to_string())?;
            let marker: Value = serde_json::from_str(&marker).map_err(|e| e.to_string())?;
            let pid = marker["broker"]["pid"].as_u64().and_then(|pid| pid.try_into().ok());
            Ok((folder, pid.ok_or("no broker")?))
        });
        (drill, folder, broker)
    }

    /// Folders of drills beside DATA.
    fn folders(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.site.dir).expect("the site's folder").flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("twinlog-drill-")))
            .collect()
    }

    pub(super) fn left_nothing(&self) {
        assert_eq!(self.folders(), Vec::<PathBuf>::new());
        let listed = Command::new("pgrep").args(["-f", "twinlog-drill-"]).arg("--ns").arg("self").output();
        let own = self.site.dir.display().to_string();
        let listed = listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        for pid in listed.lines() {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&words).contains(&own), "process {pid} is left");
        }
    }

    /// SHA-256 of every file of a closed segment in DATA.
    pub(super) fn closed_files(&self) -> BTreeMap<PathBuf, String> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(self.site.data()).expect("DATA").flatten().filter(|entry| entry.path().is_dir())
        {
            let bases = bases(&entry.path());
            for base in &bases[..bases.len().saturating_sub(1)] {
                let files = ["log", "index", "timeindex", "txnindex", "snapshot"];
                let files = files.iter().map(|kind| entry.path().join(format!("{base:020}.{kind}")));
                paths.extend(files.filter(|path| path.exists()));
            }
        }
        let out = Command::new("sha256sum").args(&paths).stderr(Stdio::inherit()).output().expect("sha256sum");
        assert!(out.status.success());
        let lines = String::from_utf8(out.stdout).expect("text");
        let pairs = lines.lines().filter_map(|line| line.split_once("  "));
        pairs.map(|(sum, path)| (PathBuf::from(path), sum.to_owned())).collect()
    }

    /// A closed segment of which nobody looks at the middle.
    pub(super) fn harmed(&self) -> PathBuf {
        let dir = self.site.data().join("plain-0");
        dir.join(format!("{:020}.log", bases(&dir)[1]))
    }

    /// How many files of DATA have a second name in the folder.
    pub(super) fn links(&self, folder: &Path) -> usize {
        let mut links = 0;
        for partition in std::fs::read_dir(folder.join("logs")).expect("the drill's log directory").flatten() {
            for file in std::fs::read_dir(partition.path()).into_iter().flatten().flatten() {
                let meta = file.metadata().expect("a file");
                if meta.is_file() && meta.nlink() > 1 {
                    let name = file.file_name();
                    let ours = self.site.data().join(partition.file_name()).join(&name);
                    assert_eq!(std::fs::metadata(&ours).map(|ours| ours.ino()).ok(), Some(meta.ino()), "{name:?}");
                    assert!(name.to_string_lossy().ends_with(".log"), "{name:?} is linked");
                    links += 1;
                }
            }
        }
        links
    }

    /// Starts the broker of a drill that was kept, and kills it once it serves.
    pub(super) fn starts_unclean(&self, folder: &Path) {
        let log = self.scratch.path().join("unclean.log");
        std::fs::remove_file(&log).ok();
        assert!(!folder.join("logs/.kafka_cleanshutdown").exists(), "it was not stopped");
        let properties = folder.join("server.properties");
        let mut command = mortal("/bin/sh");
        command.args(["-c", &format!("exec {} '{}'", self.stock.start_command(), text(&properties))]);
        let mut broker = log_to(&mut command, &log).spawn().expect("sh starts");
        let said = until("the broker serves", LIMIT, || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("Kafka Server started") { Ok(said) } else { Err(said) }
        });
        assert!(said.contains("Recovering unflushed"), "the start was clean: {said}");
        signal(broker.id(), rustix::process::Signal::KILL);
        broker.wait().expect("it was started here");
    }

    /// `twinlog verify` of all of DATA.
    pub(super) fn is_sound(&self) {
        let (data, state) = (text(&self.site.data()), text(&self.site.state()));
        twinlog(&["verify", &data]).done();
        let source = ["verify", "--mirror", "dr", "--state", &state, "--against-source"];
        until("the copy is the source's bytes", LIMIT, || {
            let ran = twinlog(&source);
            if ran.code == 0 { Ok(()) } else { Err(format!("{ran:?}")) }
        });
    }
}

/// What the segments of a partition are called by, in order.
fn bases(dir: &Path) -> Vec<i64> {
    let entries = std::fs::read_dir(dir).expect("a partition's folder").flatten();
    let base = |path: PathBuf| path.file_name()?.to_str()?.strip_suffix(".log")?.parse().ok();
    let mut bases: Vec<i64> = entries.filter_map(|entry| base(entry.path())).collect();
    bases.sort_unstable();
    bases
}

fn rows(described: &Value) -> Vec<Value> {
    let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
    topics.iter().flat_map(|topic| topic["partitions"].as_array().cloned().unwrap_or_default()).collect()
}

/// Damages the middle of a file; gives what it was.
pub(super) fn flip(path: &Path) -> Vec<u8> {
    let sound = std::fs::read(path).expect("the file");
    let mut harmed = sound.clone();
    let middle = harmed.len() / 2;
    harmed[middle] ^= 0x55;
    std::fs::write(path, harmed).expect("the file written");
    sound
}
