//! Carries decisions out, always in the order Persist, Send, Answer.
//!
//! Everyone who wants a change hands in a closure that decides against the catalog. The driver takes all that wait, lets
//! them decide one after the other on one draft, makes the draft's records durable with one write and one sync, replaces
//! the catalog, writes assignments and sends orders, and only then lets the answers go. Whoever reads the catalog sees
//! durable state only.

use crate::clock::now_ms;
use crate::limits::{COMMIT_CHANGES_MAX, COMMIT_PARTITIONS_MAX, COMMIT_QUEUE_MAX, DECIDE_EVENTS_AT_A_TIME};
use crate::metrics::tally::Tally;
use crate::mirror::catalog::{Catalog, StateRecord};
use crate::mirror::decide::{Decided, Draft, PartitionKey, Room};
use crate::mirror::event::MirrorEvent;
use crate::plane::sender::Sender;
use crate::plane::view::{Slots, View};
use crate::statelog::record;
use crate::statelog::snapshot::{self, NotCompacted};
use crate::statelog::writer::{LogWriter, Marks, WriteError};
use crate::steps::{self, Step};
use crate::sync::book::Book;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tracing::{Level, debug, enabled, error, info, warn};
use twinlog_proto::messages::describe_mirrors::NodeDetail;
use twinlog_proto::mirror_state::MirrorState;

type Decide = Box<dyn FnOnce(&Catalog, &View<'_>) -> (Vec<MirrorEvent>, Answer)>;
type Answer = Box<dyn FnOnce(Result<(), Arc<WriteError>>)>;

/// What everyone else holds of the driver. Clones are the same driver.
#[derive(Clone)]
pub struct Driver {
    queue: mpsc::Sender<Decide>,
    shared: Rc<Shared>,
}

/// What the driver shows.
struct Shared {
    catalog: RefCell<Rc<Catalog>>,
    trouble: RefCell<Option<String>>,
    armed: RefCell<BTreeMap<PartitionKey, i16>>,
    slots: Rc<dyn Slots>,
    book: Rc<Book>,
    tally: Tally,
    node: RefCell<Option<Rc<LookAtNode>>>,
}

/// Tells how the node is, and warns of the mirrors for which its argument is true.
pub type LookAtNode = dyn Fn(&dyn Fn(&str) -> bool) -> NodeDetail;

/// The driver's own side; `run` is its task.
pub struct DriverTask {
    queue: mpsc::Receiver<Decide>,
    shared: Rc<Shared>,
    directories: Vec<String>,
    sender: Rc<Sender>,
    log: Option<LogWriter>,
    state: PathBuf,
    compacted_bytes: u64,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}

impl std::fmt::Debug for DriverTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DriverTask")
    }
}

/// What a driver is made of.
pub struct Parts {
    /// As replayed.
    pub catalog: Catalog,
    /// Its end.
    pub log: LogWriter,
    /// Bytes that the log would have right after a compaction.
    pub compacted_bytes: u64,
    /// Where the log and the assignments are.
    pub state: PathBuf,
    /// The data directories.
    pub directories: Vec<String>,
    /// Towards the data plane.
    pub sender: Rc<Sender>,
    /// From the data plane.
    pub slots: Rc<dyn Slots>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

/// Makes a driver and its task.
#[must_use]
pub fn new(parts: Parts) -> (Driver, DriverTask) {
    let (sender, queue) = mpsc::channel(COMMIT_QUEUE_MAX);
    let shared = Rc::new(Shared {
        catalog: RefCell::new(Rc::new(parts.catalog)),
        trouble: RefCell::new(None),
        armed: RefCell::default(),
        slots: parts.slots,
        book: Rc::default(),
        tally: Tally::default(),
        node: RefCell::default(),
    });
    let task = DriverTask {
        queue,
        shared: Rc::clone(&shared),
        directories: parts.directories,
        sender: parts.sender,
        compacted_bytes: parts.compacted_bytes,
        log: Some(parts.log),
        state: parts.state,
    };
    (Driver { queue: sender, shared }, task)
}

impl Driver {
    /// The durable catalog.
    #[must_use]
    pub fn catalog(&self) -> Rc<Catalog> {
        Rc::clone(&self.shared.catalog.borrow())
    }

    /// What syncs remember.
    #[must_use]
    pub fn book(&self) -> Rc<Book> {
        Rc::clone(&self.shared.book)
    }

    /// Why the last change could not be made durable; `None` when it could.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.borrow().clone()
    }

    /// From now on `look` says how the node is.
    pub fn set_node(&self, look: Rc<LookAtNode>) {
        *self.shared.node.borrow_mut() = Some(look);
    }

    /// How the node is, with warnings of the mirrors that `sees` tells; `None` before it serves.
    #[must_use]
    pub fn node(&self, sees: &dyn Fn(&str) -> bool) -> Option<NodeDetail> {
        let look = self.shared.node.borrow().clone();
        look.map(|look| look(sees))
    }

    /// What the control plane counts of its own work.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Lets `look` read the catalog together with the board.
    pub fn read<R>(&self, look: impl FnOnce(&Catalog, &View<'_>) -> R) -> R {
        let catalog = self.catalog();
        look(&catalog, &View::new(self.shared.slots.as_ref(), now_ms()))
    }

    /// Partitions that failed since the last call, with the number of their failures: to be tried again later.
    #[must_use]
    pub fn take_armed(&self) -> BTreeMap<PartitionKey, i16> {
        self.shared.armed.take()
    }

    /// Lets `decide` name events, and returns its result when they are durable, sent and may be answered. An event that
    /// has no place in the state of its partition is left out, as if it had never been named.
    ///
    /// # Errors
    /// When the events could not be made durable; then nothing has changed.
    pub async fn change<R: 'static>(
        &self,
        decide: impl FnOnce(&Catalog, &View<'_>) -> (Vec<MirrorEvent>, R) + 'static,
    ) -> Result<R, Arc<WriteError>> {
        let (answer, answered) = oneshot::channel();
        let decide: Decide = Box::new(move |catalog, view| {
            let (events, result) = decide(catalog, view);
            let finish: Answer = Box::new(move |durable| {
                if answer.send(durable.map(|()| result)).is_err() {
                    debug!("nobody waits for an answer any more");
                }
            });
            (events, finish)
        });
        let gone = || Arc::new(WriteError::Poisoned("the control plane is stopping".to_owned()));
        if self.queue.send(decide).await.is_err() {
            return Err(gone());
        }
        answered.await.unwrap_or_else(|_stopped| Err(gone()))
    }
}

/// A change that is decided and not yet taken.
struct Ready {
    events: Vec<MirrorEvent>,
    answer: Answer,
}

impl DriverTask {
    /// Serves changes until all handles are gone.
    pub async fn run(mut self) {
        let mut arrived = Vec::new();
        while self.queue.recv_many(&mut arrived, COMMIT_CHANGES_MAX).await > 0 {
            let mut waiting = VecDeque::from(std::mem::take(&mut arrived));
            let mut held = None;
            while held.is_some() || !waiting.is_empty() {
                held = self.group(&mut waiting, held).await;
            }
        }
    }

    /// Makes as many of the waiting changes durable together as fit one commit; gives back the one that would have been too
    /// many, which was decided on what is durable now.
    async fn group(&mut self, waiting: &mut VecDeque<Decide>, mut held: Option<Ready>) -> Option<Ready> {
        let catalog = Rc::clone(&self.shared.catalog.borrow());
        let slots_max = self.shared.slots.slots_max();
        let version_floor = self.log.as_ref().map_or(0, LogWriter::next_offset);
        let room = Room { directories: self.directories.clone(), slots_max, version_floor };
        let mut draft = Draft::new(&catalog, &room);
        let mut answers = Vec::with_capacity(waiting.len());
        let mut partitions = 0;
        loop {
            let ready = match held.take() {
                Some(ready) => ready,
                None => {
                    let Some(decide) = waiting.pop_front() else { break };
                    let (events, answer) = decide(draft.catalog(), &View::new(self.shared.slots.as_ref(), now_ms()));
                    Ready { events, answer }
                }
            };
            partitions += ready.events.iter().map(|event| partitions_of(event, draft.catalog())).sum::<usize>();
            if partitions > COMMIT_PARTITIONS_MAX && !draft.is_empty() {
                held = Some(ready);
                break;
            }
            take_all(&mut draft, ready.events).await;
            answers.push(ready.answer);
        }
        let outcome = match draft.is_empty() {
            true => Ok(()),
            false => self.carry_out(draft.finish()).await.map_err(Arc::new),
        };
        for answer in answers {
            answer(outcome.clone());
        }
        steps::passed(Step::AnswerReleased);
        match (held, outcome) {
            // It was decided on what did not become true.
            (Some(ready), Err(cause)) => {
                (ready.answer)(Err(cause));
                None
            }
            (held, _) => held,
        }
    }

    async fn carry_out(&mut self, decided: Decided) -> Result<(), WriteError> {
        let Decided { catalog, records, send, removed, armed } = decided;
        let is_end = records.iter().any(|record| matches!(record, StateRecord::LastMirrored { .. }));
        steps::passed(if is_end { Step::EndDecided } else { Step::ChangeDecided });
        let (began, count) = (Instant::now(), records.len());
        let persisted = self.persist(records, is_end).await;
        self.shared.tally.commits.count(began.elapsed(), count, persisted.is_ok());
        let records = match persisted {
            Ok(records) => records,
            Err(cause) => {
                error!(%cause, "a change could not be made durable");
                *self.shared.trouble.borrow_mut() = Some(cause.to_string());
                return Err(cause);
            }
        };
        *self.shared.trouble.borrow_mut() = None;
        say_states(&records);
        let catalog = Rc::new(catalog);
        *self.shared.catalog.borrow_mut() = Rc::clone(&catalog);
        steps::passed(if is_end { Step::EndShown } else { Step::CatalogReplaced });
        for mirror in removed {
            self.sender.remove(&mirror).await;
        }
        for mirror in send {
            self.sender.send(&catalog, &mirror).await;
        }
        self.shared.armed.borrow_mut().extend(armed);
        self.compact_if_due(&catalog).await;
        Ok(())
    }

    /// Makes `records` durable, and gives them back.
    async fn persist(&mut self, records: Vec<StateRecord>, is_end: bool) -> Result<Vec<StateRecord>, WriteError> {
        let lost = || WriteError::Poisoned("its end was lost in an earlier failure".to_owned());
        let mut log = self.log.take().ok_or_else(lost)?;
        let written = tokio::task::spawn_blocking(move || {
            log.mark(if is_end { Marks::END } else { Marks::CHANGE });
            let result = log.append(now_ms(), &record::encode_all(&records));
            (log, result.map(|_base_offset| records))
        });
        match written.await {
            Ok((log, result)) => {
                self.log = Some(log);
                result
            }
            Err(cause) => Err(WriteError::Poisoned(cause.to_string())),
        }
    }

    /// An empty log would not say where its offsets go on, so something has to be left.
    async fn compact_if_due(&mut self, catalog: &Catalog) {
        let Some(log) = self.log.take() else { return };
        if !snapshot::is_due(log.size_bytes(), self.compacted_bytes) || catalog.facts() == 0 {
            self.log = Some(log);
            return;
        }
        let (state, catalog) = (self.state.clone(), catalog.clone());
        let compacted = tokio::task::spawn_blocking(move || {
            let result = snapshot::replace(&state, log.next_offset(), now_ms(), catalog.records());
            (log, result)
        });
        match compacted.await {
            Ok((old, Ok(log))) => {
                info!(before_bytes = old.size_bytes(), after_bytes = log.size_bytes(), "compacted the state log");
                self.compacted_bytes = log.size_bytes();
                self.log = Some(log);
            }
            Ok((_, Err(cause @ NotCompacted::Unknown(_)))) => {
                error!(%cause, "the state log takes nothing more until the control plane was started again");
            }
            Ok((old, Err(cause @ NotCompacted::OldStays(_)))) => {
                warn!(%cause, "the state log could not be compacted; the long one stays in use");
                self.compacted_bytes = old.size_bytes();
                self.log = Some(old);
            }
            Err(cause) => error!(%cause, "the state log was lost"),
        }
    }
}

/// Lets the draft take events, and other tasks have their turn meanwhile: nobody sees the draft before it is finished.
async fn take_all(draft: &mut Draft<'_>, events: Vec<MirrorEvent>) {
    for (at, event) in (1..).zip(events) {
        let named = enabled!(Level::DEBUG).then(|| format!("{event:?}"));
        if let Err(why) = draft.take(event) {
            debug!(%why, event = named, "left out an event");
        }
        if at % DECIDE_EVENTS_AT_A_TIME == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// How many partitions an event changes at most.
fn partitions_of(event: &MirrorEvent, catalog: &Catalog) -> usize {
    match event {
        MirrorEvent::Started { topic, .. } | MirrorEvent::Anew { topic, .. } => {
            usize::try_from(topic.partition_count).unwrap_or(0)
        }
        MirrorEvent::Wanted { mirror, topic, .. } => {
            catalog.topic(mirror, topic).map_or(0, |known| known.partitions.len())
        }
        _ => 1,
    }
}

/// One line for each topic and state that partitions came to, and one for each failure.
fn say_states(records: &[StateRecord]) {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<i32>> = BTreeMap::new();
    for record in records {
        let StateRecord::Standing { mirror, topic, partition, standing, .. } = record else { continue };
        if standing.state == MirrorState::Failed {
            let (why, retry_attempt) = (standing.message.as_deref().unwrap_or_default(), standing.retry_attempt);
            warn!(mirror, topic, partition, retry_attempt, why, "FAILED");
        } else {
            groups.entry((mirror, topic, standing.state.name())).or_default().push(*partition);
        }
    }
    for ((mirror, topic, state), partitions) in groups {
        match partitions[..] {
            [partition] => info!(mirror, topic, partition, "{state}"),
            _ => info!(mirror, topic, partitions = partitions.len(), "{state}"),
        }
    }
}
