//! `twinlog-bench serve`: the embedded source as a process of its own.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::args::{Content, Serve};
use crate::limits::PACE_SECONDS_MAX;
use crate::source::batches::Shape;
use crate::source::broker::{Broker, Config, StartError};
use crate::source::pace::{self, Schedule};

/// Between the answer to `pace` and the first batch, so that a measurer can get ready.
const PACE_NOTICE_NS: u64 = 100_000_000;
const START_FILE_POLL: Duration = Duration::from_millis(20);

/// A source that could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Standard output or input failed.
    #[error("standard input or output failed: {0}")]
    Stdio(#[from] io::Error),
}

/// What arrives on standard input.
enum Told {
    Pace { rate: NonZeroU64, seconds: f64 },
    Unknown(String),
    Quit,
}

/// Serves until told to quit, or for ever.
///
/// # Errors
/// When the source cannot be started.
pub fn run(args: &Serve) -> Result<(), ServeError> {
    let broker = Broker::start(config(args))?;
    let cluster = broker.cluster();
    say(&format!("serve ready listen={} cluster={} topic={}", broker.address(), cluster.id, args.content.topic))?;
    let (tell, told) = mpsc::channel();
    let until_stdin_ends = args.until_stdin_ends;
    let from_stdin = tell.clone();
    thread::spawn(move || listen_to_stdin(&from_stdin, until_stdin_ends));
    if let (Some(rate), Some(seconds)) = (args.rate.and_then(NonZeroU64::new), args.duration) {
        let start_file = args.start_file.clone();
        let from_flags = tell.clone();
        thread::spawn(move || {
            wait_for(start_file.as_deref());
            from_flags.send(Told::Pace { rate, seconds }).is_ok()
        });
    }
    let mut first = 0;
    // `tell` stays alive here, so the loop ends by Quit alone.
    while let Ok(told) = told.recv() {
        match told {
            Told::Quit => break,
            Told::Unknown(line) => say(&format!("unknown command {line:?}; known: pace RATE SECONDS, quit"))?,
            Told::Pace { rate, seconds } => first += paced(&broker, rate, seconds, first)?,
        }
    }
    drop(tell);
    Ok(())
}

/// The configuration of a broker that serves what `args` asks for.
#[must_use]
pub fn config(args: &Serve) -> Config {
    let content = &args.content;
    Config {
        listen: args.listen,
        topic: content.topic.clone(),
        topics: content.topics,
        topics_with_data: topics_with_data(content),
        partitions: content.partitions,
        batches_each: batches_each(content),
        shape: shape(content, args.leader_epoch),
        core: args.core,
    }
}

/// How many of the topics hold data.
#[must_use]
pub fn topics_with_data(content: &Content) -> u32 {
    content.topics_with_data.unwrap_or(content.topics).min(content.topics)
}

/// Batches of each partition of a topic with data that hold at least the wanted bytes together.
#[must_use]
pub fn batches_each(content: &Content) -> u64 {
    let partitions = u64::from(content.partitions) * u64::from(topics_with_data(content)).max(1);
    content.bytes.div_ceil(partitions * content.batch_bytes.max(1))
}

/// The shape of the batches; sizes beyond 32 bits are out of bounds all the same.
#[must_use]
pub fn shape(content: &Content, leader_epoch: i32) -> Shape {
    Shape {
        seed: content.seed,
        batch_bytes: u32::try_from(content.batch_bytes).unwrap_or(u32::MAX),
        record_bytes: u32::try_from(content.record_bytes).unwrap_or(u32::MAX),
        leader_epoch,
    }
}

fn paced(broker: &Broker, rate: NonZeroU64, seconds: f64, first: u64) -> io::Result<u64> {
    let batch_bytes = broker.store().batches().batch_bytes();
    let schedule = Schedule::new(pace::now_ns() + PACE_NOTICE_NS, rate, seconds, batch_bytes, first);
    say(&format!(
        "pace start_ns={} rate={} batch_bytes={} first={} batches={}",
        schedule.start_ns, schedule.rate, schedule.batch_bytes, schedule.first, schedule.batches
    ))?;
    pace::run(broker.store(), &schedule);
    say("pace done")?;
    Ok(schedule.batches)
}

fn listen_to_stdin(tell: &mpsc::Sender<Told>, until_stdin_ends: bool) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let told = understand(&line);
        if tell.send(told).is_err() {
            return;
        }
    }
    if until_stdin_ends {
        // The other side only goes away with the process.
        tell.send(Told::Quit).unwrap_or_default();
    }
}

fn understand(line: &str) -> Told {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pace = |rate: &str, seconds: &str| {
        let rate = NonZeroU64::new(crate::units::parse_bytes(rate).ok()?)?;
        let seconds: f64 = seconds.parse().ok()?;
        (0.0..=PACE_SECONDS_MAX).contains(&seconds).then_some(Told::Pace { rate, seconds })
    };
    match words[..] {
        ["quit"] => Told::Quit,
        ["pace", rate, seconds] => pace(rate, seconds).unwrap_or_else(|| Told::Unknown(line.to_owned())),
        _ => Told::Unknown(line.to_owned()),
    }
}

fn wait_for(file: Option<&Path>) {
    while file.is_some_and(|file| !file.exists()) {
        thread::sleep(START_FILE_POLL);
    }
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
