//! Many connections at once: some that are silent, some that never wait before they ask again.

use std::fs;
use std::time::{Duration, Instant};

use twinlog_proto::messages::describe_mirrors::DescribeMirrorsRequest;

use super::Size;
use super::peer::{Peer, encoded};
use super::table::{Row, quantile};
use crate::run::RunError;

const IDLE: usize = 1_000;
const IN_FLIGHT: usize = 200;
const DURATION: Duration = Duration::from_secs(5);

/// Opens the idle connections, keeps requests for one topic each in flight on the others, and looks at who answered them.
///
/// # Errors
/// When the control plane does not answer.
pub fn measure(listen: &str, pid: u32, size: Size) -> Result<Vec<Row>, RunError> {
    let idle: Vec<Peer> = (0..IDLE).filter_map(|_| Peer::connect(listen).ok()).collect();
    let mut peers = Vec::with_capacity(IN_FLIGHT);
    for at in 0..IN_FLIGHT {
        let topic = size.topic(at as u32 % size.topics);
        let request = DescribeMirrorsRequest { topic_names: vec![topic], ..DescribeMirrorsRequest::default() };
        peers.push((Peer::connect(listen)?, encoded(&request)?, Instant::now()));
    }
    let before = threads(pid);
    let began = Instant::now();
    for (peer, request, asked_at) in &mut peers {
        *asked_at = Instant::now();
        peer.send(request)?;
    }
    let mut took_ms = Vec::new();
    'all: loop {
        for (peer, request, asked_at) in &mut peers {
            peer.receive()?;
            took_ms.push(asked_at.elapsed().as_secs_f64() * 1e3);
            if began.elapsed() >= DURATION {
                break 'all;
            }
            *asked_at = Instant::now();
            peer.send(request)?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let busy: Vec<u64> = {
        let after = threads(pid);
        after.iter().map(|(id, ticks)| ticks - before.iter().find(|(b, _)| b == id).map_or(0, |(_, t)| *t)).collect()
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
