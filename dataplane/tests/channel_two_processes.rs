//! Proves with real processes: a control plane killed with SIGKILL at any moment leaves a channel that the next one goes on with;
//! the core takes no torn, repeated or reordered order, and never stops; a killed data plane is noticed and replaced.
//!
//! The test binary starts itself again as the other process; which part to play stands in the environment.

use dataplane::control::channel::Channel;
use dataplane::control::channel_server::ChannelServer;
use dataplane::instance_lock::InstanceLocks;
use dataplane::metrics::Counter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use twinlog_proto::channel::attach::{Control, SOCKET_NAME, attach_control, attach_observer};
use twinlog_proto::channel::board::Seen;
use twinlog_proto::channel::message::{Event, Order};
use twinlog_proto::channel::progress::{PartitionProgress, SlotState};
use twinlog_proto::channel::ring::PushError;

const PART: &str = "TWINLOG_TEST_PART";
const STATE: &str = "TWINLOG_TEST_STATE";

fn start(part: &str, state: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(PART, part)
        .env(STATE, state)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// No test by itself: the other process of the tests below.
#[test]
fn the_other_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let state = PathBuf::from(std::env::var(STATE).unwrap());
    match part.as_str() {
        "control" => send_orders_for_ever(&state),
        "data" => publish_for_ever(&state),
        other => panic!("no such part: {other}"),
    }
}

fn send_orders_for_ever(state: &Path) {
    let mut control = attached(state);
    let mirror = u64::from(std::process::id());
    let mut version = 0;
    loop {
        let next = Order::AssignmentCurrent { mirror, version };
        match control.send(0, &next) {
            Ok(()) => version += 1,
            Err(PushError::Full) => std::thread::yield_now(),
            Err(PushError::Broken(broken)) => panic!("{broken}"),
        }
        while control.take(0).unwrap().is_some() {}
    }
}

fn publish_for_ever(state: &Path) {
    let _locks = InstanceLocks::take(state, &[]).unwrap();
    let (channel, mut seats) = Channel::open(1, 4).unwrap();
    let _server = ChannelServer::start(channel, state).unwrap();
    let mut ends = seats.remove(0).take();
    for leo in 0.. {
        ends.outbox.publish(1, &progress(leo)).unwrap();
        ends.outbox.event(Event::Changed { slot: 1 });
        ends.outbox.ring();
    }
}

fn progress(leo: i64) -> PartitionProgress {
    let known = PartitionProgress::unknown(6, SlotState::Mirroring);
    PartitionProgress { leo, flushed: leo, source_high_watermark: leo, bytes: leo.cast_unsigned(), ..known }
}

fn attached(state: &Path) -> Control {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match attach_control(&state.join(SOCKET_NAME)) {
            Ok(control) => return control,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn orders_stay_whole_and_in_order_while_control_planes_are_killed() {
    let state = tempfile::tempdir().unwrap();
    let (channel, mut seats) = Channel::open(1, 4).unwrap();
    let _server = ChannelServer::start(channel, state.path()).unwrap();
    let mut ends = seats.remove(0).take();
    let (mut sender, mut next) = (0, 0);
    for life_ms in [40, 7, 23, 55, 11, 31] {
        let child = start("control", state.path());
        let mut heard_since = None;
        while heard_since.is_none_or(|since: Instant| since.elapsed() < Duration::from_millis(life_ms)) {
            let Some(order) = ends.inbox.take() else { continue };
            let Order::AssignmentCurrent { mirror, version } = order else { panic!("{order:?}") };
            if mirror != sender {
                (sender, next) = (mirror, 0);
            }
            assert_eq!(version, next, "of {mirror}");
            next += 1;
            if mirror == u64::from(child.id()) && heard_since.is_none() {
                heard_since = Some(Instant::now());
            }
            ends.outbox.event(Event::Changed { slot: 0 });
        }
        kill(child);
    }
    assert_eq!(ends.metrics.get(Counter::OrdersRefused) + ends.metrics.get(Counter::RingsBroken), 0);
    assert!(ends.metrics.get(Counter::OrdersTaken) > 1000);
}

#[test]
fn a_killed_data_plane_is_noticed_and_its_successor_is_another_generation() {
    let state = tempfile::tempdir().unwrap();
    let mut generations = Vec::new();
    for _ in 0..3 {
        let child = start("data", state.path());
        let mut control = attached(state.path());
        let observer = attach_observer(&state.path().join(SOCKET_NAME)).unwrap();
        let (mut newest, mut events, mut values) = (0, 0, 0);
        while values < 2000 || events == 0 {
            if let Seen::Value(seen) = observer.view.board().read(1).unwrap() {
                assert_eq!(seen, progress(seen.leo));
                assert!(seen.leo >= newest);
                newest = seen.leo;
                values += 1;
            }
            if let Some(event) = control.take(0).unwrap() {
                assert_eq!(event, Event::Changed { slot: 1 });
                events += 1;
            }
        }
        generations.push(control.region.stamp().generation);
        kill(child);
        assert!(control.is_over() && observer.is_over());
        // The last values stay readable; that they are stale is what the closed connection says.
        assert!(!matches!(control.region.board().read(1), Ok(Seen::Empty | Seen::Broken(_))));
    }
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), 3);
}
