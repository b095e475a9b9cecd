//! Carries decisions out, always in the order Persist, Send, Answer.
//!
//! Everyone who wants a change hands in a closure that decides against the catalog. The driver takes all that wait, lets
//! them decide one after the other on one draft, makes the draft's records durable with one write and one sync, replaces
//! the catalog, writes assignments and sends orders, and only then lets the answers go. Whoever reads the catalog sees
//! durable state only.

use crate::clock::now_ms;
use crate::limits::{
    COMMIT_CHANGES_MAX, COMMIT_PARTITIONS_MAX, COMMIT_QUEUE_MAX, DECIDE_EVENTS_AT_A_TIME, STATE_LOG_PROBE,
};
use crate::metrics::tally::Tally;
use crate::mirror::catalog::{Catalog, StateRecord};
use crate::mirror::decide::{Decided, Draft, PartitionKey, Room};
use crate::mirror::event::MirrorEvent;
use crate::plane::sender::Sender;
use crate::plane::view::{Slots, View};
use crate::statelog::durable::Durable;
use crate::statelog::writer::WriteError;
use crate::steps::{self, Step};
use crate::sync::book::Book;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
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
    directories: Vec<String>,
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
    sender: Rc<Sender>,
    log: Durable,
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
    /// The log that it came from.
    pub log: Durable,
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
        directories: parts.directories,
        book: Rc::default(),
        tally: Tally::default(),
        node: RefCell::default(),
    });
    let task = DriverTask { queue, shared: Rc::clone(&shared), sender: parts.sender, log: parts.log };
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

    /// The data directories.
    #[must_use]
    pub fn directories(&self) -> Vec<String> {
        self.shared.directories.clone()
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

impl Shared {
    /// The log could be written, or not: said once, shown as long as it lasts. A change that is too large is no trouble of the log.
    fn note(&self, failure: Option<&WriteError>) {
        if matches!(failure, Some(WriteError::TooLarge { .. })) {
            return;
        }
        let why = failure.map(WriteError::to_string);
        if *self.trouble.borrow() == why {
            return;
        }
        match &why {
            Some(why) => error!("no change is taken: {why}"),
            None => info!("the state log can be written again; changes are taken"),
        }
        *self.trouble.borrow_mut() = why;
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
        loop {
            let more = self.queue.recv_many(&mut arrived, COMMIT_CHANGES_MAX);
            let in_trouble = self.shared.trouble.borrow().is_some();
            let count = match in_trouble {
                true => timeout(STATE_LOG_PROBE, more).await,
                false => Ok(more.await),
            };
            match count {
                Ok(0) => return,
                Ok(_) => {}
                Err(_idle) => {
                    let outcome = self.log.probe().await;
                    self.shared.note(outcome.as_ref().err());
                    continue;
                }
            }
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
        let version_floor = self.log.next_offset();
        let room = Room { directories: self.shared.directories.clone(), slots_max, version_floor };
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
        let persisted = self.log.persist(records, is_end).await;
        self.shared.tally.commits.count(began.elapsed(), count, persisted.is_ok());
        self.shared.note(persisted.as_ref().err());
        let records = persisted?;
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
        // What was decided is durable, whatever becomes of the log now.
        if let Err(cause) = self.log.compact_if_due(&catalog).await {
            self.shared.note(Some(&cause));
        }
        Ok(())
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
        MirrorEvent::TakenUp { partitions, .. } => partitions.len(),
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
