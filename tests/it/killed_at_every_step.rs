//! A pass proves: a control plane that is killed right after any of its named steps comes back with everything that it had answered;
//! a topic whose stop was recorded reaches STOPPED by itself; the last mirrored offset is where the files end, whatever happens
//! afterwards; the log replays, also when it was being compacted. A step that is not reached fails the test.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;
use twinlog_tests::command::{Ran, twinlog};
use twinlog_tests::embedded::Embedded;
use twinlog_tests::house::{Plane, Site};
use twinlog_tests::kafka::{dump_complaints, dump_log};
use twinlog_tests::kafka_log::Log;
use twinlog_tests::place;
use twinlog_tests::process::until;

const LIMIT: Duration = Duration::from_secs(30);
const PARTITIONS: i64 = 2;
const STATE_LOG: &str = "__mirror_state/00000000000000000000.log";

/// What is asked of the control plane that is going to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Nothing: it is killed while it starts.
    Nothing,
    Create,
    Start,
    Stop,
    /// A start from scratch of what is stopped.
    Anew,
    /// As `Stop`, and the data plane is killed at the same time.
    StopBoth,
    /// As `Stop`, with a log that is long enough to be compacted.
    Compact,
    Delete,
}

impl Verb {
    /// Whether what it asks for is on record.
    fn is_there(self, planes: &Planes, mirror: &str) -> bool {
        let is_known = || planes.site.ask(&["mirrors", "list"]).to_string().contains(&format!("\"{mirror}\""));
        let stops = |row: &Value| matches!(row["state"].as_str(), Some("STOPPING" | "STOPPED"));
        match self {
            Self::Nothing => true,
            Self::Create => is_known(),
            Self::Delete => !is_known(),
            Self::Start => planes.states(mirror).len() as i64 == PARTITIONS,
            Self::Anew => !planes.states(mirror).is_empty() && !planes.states(mirror).iter().any(stops),
            Self::Stop | Self::StopBoth | Self::Compact => planes.states(mirror).iter().all(stops),
        }
    }
}

const TRIES: u32 = 5;
const CHANGE: [&str; 3] = ["change-decided", "change-written", "change-durable"];
const SHOWN: [&str; 2] = ["catalog-replaced", "answer-released"];
const SENT: [&str; 4] = ["assignment-aside", "assignment-renamed", "assignment-durable", "order-sent"];
const SEEN: [&str; 1] = ["event-seen"];
const END: [&str; 4] = ["end-decided", "end-written", "end-durable", "end-shown"];
const GONE: [&str; 2] = ["assignment-gone", "removal-sent"];

/// Every kill: what is asked, and after which step.
fn kills() -> Vec<(Verb, &'static str)> {
    let of =
        |verb, groups: &[&[&'static str]]| groups.concat().into_iter().map(|step| (verb, step)).collect::<Vec<_>>();
    [
        of(Verb::Create, &[&CHANGE, &SHOWN]),
        of(Verb::Start, &[&CHANGE, &SHOWN, &SENT, &SEEN]),
        of(Verb::Stop, &[&CHANGE, &SHOWN, &SENT, &SEEN, &END]),
        of(Verb::Anew, &[&CHANGE, &SHOWN, &SENT, &SEEN]),
        of(Verb::StopBoth, &[&["change-durable", "order-sent"], &SEEN, &END]),
        of(Verb::Compact, &[&["snapshot-aside", "snapshot-renamed", "snapshot-durable"]]),
        of(Verb::Delete, &[&CHANGE, &SHOWN, &GONE]),
        of(Verb::Nothing, &[&["start-replayed", "start-opened", "start-restored"]]),
    ]
    .concat()
}

/// Both planes of a site, the control plane being the one that is killed.
struct Planes {
    site: Site,
    data: Option<Plane>,
    control: Option<Plane>,
}

impl Planes {
    fn serve(&mut self) {
        self.data.get_or_insert_with(|| Plane::data(&self.site));
        self.control.get_or_insert_with(|| Plane::control(&self.site));
        until("the control plane serves", LIMIT, || {
            let ran = self.site.cli(&["mirrors", "list"]);
            if ran.code == 0 { Ok(()) } else { Err(ran.stderr) }
        });
    }

    /// Kills the control plane and starts one that ends itself at `step`; gives what came of `words`.
    fn killed_at(&mut self, step: &str, words: &[&str]) -> Option<Ran> {
        if let Some(control) = self.control.take() {
            control.kill();
        }
        let armed = Plane::control_until(&self.site, step);
        let ran = (!words.is_empty()).then(|| {
            until("the armed control plane answers", LIMIT, || {
                let ran = self.site.cli(words);
                if ran.stderr.contains("onnection refused") { Err(ran.stderr) } else { Ok(ran) }
            })
        });
        armed.is_killed(LIMIT).unwrap_or_else(|why| panic!("step {step} is not reached by {words:?}: {why}"));
        ran
    }

    fn states(&self, mirror: &str) -> Vec<Value> {
        let described = self.site.ask(&["mirrors", "describe", mirror]);
        let topics = described[0]["topics"].as_array().cloned().unwrap_or_default();
        topics.iter().flat_map(|topic| topic["partitions"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// Waits until both partitions are in `state`.
    fn reach(&self, mirror: &str, state: &str) {
        until(&format!("{mirror} becomes {state}"), LIMIT, || {
            let rows = self.states(mirror);
            let there = rows.len() as i64 == PARTITIONS && rows.iter().all(|row| row["state"] == state);
            if there { Ok(()) } else { Err(format!("{rows:?}")) }
        });
    }

    /// Waits until something was mirrored into both partitions, so that where it ends is worth keeping.
    fn holds_records(&self, mirror: &str) {
        until(&format!("{mirror} holds records"), LIMIT, || {
            let rows = self.states(mirror);
            let filled = rows.iter().filter(|row| row["destinationOffset"].as_i64().unwrap_or(0) > 0).count();
            if filled as i64 == PARTITIONS { Ok(()) } else { Err(format!("{rows:?}")) }
        });
    }

    /// Last mirrored offsets by directory name.
    fn ends(&self, mirror: &str) -> BTreeMap<String, i64> {
        let answer = self.site.ask(&["lmo", mirror]);
        let line = |line: &Value| {
            let (topic, partition) = (line["topic"].as_str()?, line["partition"].as_i64()?);
            Some((format!("{topic}-{partition}"), line["lastMirroredOffset"].as_i64()?))
        };
        answer.as_array().into_iter().flatten().filter_map(line).collect()
    }
}

/// Makes the log longer than a compaction waits for: its last batch, again and again. The first offset of a batch is outside of
/// its checksum.
fn lengthen(log: &Path) {
    const LENGTH: usize = 5 << 20;
    let mut bytes = fs::read(log).expect("the state log");
    let mut at = 0;
    let size = |at: usize| 12 + u32::from_be_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
    while at + size(at) < bytes.len() {
        at += size(at);
    }
    let mut batch = bytes[at..].to_vec();
    let mut offset = i64::from_be_bytes(batch[..8].try_into().expect("8 bytes"));
    let records = i64::from(u32::from_be_bytes(batch[57..61].try_into().expect("4 bytes")));
    while bytes.len() < LENGTH {
        offset += records;
        batch[..8].copy_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&batch);
    }
    fs::write(log, bytes).expect("a longer state log");
}

/// What has to be there after everything.
#[derive(Default)]
struct Promised {
    mirroring: BTreeSet<String>,
    stopped: BTreeMap<String, BTreeMap<String, i64>>,
    gone: BTreeSet<String>,
}

impl Promised {
    fn check(&self, planes: &Planes) {
        for (mirror, ends) in &self.stopped {
            planes.reach(mirror, "STOPPED");
            assert_eq!(planes.ends(mirror), *ends, "{mirror}: a last mirrored offset moved");
        }
        self.mirroring.iter().for_each(|mirror| planes.reach(mirror, "MIRRORING"));
        let known = planes.site.ask(&["mirrors", "list"]).to_string();
        self.gone
            .iter()
            .for_each(|mirror| assert!(!known.contains(&format!("\"{mirror}\"")), "{mirror} is back: {known}"));
    }
}

#[test]
fn whatever_was_answered_survives_a_kill_after_every_named_step() {
    let _turn = place::turn();
    let scratch = place::scratch("steps");
    let kills = kills();
    let source = Embedded::start(kills.len() as u32, PARTITIONS as u32, "1MiB", "400KB");
    let mut planes = Planes { site: Site::new(scratch.path().join("site")), data: None, control: None };
    every_step_is_tried(&planes.site, &kills);
    planes.serve();
    let mut promised = Promised::default();
    for (at, (verb, step)) in kills.into_iter().enumerate() {
        let (mirror, topic) = (format!("k{at}"), format!("bench-{at:05}"));
        one(&mut planes, &source.address, (verb, step), (&mirror, &topic), &mut promised);
    }
    planes.control.take().into_iter().for_each(Plane::kill);
    planes.serve();
    promised.check(&planes);
    planes.control.take().into_iter().for_each(Plane::stop);
    planes.data.take().into_iter().for_each(Plane::stop);
    is_a_log_to_stock_tools(&planes.site.state().join(STATE_LOG));
}

/// The stock dump tool finds batches and records as in any log, and ours tells every kind of record by its fields.
fn is_a_log_to_stock_tools(log: &Path) {
    let stock = dump_log(&[log.to_owned()], &["--deep-iteration"]);
    let complaints = dump_complaints(&stock);
    assert!(complaints.is_empty(), "kafka-dump-log complains: {complaints:?}");
    let ours = twinlog(&["dump", "--json", log.to_str().expect("UTF-8")]).done();
    let records: Vec<Value> = ours.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for name in ["LastMirrorEpochs", "MirrorPartitionState", "Mirror", "MirrorTopic", "HostPartition"] {
        let of_kind = ours.lines().filter(|line| line.contains(&format!("\"{name}\""))).count();
        assert!(of_kind > 0, "no {name} among {} lines of twinlog dump", records.len());
    }
    let last = |text: &str, name: &str| text.rsplit_once(name).map(|(_, rest)| rest.to_owned());
    let offset = last(&stock, "| offset: ").and_then(|rest| rest.split(' ').next().map(str::to_owned));
    let offset = offset.expect("the stock tool shows records");
    assert!(ours.contains(&format!("\"offset\":{offset}")), "twinlog dump ends before offset {offset}");
}

/// The program says which steps it has when it is told one that it has not.
fn every_step_is_tried(site: &Site, kills: &[(Verb, &str)]) {
    let refused = Plane::control_until(site, "?");
    until("the step is refused", LIMIT, || {
        let said = fs::read_to_string(site.dir.join("twinlog-controlplane.log")).unwrap_or_default();
        let (_, names) = said.split_once("choose one of: ").ok_or_else(|| said.clone())?;
        let names: BTreeSet<&str> = names.split_whitespace().collect();
        let tried: BTreeSet<&str> = kills.iter().map(|(_, step)| *step).collect();
        assert_eq!(names, tried, "the steps of the program and those of this test");
        Ok(())
    });
    drop(refused);
}

fn one(
    planes: &mut Planes,
    source: &str,
    (verb, step): (Verb, &str),
    (mirror, topic): (&str, &str),
    promised: &mut Promised,
) {
    let create = ["mirrors", "create", mirror, "--source", source];
    let start = ["topics", "start", mirror, "--topic", topic];
    let stop = ["topics", "stop", mirror, "--topic", topic];
    let anew = ["topics", "start", mirror, "--topic", topic, "--from-scratch"];
    let delete = ["mirrors", "delete", mirror];
    if verb != Verb::Create {
        planes.site.cli(&create).done();
    }
    if !matches!(verb, Verb::Create | Verb::Start) {
        planes.site.cli(&start).done();
        planes.reach(mirror, "MIRRORING");
        planes.holds_records(mirror);
    }
    if matches!(verb, Verb::Delete | Verb::Anew) {
        planes.site.cli(&stop).done();
        planes.reach(mirror, "STOPPED");
    }
    if verb == Verb::Compact {
        planes.control.take().into_iter().for_each(Plane::kill);
        lengthen(&planes.site.state().join(STATE_LOG));
    }
    let words: &[&str] = match verb {
        Verb::Nothing => &[],
        Verb::Create => &create,
        Verb::Start => &start,
        Verb::Stop | Verb::StopBoth | Verb::Compact => &stop,
        Verb::Anew => &anew,
        Verb::Delete => &delete,
    };
    asked_until_there(planes, (verb, step), mirror, words);
    match verb {
        Verb::Nothing | Verb::Create | Verb::Start | Verb::Anew => {
            if verb == Verb::Create {
                planes.site.cli(&start).done();
            }
            // What is under way would pass the steps of the next kill.
            planes.reach(mirror, "MIRRORING");
            if verb == Verb::Anew {
                begun_anew(planes, step, mirror);
            }
            promised.mirroring.insert(mirror.to_owned());
        }
        Verb::Delete => drop(promised.gone.insert(mirror.to_owned())),
        Verb::Stop | Verb::StopBoth | Verb::Compact => {
            let ends = stopped(planes, step, mirror, topic);
            promised.stopped.insert(mirror.to_owned(), ends);
        }
    }
}

/// Asks the control plane that is killed at `step`, and again what it did not answer: what was answered is on record.
fn asked_until_there(planes: &mut Planes, (verb, step): (Verb, &str), mirror: &str, words: &[&str]) {
    // Another change of the program may be the one that passes the step first; then this one was not answered, and is asked again.
    let mut is_there = false;
    for _ in 0..TRIES {
        let answered = planes.killed_at(step, words).is_some_and(|ran| ran.code == 0);
        if verb == Verb::StopBoth {
            planes.data.take().into_iter().for_each(Plane::kill);
        }
        planes.serve();
        is_there = verb.is_there(planes, mirror);
        assert!(is_there || !answered, "{step}: {words:?} was answered and is lost");
        if is_there || matches!(step, "change-decided" | "change-written") {
            break;
        }
    }
    if !is_there {
        assert!(matches!(step, "change-decided" | "change-written"), "{step}: {words:?} is lost");
        planes.site.cli(words).done();
    }
}

/// Waits until the mirror's topic holds records again; where it once ended is no truth any more.
fn begun_anew(planes: &Planes, step: &str, mirror: &str) {
    planes.holds_records(mirror);
    let ends = planes.ends(mirror);
    assert!(ends.values().all(|end| *end == 0), "{step}: where mirroring once ended is remembered: {ends:?}");
}

/// Waits until the mirror's topic is stopped; its last mirrored offsets, which are where the files end.
fn stopped(planes: &Planes, step: &str, mirror: &str, topic: &str) -> BTreeMap<String, i64> {
    planes.reach(mirror, "STOPPED");
    let ends = planes.ends(mirror);
    for partition in 0..PARTITIONS {
        let directory = format!("{topic}-{partition}");
        let files = Log::read(&planes.site.data().join(&directory)).expect("the mirrored files").end();
        assert_eq!(ends.get(&directory), Some(&files), "{step}: {directory} ends elsewhere: {ends:?}");
        assert!(files > 0, "{step}: {directory} holds nothing");
    }
    ends
}
