//! Many connections at once: some that are silent, some that never wait before they ask again.

use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;

use super::Size;
use super::cluster::{described, is_whole};
use super::peer::{Peer, encoded};
use super::table::{Row, quantile};
use crate::run::RunError;

const IDLE: usize = 1_000;
const IN_FLIGHT: usize = 200;
const DURATION: Duration = Duration::from_secs(5);
/// One of so many answers is looked into, beside the first ones: to read them all would take the machine from who is measured.
const LOOK_EVERY: usize = 64;

/// Opens the idle connections, keeps requests for one topic each in flight on the others, and looks at who answered them.
///
/// # Errors
/// When the control plane does not answer.
pub fn measure(listen: &str, pid: u32, size: Size) -> Result<Vec<Row>, RunError> {
    let idle: Vec<Peer> = (0..IDLE).filter_map(|_| Peer::connect(listen).ok()).collect();
    let mut askers = Vec::with_capacity(IN_FLIGHT);
    for at in 0..IN_FLIGHT {
        let topic = size.topic(at as u32 % size.topics);
        let request = DescribeMirrorsRequest { topic_names: vec![topic], ..DescribeMirrorsRequest::default() };
        askers.push(Asker { peer: Peer::connect(listen)?, request: encoded(&request)?, asked_at: Instant::now() });
    }
    let before = threads(pid);
    let began = Instant::now();
    askers.iter_mut().try_for_each(Asker::ask)?;
    let mut took_ms = Vec::new();
    // Who was asked is waited for: the slowest answers are those that come last.
    while !askers.is_empty() {
        crate::run::check_interrupted()?;
        for at in answered(&askers)?.into_iter().rev() {
            let asker = &mut askers[at];
            asker.peer.receive()?;
            took_ms.push(asker.asked_at.elapsed().as_secs_f64() * 1e3);
            if took_ms.len() < IN_FLIGHT || took_ms.len().is_multiple_of(LOOK_EVERY) {
                let answer = asker.peer.answer::<DescribeMirrorsRequest>(*DescribeMirrorsRequest::VERSIONS.end())?;
                is_whole("DescribeMirrors of one topic", described(&answer).count(), size.partitions.into())?;
            }
            if began.elapsed() < DURATION {
                asker.ask()?;
            } else {
                drop(askers.swap_remove(at));
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let busy: Vec<u64> = {
        let after = threads(pid);
        after
            .iter()
            .map(|(id, ticks)| ticks.saturating_sub(before.iter().find(|(b, _)| b == id).map_or(0, |(_, t)| *t)))
            .collect()
    };
    let (most, all) = (busy.iter().max().copied().unwrap_or(0), busy.iter().sum::<u64>().max(1));
    let open = idle.iter().filter(|peer| peer.is_open()).count();
    Ok(vec![
        Row::goal(format!("of {IDLE} idle connections were closed"), 0.0, (IDLE - open) as f64, "connections"),
        Row::told(format!("{IN_FLIGHT} requests in flight: answers"), took_ms.len() as f64 / seconds, "per second"),
        Row::told("  p50", quantile(&mut took_ms, 0.5), "ms"),
        Row::told("  p99", quantile(&mut took_ms, 0.99), "ms"),
        Row::told("  share of the busiest thread in the CPU time", 100.0 * most as f64 / all as f64, "%"),
    ])
}

/// A connection whose request is under way.
struct Asker {
    peer: Peer,
    request: Vec<u8>,
    asked_at: Instant,
}

impl Asker {
    fn ask(&mut self) -> Result<(), RunError> {
        self.asked_at = Instant::now();
        self.peer.send(&self.request)
    }
}

/// Waits for answers; gives the numbers of those that have one. Whoever took them one after the other would time its own queue.
fn answered(askers: &[Asker]) -> Result<Vec<usize>, RunError> {
    let mut fds: Vec<PollFd<'_>> = askers.iter().map(|asker| PollFd::new(&asker.peer, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(RunError::Process(errno.into())),
    }
    Ok((0..fds.len()).filter(|&at| !fds[at].revents().is_empty()).collect())
}

/// CPU ticks of each thread.
fn threads(pid: u32) -> Vec<(String, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ticks = |stat: String| -> Option<u64> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let user: u64 = fields.nth(11)?.parse().ok()?;
        Some(user + fields.next()?.parse::<u64>().ok()?)
    };
    entries
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), ticks(stat)?))
        })
        .collect()
}
