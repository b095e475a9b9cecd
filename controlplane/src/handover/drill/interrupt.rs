//! A drill that is told to stop (SIGINT, SIGTERM, SIGHUP): its children are killed, so that whoever waits for them goes on, and the
//! command ends as after any failure, with everything cleaned up.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often children are looked for once it was told: more may be started until the command notices.
const AGAIN: Duration = Duration::from_millis(100);

static CAUGHT: AtomicBool = AtomicBool::new(false);

/// Watches for signals, in a thread of its own, for the rest of the process.
///
/// # Errors
/// When they cannot be handled.
pub fn watch() -> Result<(), Failure> {
    let failed =
        |cause| Failure::new("signals cannot be handled", cause, "look at the limits of processes (ulimit -a)");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let listening: Result<Vec<_>, _> = kinds.into_iter().map(signal).collect();
        listening.map_err(failed)?
    };
    let watch = move || {
        runtime.block_on(async {
            let [interrupt, terminate, hang_up] = &mut signals[..] else { return };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        CAUGHT.store(true, Ordering::Release);
        loop {
            children().into_iter().for_each(kill);
            thread::sleep(AGAIN);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(failed)?;
    Ok(())
}

/// Goes on unless the process was told to stop.
///
/// # Errors
/// That it was.
pub fn check() -> Result<(), Failure> {
    if !CAUGHT.load(Ordering::Acquire) {
        return Ok(());
    }
    let remedy = "its broker was ended and its folder removed; run it again when you like";
    Err(Failure::new("the drill is not done", "it was interrupted", remedy))
}

fn kill(pid: Pid) {
    // One that is gone needs no signal.
    kill_process(pid, Signal::KILL).ok();
}

fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().get();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| parent(*pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
