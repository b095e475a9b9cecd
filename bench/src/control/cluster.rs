//! Both planes with many partitions of the embedded source: how long starting takes, and what questions cost afterwards.

use std::thread;
use std::time::{Duration, Instant};

use twinlog_proto::messages::describe_mirrors::{DescribeMirrorsRequest, DescribeMirrorsResponse, PartitionDetail};
use twinlog_proto::messages::last_mirrored_offsets::LastMirroredOffsetsRequest;
use twinlog_proto::messages::start_mirror_topics::{StartMirrorTopicsRequest, TopicData as StartTopic};
use twinlog_proto::messages::stop_mirror_topics::{StopMirrorTopicsRequest, TopicData as StopTopic};

use super::peer::Peer;
use super::probes::Probes;
use super::table::{Row, quantile};
use super::{Size, crowd};
use crate::args::{Content, Run};
use crate::limits::CHANGE_MAX;
use crate::proc;
use crate::run::RunError;
use crate::run::place::{self, Place};
use crate::run::planes::Planes;
use crate::spawn::Source;

const MIRROR: &str = "bench";
const ASKED: u32 = 100;
const POLL: Duration = Duration::from_millis(200);
const IDLE_LOOK: Duration = Duration::from_secs(10);

/// Measures.
///
/// # Errors
/// When a program does not do what it is told.
pub fn measure(args: &Run, size: Size) -> Result<Vec<Row>, RunError> {
    let content = Content {
        partitions: size.partitions,
        topics: size.topics,
        topics_with_data: None,
        bytes: 0,
        batch_bytes: 4096,
        record_bytes: 1000,
        seed: size.seed,
        topic: "bench".to_owned(),
    };
    let source = Source::start(&content, None)?;
    let shown = place::parent(args.dir.as_deref());
    let place = Place::create(args.dir.as_deref(), args.keep).map_err(RunError::place(&shown))?;
    let config = place.configure(args.flush_interval_ms).map_err(RunError::place(place.root()))?;
    let planes = Planes::start(&place, &config)?;
    planes.tell(&["mirrors", "create", MIRROR, "--source", &source.address.to_string()])?;
    let pid = planes.control_plane().map_err(RunError::Process)?;
    let mut rows = start(&planes, size)?;
    rows.extend(questions(planes.listen(), size)?);
    rows.push(memory("memory of the control plane (VmRSS)", Some(300.0), pid)?);
    rows.push(idle("CPU of the idle control plane", Some(2.0), pid)?);
    rows.push(idle("  and of the idle data plane", None, planes.data_plane().map_err(RunError::Process)?)?);
    rows.extend(crowd::measure(planes.listen(), pid, size)?);
    rows.extend(stop(&planes, size)?);
    rows.push(memory("memory of the control plane after all of it", None, pid)?);
    planes.stop()?;
    Ok(rows)
}

fn start(planes: &Planes, size: Size) -> Result<Vec<Row>, RunError> {
    let topic = |number| StartTopic { topic_name: size.topic(number), ..StartTopic::default() };
    let request = StartMirrorTopicsRequest {
        mirror_name: MIRROR.to_owned(),
        topics: (0..size.topics).map(topic).collect(),
        ..StartMirrorTopicsRequest::default()
    };
    let (listen, began) = (planes.listen().to_owned(), Instant::now());
    let asked = thread::spawn(move || Peer::connect(&listen)?.ask(&request));
    let (reached, mut probes) = until_all(planes, size, "MIRRORING", began)?;
    let (answer, answered) = asked.join().map_err(|_panic| RunError::Planes("a thread panicked".into()))??;
    let refused = answer.topics.iter().find(|topic| topic.error_code != 0).map(|topic| (&topic.name, topic.error_code));
    is_taken(answer.error_code, answer.error_message.as_deref(), refused)?;
    Ok(vec![
        Row::goal("from `topics start` to all MIRRORING", 30.0, reached.as_secs_f64(), "s"),
        Row::told("  until it was answered", answered.as_secs_f64(), "s"),
        Row::told("  other questions meanwhile, p99", quantile(&mut probes, 0.99), "ms"),
        Row::told("  other questions meanwhile, longest", quantile(&mut probes, 1.0), "ms"),
    ])
}

fn stop(planes: &Planes, size: Size) -> Result<Vec<Row>, RunError> {
    let topic = |number| StopTopic { topic_name: size.topic(number), ..StopTopic::default() };
    let topics = (0..size.topics).map(topic).collect();
    let request = StopMirrorTopicsRequest { mirror_name: MIRROR.to_owned(), topics, patterns: Vec::new() };
    let (listen, began) = (planes.listen().to_owned(), Instant::now());
    let asked = thread::spawn(move || Peer::connect(&listen)?.ask(&request));
    let (reached, mut probes) = until_all(planes, size, "STOPPED", began)?;
    let (answer, answered) = asked.join().map_err(|_panic| RunError::Planes("a thread panicked".into()))??;
    let refused = answer.topics.iter().find(|topic| topic.error_code != 0).map(|topic| (&topic.name, topic.error_code));
    is_taken(answer.error_code, answer.error_message.as_deref(), refused)?;
    Ok(vec![
        Row::told("from `topics stop` to all STOPPED", reached.as_secs_f64(), "s"),
        Row::told("  until it was answered", answered.as_secs_f64(), "s"),
        Row::told("  other questions meanwhile, longest", quantile(&mut probes, 1.0), "ms"),
    ])
}

/// What is refused took no time worth telling.
fn is_taken(code: i16, message: Option<&str>, topic: Option<(&String, i16)>) -> Result<(), RunError> {
    match topic {
        _ if code != 0 => Err(RunError::Planes(format!("the request was refused with error {code}: {message:?}"))),
        Some((name, code)) => Err(RunError::Planes(format!("topic {name} was refused with error {code}: {message:?}"))),
        None => Ok(()),
    }
}

/// Waits until every partition is in `state`, and meanwhile asks small things; gives the time and how long those took, in ms.
fn until_all(planes: &Planes, size: Size, state: &str, began: Instant) -> Result<(Duration, Vec<f64>), RunError> {
    let probes = Probes::start(planes.listen())?;
    let reached = reach_all(planes, size, state, began);
    let took_ms = probes.end();
    Ok((reached?, took_ms?))
}

fn reach_all(planes: &Planes, size: Size, state: &str, began: Instant) -> Result<Duration, RunError> {
    let mut peer = Peer::connect(planes.listen())?;
    loop {
        crate::run::check_interrupted()?;
        let (answer, _) = peer.ask(&DescribeMirrorsRequest::default())?;
        let (reached, failed) = (count(&answer, state), count(&answer, "FAILED"));
        if reached == size.all() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > CHANGE_MAX {
            let (all, said) = (size.all(), planes.last_lines());
            let why = format!("{reached} of {all} partitions are {state}, {failed} FAILED\n{said}");
            return Err(RunError::Planes(why));
        }
        thread::sleep(POLL);
    }
}

fn count(answer: &DescribeMirrorsResponse, state: &str) -> u64 {
    described(answer).filter(|partition| partition.state == state).count() as u64
}

/// All partitions of an answer.
pub(super) fn described(answer: &DescribeMirrorsResponse) -> impl Iterator<Item = &PartitionDetail> {
    answer.mirrors.iter().flat_map(|mirror| &mirror.topics).flat_map(|topic| &topic.partitions)
}

/// An answer that leaves something out is faster than it should be.
pub(super) fn is_whole(what: &str, told: usize, wanted: u64) -> Result<(), RunError> {
    if told as u64 == wanted {
        return Ok(());
    }
    Err(RunError::Planes(format!("{what} told of {told} of {wanted} partitions: its time says nothing")))
}

fn questions(listen: &str, size: Size) -> Result<Vec<Row>, RunError> {
    let mut peer = Peer::connect(listen)?;
    let (mut describe, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..ASKED {
        let (answer, took) = peer.ask(&DescribeMirrorsRequest::default())?;
        is_whole("DescribeMirrors", described(&answer).count(), size.all())?;
        describe.push(took.as_secs_f64() * 1e3);
        let all = LastMirroredOffsetsRequest { mirror_name: MIRROR.to_owned(), topics: Vec::new() };
        let (answer, took) = peer.ask(&all)?;
        let told = answer.topics.iter().flat_map(|topic| &topic.partitions).filter(|end| end.error_code == 0);
        is_whole("LastMirroredOffsets", told.count(), size.all())?;
        ends.push(took.as_secs_f64() * 1e3);
    }
    let what = |name: &str, share: &str| format!("{name} of all {} partitions, {share}", size.all());
    Ok(vec![
        Row::told(what("DescribeMirrors", "p50"), quantile(&mut describe, 0.5), "ms"),
        Row::goal(what("DescribeMirrors", "p99"), 100.0, quantile(&mut describe, 0.99), "ms"),
        Row::told(what("LastMirroredOffsets", "p50"), quantile(&mut ends, 0.5), "ms"),
        Row::goal(what("LastMirroredOffsets", "p99"), 50.0, quantile(&mut ends, 0.99), "ms"),
    ])
}

fn memory(what: &str, goal: Option<f64>, pid: u32) -> Result<Row, RunError> {
    let mib = proc::memory_bytes(pid).map_err(RunError::Process)? as f64 / f64::from(1 << 20);
    Ok(Row { what: what.to_owned(), goal, seen: mib, unit: "MiB" })
}

fn idle(what: &str, goal: Option<f64>, pid: u32) -> Result<Row, RunError> {
    let before = proc::cpu_seconds(pid).map_err(RunError::Process)?;
    thread::sleep(IDLE_LOOK);
    let used = proc::cpu_seconds(pid).map_err(RunError::Process)? - before;
    Ok(Row { what: what.to_owned(), goal, seen: 100.0 * used / IDLE_LOOK.as_secs_f64(), unit: "% of a core" })
}
