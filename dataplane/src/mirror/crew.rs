//! One mirror on one core: its partitions, its pumps, and what it knows of the source's brokers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use twinlog_proto::assignment::Desired;
use twinlog_proto::channel::message::Event;
use twinlog_proto::channel::progress::{FaultCode, mirror_identity};
use twinlog_proto::messages::assignment::Assignment;

use super::partition::{Need, Partition};
use super::plan::{Doing, LogHere, Step, next_step};
use super::pump::Pump;
use super::settings::MirrorSettings;
use super::team::Port;
use super::{jobs, scout};
use crate::core::runtime::spawn;
use crate::core::shared::Shared;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::metrics::Counter;
use crate::wire::conn::ConnSettings;
use crate::wire::leaders::{Brokers, Endpoint, Leader, News, weigh};
use crate::wire::{ConnectOptions, Transport};

/// See the module text.
pub struct Crew<T: Transport, D: Disk> {
    /// The core.
    pub shared: Rc<Shared<D>>,
    /// The mirror's name.
    pub name: Rc<str>,
    /// By which the channel names it.
    pub(super) id: u64,
    pub(super) state: RefCell<State<D>>,
    bell: Notify,
    refresh: Cell<bool>,
    over: Cell<bool>,
    transport: PhantomData<T>,
}

pub(super) struct State<D: Disk> {
    /// The assignment in force.
    pub(super) assignment: Option<Arc<Assignment>>,
    pub(super) settings: Rc<MirrorSettings>,
    /// Why the settings cannot be followed.
    pub(super) bad_settings: Option<String>,
    pub(super) bootstrap: Vec<Endpoint>,
    /// How often the way to the source changed.
    pub(super) moves: u64,
    pub(super) cluster_id: String,
    pub(super) brokers: Brokers,
    pub(super) partitions: HashMap<(Rc<str>, i32), Rc<Partition<D>>>,
    pub(super) ports: BTreeMap<(i32, u32), Rc<Port<D>>>,
    /// The assignment could not be taken over whole, because something must be let go of first.
    pub(super) again: bool,
    said: FaultCode,
}

impl<T: Transport, D: Disk> std::fmt::Debug for Crew<T, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Transport, D: Disk> Crew<T, D> {
    /// A mirror without partitions, with its scout under way.
    #[must_use]
    pub fn start(shared: &Rc<Shared<D>>, name: &str) -> Rc<Self> {
        let state = State {
            assignment: None,
            settings: Rc::new(MirrorSettings::default()),
            bad_settings: None,
            bootstrap: Vec::new(),
            moves: 0,
            cluster_id: String::new(),
            brokers: Brokers::default(),
            partitions: HashMap::new(),
            ports: BTreeMap::new(),
            again: false,
            said: FaultCode::NONE,
        };
        let crew = Rc::new(Self {
            shared: Rc::clone(shared),
            name: name.into(),
            id: mirror_identity(name),
            state: RefCell::new(state),
            bell: Notify::new(),
            refresh: Cell::new(false),
            over: Cell::new(false),
            transport: PhantomData,
        });
        spawn(scout::run(Rc::clone(&crew)));
        crew
    }

    /// The version of the assignment in force, -1 before the first.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.state.borrow().assignment.as_ref().map_or(-1, |assignment| assignment.assignment_version)
    }

    /// Drives the partition towards its wish, as far as it goes without waiting.
    pub fn drive(self: &Rc<Self>, partition: &Rc<Partition<D>>) {
        loop {
            match next_step(partition.have(), partition.wish()) {
                Step::Wait => break,
                Step::Done => {
                    partition.carried_out();
                    break;
                }
                Step::Run => {
                    partition.run();
                    self.set_out(partition);
                }
                Step::Pause => {
                    partition.rest(Doing::Paused);
                    self.touch(partition);
                }
                Step::Stop if partition.have().log == LogHere::Absent => partition.rest(Doing::Stopped),
                step => {
                    self.begin_job(partition, step);
                    break;
                }
            }
        }
        self.shared.publish(partition);
    }

    fn begin_job(self: &Rc<Self>, partition: &Rc<Partition<D>>, step: Step) {
        let (shared, job) = (Rc::clone(&self.shared), Rc::clone(partition));
        match step {
            Step::Open => self.job(partition, move || async move { jobs::open(&shared, &job).await }),
            Step::Settle => self.job(partition, move || async move { jobs::settle(&job).await }),
            Step::Cut(offset) => self.job(partition, move || async move { jobs::cut(&shared, &job, offset).await }),
            Step::Discard => self.job(partition, move || async move { jobs::discard(&shared, &job).await }),
            Step::Stop => self.job(partition, move || async move { jobs::stop(&shared, &job).await }),
            Step::Remove => self.remove(partition),
            Step::Wait | Step::Done | Step::Run | Step::Pause => {}
        }
    }

    /// Runs a job on the partition's log; afterwards it is driven on.
    pub fn job<F: Future<Output = Result<(), Fault>> + 'static>(
        self: &Rc<Self>,
        partition: &Rc<Partition<D>>,
        work: impl FnOnce() -> F + 'static,
    ) {
        partition.set_busy(true);
        self.touch(partition);
        let (crew, partition) = (Rc::clone(self), Rc::clone(partition));
        self.shared.work.push(move || async move {
            let result = work().await;
            partition.set_busy(false);
            if let Err(fault) = result {
                // Memory may be ahead of the files now, and a log that is whole is settled for nothing.
                crew.shared.log_broke(&partition, fault);
            }
            crew.shared.complete(&partition, Instant::now());
            crew.drive(&partition);
            crew.touch(&partition);
        });
    }

    fn remove(self: &Rc<Self>, partition: &Rc<Partition<D>>) {
        partition.rest(Doing::Stopped);
        partition.set_busy(true);
        self.touch(partition);
        let (crew, partition) = (Rc::clone(self), Rc::clone(partition));
        self.shared.work.push(move || async move {
            if let Err(fault) = jobs::close(&partition).await {
                tracing::error!(?partition, "a log was let go that could not be finished: {fault}");
            }
            crew.gone(&partition);
        });
    }

    /// The partition is let go of: its place is free, also for whoever waits for it in the assignment.
    fn gone(self: &Rc<Self>, partition: &Partition<D>) {
        self.shared.remove(partition);
        let mut state = self.state.borrow_mut();
        let key = (Rc::clone(&partition.place.topic), partition.place.index);
        if state.partitions.get(&key).is_some_and(|known| known.token == partition.token) {
            state.partitions.remove(&key);
        }
        let assignment = if std::mem::take(&mut state.again) { state.assignment.clone() } else { None };
        drop(state);
        if let Some(assignment) = assignment {
            self.apply(&assignment);
        }
    }

    /// The partition begins to fetch: it gets its seat as soon as its leader is known.
    fn set_out(self: &Rc<Self>, partition: &Rc<Partition<D>>) {
        if self.refuse_bad_settings(partition) {
            return;
        }
        if let Some(leader) = partition.leader() {
            self.sit(partition, leader);
        } else {
            self.refresh();
        }
    }

    /// Fails the partition when the mirror's settings cannot be followed.
    pub(super) fn refuse_bad_settings(&self, partition: &Rc<Partition<D>>) -> bool {
        let bad = self.state.borrow().bad_settings.clone();
        let refused = bad.is_some();
        if let Some(why) = bad {
            self.fail(partition, Fault::partition(FaultCode::UNSUPPORTED, why));
        }
        refused
    }

    /// A word about who leads the partition.
    pub fn lead(self: &Rc<Self>, partition: &Rc<Partition<D>>, leader: Leader) {
        let news = weigh(partition.leader(), leader);
        let seated = partition.seat.borrow().is_some();
        if news == News::Nothing && seated {
            return;
        }
        if news != News::Nothing {
            partition.set_leader(leader);
        }
        if let Some(leader) = partition.leader() {
            if news == News::Moved && seated {
                self.shared.metrics.add(Counter::LeaderMoves, 1);
            }
            self.sit(partition, leader);
        }
        self.shared.publish(partition);
    }

    fn sit(self: &Rc<Self>, partition: &Rc<Partition<D>>, leader: Leader) {
        if self.state.borrow().brokers.endpoint(leader.broker).is_none() {
            self.refresh();
            return;
        }
        let settings = &self.shared.settings;
        let connections =
            self.state.borrow().settings.connections_per_broker.unwrap_or(settings.connections_per_broker);
        let number = partition.place.slot / settings.cores % connections.max(1);
        let port = self.port(leader.broker, number);
        let before = partition.seat.borrow_mut().replace(Rc::clone(&port));
        if let Some(before) = before.filter(|before| !Rc::ptr_eq(before, &port)) {
            before.touch(partition);
        }
        port.touch(partition);
    }

    fn port(self: &Rc<Self>, broker: i32, number: u32) -> Rc<Port<D>> {
        let known = self.state.borrow().ports.get(&(broker, number)).cloned();
        if let Some(port) = known.filter(|port| !port.is_closed()) {
            return port;
        }
        let port = Rc::new(Port::new(broker, number));
        self.state.borrow_mut().ports.insert((broker, number), Rc::clone(&port));
        spawn(Pump::new(Rc::clone(self), Rc::clone(&port)).run());
        port
    }

    /// Tells the partition's pump to look at it.
    pub fn touch(&self, partition: &Rc<Partition<D>>) {
        if let Some(port) = partition.seat.borrow().as_ref() {
            port.touch(partition);
        }
    }

    /// Asks the source who leads what, soon.
    pub fn refresh(&self) {
        self.refresh.set(true);
        self.bell.notify_one();
    }

    /// Whether somebody asked since the last look.
    pub fn take_refresh(&self) -> bool {
        self.refresh.replace(false)
    }

    /// Waits for such a wish, `longest` at most.
    pub async fn refresh_wanted(&self, longest: std::time::Duration) {
        if !self.refresh.get() && !self.is_over() {
            drop(tokio::time::timeout(longest, self.bell.notified()).await);
        }
    }

    /// Whether the mirror has left this core.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    /// The mirror leaves this core: its pumps end. Partitions are let go of by their wishes.
    pub fn end(&self) {
        self.over.set(true);
        self.bell.notify_one();
        for port in std::mem::take(&mut self.state.borrow_mut().ports).into_values() {
            port.close();
        }
    }

    /// Partitions that mirror or are about to.
    #[must_use]
    pub fn mirroring(&self) -> Vec<Rc<Partition<D>>> {
        let state = self.state.borrow();
        let wanted = |p: &&Rc<Partition<D>>| {
            let doing = p.have().doing;
            doing == Doing::Mirroring || (doing == Doing::Nothing && p.wish().desired == Desired::Mirror)
        };
        state.partitions.values().filter(wanted).cloned().collect()
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Rc<MirrorSettings> {
        Rc::clone(&self.state.borrow().settings)
    }

    /// How a connection of this mirror is made.
    #[must_use]
    pub fn conn_settings(&self) -> ConnSettings {
        let state = self.state.borrow();
        ConnSettings {
            connect: ConnectOptions {
                receive_buffer_bytes: state.settings.receive_buffer_bytes,
                setup_timeout: state.settings.setup_timeout,
            },
            request_timeout: state.settings.request_timeout,
            client_id: format!("twinlog-{}-{}", self.name, self.shared.settings.number).into(),
        }
    }

    /// Where to ask for metadata: the bootstrap servers, then the brokers known.
    #[must_use]
    pub fn doors(&self) -> Vec<Endpoint> {
        let state = self.state.borrow();
        let mut doors = state.bootstrap.clone();
        for endpoint in state.brokers.endpoints() {
            if !doors.contains(endpoint) {
                doors.push(endpoint.clone());
            }
        }
        doors
    }

    /// How often the way to the source changed: a connection that was made before a change is not used after it.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.state.borrow().moves
    }

    /// The source's cluster id, empty when not pinned yet.
    #[must_use]
    pub fn cluster_id(&self) -> String {
        self.state.borrow().cluster_id.clone()
    }

    /// Works on the brokers known.
    pub fn with_brokers<R>(&self, work: impl FnOnce(&mut Brokers) -> R) -> R {
        work(&mut self.state.borrow_mut().brokers)
    }

    /// Something is wrong with the mirror as a whole, or no longer (`NONE`); true when that is news.
    pub fn say(&self, code: FaultCode) -> bool {
        let news = std::mem::replace(&mut self.state.borrow_mut().said, code) != code;
        if news {
            self.shared.outbox.borrow_mut().event(Event::MirrorFault { mirror: self.id, code });
        }
        news
    }

    /// The partition failed at its source's side.
    pub fn fail(&self, partition: &Rc<Partition<D>>, fault: Fault) {
        self.shared.fail(partition, fault);
        self.touch(partition);
    }

    /// The partition must wait for a newer word about its leader.
    pub fn fence(&self, partition: &Rc<Partition<D>>, epoch: i32) {
        self.shared.metrics.add(Counter::Fences, 1);
        partition.set_need(Need::Epoch(epoch));
        self.shared.publish(partition);
        self.refresh();
    }

    /// Pauses the partition after an error; it fails with `lasting` when it was tried too often.
    pub fn pause(&self, partition: &Rc<Partition<D>>) -> u32 {
        self.shared.metrics.add(Counter::FaultsRetry, 1);
        partition.pause(Instant::now(), self.shared.random())
    }
}
