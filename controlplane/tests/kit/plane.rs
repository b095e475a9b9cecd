//! A data plane that copies nothing: it makes a real region, hands it out over the real socket, reads the real assignment
//! files, and publishes what a data plane would.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use twinlog_proto::assignment::{self, Assignment, Desired};
use twinlog_proto::channel::attach::{SOCKET_NAME, send_reply};
use twinlog_proto::channel::doorbell::Doorbell;
use twinlog_proto::channel::handshake::{Memory, Reply, Status};
use twinlog_proto::channel::layout::{Geometry, LAYOUT_VERSION};
use twinlog_proto::channel::message::{Event, Order};
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState, identity};
use twinlog_proto::channel::region::{Region, Stamp};

/// What a partition shows, by directory name; the rest follows from the assignment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) leo: i64,
    pub(crate) source_high_watermark: i64,
    /// Failed at this attempt and below.
    pub(crate) fails_up_to: Option<(i32, FaultCode)>,
}

/// A running data plane.
pub(crate) struct DataPlane {
    shown: Arc<Mutex<HashMap<String, Shown>>>,
    /// Orders taken so far.
    pub(crate) orders: Arc<Mutex<Vec<Order>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

const SLOTS: u64 = 16;

impl DataPlane {
    /// Starts one on `folder`/state.
    pub(crate) fn start(folder: &Path, generation: u64) -> Self {
        let state = folder.join("state");
        std::fs::create_dir_all(&state).unwrap();
        let socket = state.join(SOCKET_NAME);
        drop(std::fs::remove_file(&socket));
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (shown, orders, over) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(false)));
        let known = RefCell::default();
        let (shared, taken, ends) = (Arc::clone(&shown), Arc::clone(&orders), Arc::clone(&over));
        let plane = Plane { state, listener, shown: shared, orders: taken, over: ends, known };
        let thread = Some(thread::spawn(move || plane.run(generation)));
        Self { shown, orders, over, thread, socket }
    }

    /// From now on `partition` shows this.
    pub(crate) fn show(&self, partition: &str, shown: Shown) {
        self.shown.lock().unwrap().insert(partition.to_owned(), shown);
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        drop(std::fs::remove_file(&self.socket));
    }
}

struct Plane {
    state: PathBuf,
    listener: UnixListener,
    shown: Arc<Mutex<HashMap<String, Shown>>>,
    orders: Arc<Mutex<Vec<Order>>>,
    over: Arc<AtomicBool>,
    known: RefCell<HashMap<String, Assignment>>,
}

impl Plane {
    fn run(self, generation: u64) {
        let stamp = Stamp { generation, pid: std::process::id(), started_at_ms: 1 };
        let (region, file) = Region::create(Geometry::new(1, SLOTS, 64, 64).unwrap(), stamp).unwrap();
        let (orders_bell, events_bell) = (Doorbell::for_orders().unwrap(), Doorbell::for_events().unwrap());
        let mut events = region.event_producer(0);
        let mut client: Option<UnixStream> = None;
        let mut published: HashMap<u32, SlotState> = HashMap::new();
        while !self.over.load(Ordering::Relaxed) {
            if let Ok((mut stream, _)) = self.listener.accept() {
                stream.set_nonblocking(false).unwrap();
                // Whoever knocked may be gone again, when a test ended it.
                let knocked = stream.read_exact(&mut [0; 1]).is_ok();
                let (layout_version, status, memory) = (LAYOUT_VERSION, Status::Welcome, Memory::default());
                let reply = Reply { layout_version, generation, status, cores: 1, memory };
                let fds = [file.as_fd(), orders_bell.as_fd(), events_bell.as_fd()];
                if knocked && send_reply(stream.as_fd(), &reply, &fds).is_ok() {
                    client = Some(stream);
                }
            }
            let mut orders = region.order_consumer(0);
            while let Ok(Some(words)) = orders.pop() {
                self.orders.lock().unwrap().push(Order::from_words(&words).unwrap());
            }
            for (slot, progress) in self.progress() {
                region.board_writer().publish(slot, &progress).unwrap();
                if published.insert(slot, progress.state) != Some(progress.state) {
                    events.push(&Event::Changed { slot }.to_words()).ok();
                    events_bell.ring().unwrap();
                }
            }
            thread::sleep(Duration::from_millis(10));
        }
        drop(client);
    }

    fn progress(&self) -> Vec<(u32, PartitionProgress)> {
        let Ok(files) = std::fs::read_dir(self.state.join("assignments")) else { return Vec::new() };
        let files = files.flatten().filter(|file| file.path().extension().is_some_and(|end| end == "assignment"));
        let assignments = files.filter_map(|file| Some(assignment::decode(&std::fs::read(file.path()).ok()?).unwrap()));
        // As the real one, it never goes back to an older version of an assignment that it knows.
        let mut known = self.known.borrow_mut();
        let newest = assignments.map(|read| match known.remove(&read.mirror_name) {
            Some(known) if known.assignment_version > read.assignment_version => known,
            _ => read,
        });
        let newest: Vec<Assignment> = newest.collect();
        known.extend(newest.iter().map(|assignment| (assignment.mirror_name.clone(), assignment.clone())));
        newest.iter().flat_map(|assignment| self.of(assignment)).collect()
    }

    fn of(&self, assignment: &Assignment) -> Vec<(u32, PartitionProgress)> {
        let mut all = Vec::new();
        for topic in &assignment.topics {
            for partition in &topic.partitions {
                let name = format!("{}-{}", topic.name, partition.index);
                let nothing = Shown { leo: 0, source_high_watermark: 0, fails_up_to: None };
                let shown = self.shown.lock().unwrap().get(&name).copied().unwrap_or(nothing);
                let failed = shown.fails_up_to.filter(|(attempt, _)| partition.attempt <= *attempt);
                let state = match Desired::from_code(partition.desired).unwrap() {
                    Desired::Mirror if failed.is_some() => SlotState::Failed,
                    Desired::Mirror => SlotState::Mirroring,
                    Desired::Pause => SlotState::Paused,
                    Desired::Stop | Desired::Discard => SlotState::Stopped,
                    Desired::Remove => SlotState::Absent,
                };
                let progress = PartitionProgress {
                    assignment_version: assignment.assignment_version as u32,
                    attempt: partition.attempt.cast_unsigned(),
                    leo: shown.leo,
                    flushed: shown.leo,
                    log_start: 0,
                    source_high_watermark: shown.source_high_watermark,
                    last_epoch: 3,
                    leader_epoch: 4,
                    fault: failed.map_or(FaultCode::NONE, |(_, code)| code),
                    fault_from: failed.map_or(-1, |_| 5),
                    fault_to: failed.map_or(-1, |_| 9),
                    ..PartitionProgress::unknown(identity(topic.topic_id, partition.index), state)
                };
                all.push((partition.slot.cast_unsigned(), progress));
            }
        }
        all
    }
}
