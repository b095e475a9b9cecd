//! The record path of one connection: what to ask, the request, the answer into the logs. One task per connection.
//!
//! A turn is: look at the partitions that were touched or whose pause is over; ask for offsets where a partition needs them;
//! fetch; take the answer (`receive.rs`). The next request goes out as soon as the answer is consumed: it does not wait for
//! the disk, the pool of leases is the brake.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::ids::Uuid;

use super::crew::Crew;
use super::partition::{Need, Partition};
use super::progress::Asked;
use super::retry::Backoff;
use super::settings::MirrorSettings;
use super::team::Port;
use crate::core::shared::now_ms;
use crate::disk::Disk;
use crate::fault::RetryCause;
use crate::limits::{CONNECT_PAUSE_MS, CONNECT_PAUSE_MS_MAX, TICK_MS, UNREACHABLE_TRIES};
use crate::metrics::Counter;
use crate::wire::Transport;
use crate::wire::conn::Conn;
use crate::wire::fetch_request::{FetchBuilder, TopicName};
use crate::wire::session::{Session, Want};

/// See the module text.
pub struct Pump<T: Transport, D: Disk> {
    pub(super) crew: Rc<Crew<T, D>>,
    pub(super) port: Rc<Port<D>>,
    pub(super) conn: Option<Conn<T>>,
    pub(super) session: Session,
    pub(super) members: Vec<Member<D>>,
    by_token: HashMap<u32, u32>,
    by_place: HashMap<(u32, i32), u32>,
    pub(super) topics: Vec<TopicName>,
    topic_ids: HashMap<Uuid, u32>,
    topic_names: HashMap<Rc<str>, u32>,
    builder: FetchBuilder,
    /// Members that wait for the end of a pause.
    waiting: Vec<u32>,
    /// Members whose source has not answered since they began to fetch.
    pub(super) unmet: Vec<u32>,
    /// Members whose source forgot records that we still have.
    pub(super) starts_moved: Vec<u32>,
    /// Members that need offsets from their leader.
    pub(super) asking: Vec<u32>,
    /// The regions of the last answer were large.
    pub(super) large: bool,
    /// The connection is to be made anew after this answer.
    pub(super) reconnect: bool,
    pause: Backoff,
    /// When the request under way was sent and answered.
    pub(super) asked_at: Asked,
    /// That request began a session.
    pub(super) asked_all: bool,
    /// Requests so far: each full one begins at another topic.
    rotation: u32,
    /// The partitions answer with ids that this pump's version does not carry.
    pub(super) names_only: bool,
}

/// A partition on this connection.
pub(super) struct Member<D: Disk> {
    pub(super) partition: Rc<Partition<D>>,
    pub(super) topic: u32,
    /// The last request whose answer for it was taken.
    pub(super) answered: u32,
    /// It is one of [`Pump::starts_moved`].
    pub(super) start_moved: bool,
    /// It is one of [`Pump::asking`].
    pub(super) is_asking: bool,
    /// It is one of [`Pump::unmet`].
    pub(super) is_unmet: bool,
    is_waiting: bool,
}

impl<T: Transport, D: Disk> std::fmt::Debug for Pump<T, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("port", &self.port).finish_non_exhaustive()
    }
}

impl<T: Transport, D: Disk> Pump<T, D> {
    /// A pump without connection or partitions.
    #[must_use]
    pub fn new(crew: Rc<Crew<T, D>>, port: Rc<Port<D>>) -> Self {
        Self {
            crew,
            port,
            conn: None,
            session: Session::default(),
            members: Vec::new(),
            by_token: HashMap::new(),
            by_place: HashMap::new(),
            topics: Vec::new(),
            topic_ids: HashMap::new(),
            topic_names: HashMap::new(),
            builder: FetchBuilder::default(),
            waiting: Vec::new(),
            unmet: Vec::new(),
            starts_moved: Vec::new(),
            asking: Vec::new(),
            large: false,
            reconnect: false,
            pause: Backoff::new(CONNECT_PAUSE_MS, CONNECT_PAUSE_MS_MAX),
            asked_at: Asked::default(),
            asked_all: false,
            rotation: 0,
            names_only: false,
        }
    }

    /// Runs until the port is closed.
    pub async fn run(mut self) {
        while !self.port.is_closed() {
            let asks_offsets = self.look_around();
            if self.session.is_empty() && !asks_offsets {
                if !self.members.iter().any(|member| self.sits_here(member)) {
                    self.disconnect();
                }
                self.port.rung(self.idle_for()).await;
                continue;
            }
            match self.turn(asks_offsets).await {
                Ok(()) => self.pause.reset(),
                Err(cause) => self.lost(&cause).await,
            }
        }
        self.disconnect();
    }

    async fn turn(&mut self, asks_offsets: bool) -> Result<(), RetryCause> {
        if self.conn.is_none() {
            self.connect().await?;
        }
        if asks_offsets {
            self.ask_offsets().await?;
            self.look_around();
        }
        if !self.session.is_empty() {
            self.fetch().await?;
        }
        if std::mem::take(&mut self.reconnect) {
            self.disconnect();
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), RetryCause> {
        let Some(endpoint) = self.crew.with_brokers(|brokers| brokers.endpoint(self.port.broker).cloned()) else {
            self.crew.refresh();
            return Err(RetryCause::Closed);
        };
        let conn = Conn::open(&endpoint, &self.crew.conn_settings(), &self.crew.shared.dog).await?;
        self.crew.shared.metrics.add(Counter::Connects, 1);
        tracing::info!(mirror = &*self.crew.name, broker = self.port.broker, number = self.port.number, %endpoint, "connected");
        self.port.set_watch(Some(Rc::clone(conn.watch())));
        self.conn = Some(conn);
        if self.port.is_closed() {
            return Err(RetryCause::Ended);
        }
        Ok(())
    }

    fn disconnect(&mut self) {
        self.conn = None;
        self.port.set_watch(None);
        self.session.start_over();
    }

    async fn lost(&mut self, cause: &RetryCause) {
        self.disconnect();
        if self.port.is_closed() {
            return;
        }
        self.crew.shared.metrics.add(Counter::ConnectFailures, 1);
        let (mirror, broker) = (&*self.crew.name, self.port.broker);
        if self.pause.tries() == 0 {
            tracing::warn!(mirror, broker, "connection lost, trying again: {cause}");
        } else {
            tracing::debug!(mirror, broker, tries = self.pause.tries(), "still no connection: {cause}");
        }
        // The broker may be gone for good: somebody else leads then.
        self.crew.refresh();
        let pause_ms = self.pause.next_ms(self.crew.shared.random());
        if self.pause.tries() >= UNREACHABLE_TRIES {
            for member in self.members.iter().filter(|member| self.sits_here(member)) {
                if member.partition.need(Instant::now()).is_some() && member.partition.suffer(FaultCode::UNREACHABLE) {
                    self.crew.shared.publish(&member.partition);
                }
            }
        }
        self.port.pause(Duration::from_millis(pause_ms)).await;
    }

    /// Takes in what was touched and what has waited long enough; true when some partition needs offsets.
    fn look_around(&mut self) -> bool {
        let now = Instant::now();
        while let Some(partition) = self.port.next_touched() {
            self.look_at(&partition, now);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&member| {
            if self.members[member as usize].partition.retry_at().is_some_and(|at| at > now) {
                return true;
            }
            self.members[member as usize].is_waiting = false;
            self.settle(member, now);
            false
        });
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        self.follow_starts(now);
        !self.asking.is_empty()
    }

    fn look_at(&mut self, partition: &Rc<Partition<D>>, now: Instant) {
        let sits_here = partition.seat.borrow().as_ref().is_some_and(|seat| Rc::ptr_eq(seat, &self.port));
        let known = self.by_token.get(&partition.token).copied();
        let known = known.filter(|&member| Rc::ptr_eq(&self.members[member as usize].partition, partition));
        match known {
            Some(member) => self.settle(member, now),
            None if sits_here => {
                let member = self.join(partition);
                self.settle(member, now);
            }
            None => {}
        }
    }

    fn join(&mut self, partition: &Rc<Partition<D>>) -> u32 {
        let place = &partition.place;
        let topic = if let Some(&topic) = self.topic_names.get(&place.topic) {
            // The topic came back under another id: its partitions are others, the number goes on.
            self.topics[topic as usize].id = place.topic_id;
            topic
        } else {
            let topic = self.topics.len() as u32;
            self.topics.push(TopicName { name: Rc::clone(&place.topic), id: place.topic_id });
            self.topic_names.insert(Rc::clone(&place.topic), topic);
            topic
        };
        self.topic_ids.insert(place.topic_id, topic);
        self.names_only |= place.topic_id.is_zero();
        if let Some(member) = self.take_over(topic, partition) {
            return member;
        }
        let member = self.members.len() as u32;
        self.members.push(Member {
            partition: Rc::clone(partition),
            topic,
            answered: 0,
            start_moved: false,
            is_asking: false,
            is_unmet: false,
            is_waiting: false,
        });
        if let Some(earlier) = self.by_place.insert((topic, place.index), member) {
            self.session.want(earlier, None);
        }
        self.by_token.insert(partition.token, member);
        member
    }

    /// A partition that left and came back has its old number: numbers that nobody frees would grow for ever. Under another id it
    /// is another one to the source.
    fn take_over(&mut self, topic: u32, partition: &Rc<Partition<D>>) -> Option<u32> {
        let member = *self.by_place.get(&(topic, partition.place.index))?;
        let entry = &mut self.members[member as usize];
        if entry.partition.place.topic_id != partition.place.topic_id {
            return None;
        }
        entry.partition = Rc::clone(partition);
        self.by_token.insert(partition.token, member);
        Some(member)
    }

    /// Sets what the member asks for from what its partition is now.
    pub(super) fn settle(&mut self, member: u32, now: Instant) {
        let entry = &self.members[member as usize];
        let sits_here = self.sits_here(entry);
        let want = if sits_here { entry.partition.want(now, self.settings().partition_bytes_max) } else { None };
        self.session.want(member, want);
        let entry = &mut self.members[member as usize];
        if want.is_some() && !entry.partition.is_met() && !std::mem::replace(&mut entry.is_unmet, true) {
            self.unmet.push(member);
        }
        if want.is_some() || !sits_here {
            return;
        }
        if entry.partition.retry_at().is_some_and(|at| at > now) {
            if !std::mem::replace(&mut entry.is_waiting, true) {
                self.waiting.push(member);
            }
        } else if asks_offsets(&entry.partition, now) && !std::mem::replace(&mut entry.is_asking, true) {
            self.asking.push(member);
        }
    }

    /// What the request under way asks for the member, unless the answer was taken already.
    pub(super) fn asked(&self, member: u32) -> Option<Want> {
        let entry = &self.members[member as usize];
        if entry.answered == self.rotation { None } else { self.session.asked(member) }
    }

    /// The answer for the member is taken: whatever else the source says of it in this answer is not.
    pub(super) fn take_asked(&mut self, member: u32) -> Option<Want> {
        let asked = self.asked(member);
        self.members[member as usize].answered = self.rotation;
        asked
    }

    pub(super) fn sits_here(&self, member: &Member<D>) -> bool {
        member.partition.seat.borrow().as_ref().is_some_and(|seat| Rc::ptr_eq(seat, &self.port))
    }

    pub(super) fn settings(&self) -> Rc<MirrorSettings> {
        self.crew.settings()
    }

    /// The member that an answer names by topic and index.
    pub(super) fn member(&self, topic: Option<u32>, index: i32) -> Option<u32> {
        self.by_place.get(&(topic?, index)).copied()
    }

    pub(super) fn topic_by_id(&self, id: Uuid) -> Option<u32> {
        self.topic_ids.get(&id).copied()
    }

    pub(super) fn topic_by_name(&self, name: &str) -> Option<u32> {
        self.topic_names.get(name).copied()
    }

    /// Writes and sends the Fetch request; gives its version and correlation id.
    pub(super) async fn send_fetch(&mut self) -> Result<(i16, i32), RetryCause> {
        let settings = self.settings();
        // Never 0, which is "no request".
        self.rotation = self.rotation.wrapping_add(1).max(1);
        let (rotation, topics, members) = (self.rotation, &self.topics, &self.members);
        let count = topics.len().max(1) as u32;
        let builder = RefCell::new(&mut self.builder);
        builder.borrow_mut().clear();
        let at = |member: u32| {
            let entry = &members[member as usize];
            (entry.topic, &topics[entry.topic as usize], entry.partition.place.index)
        };
        let ask = self.session.begin(
            |member| (at(member).0.wrapping_add(rotation) % count, member),
            |member, want| {
                let (number, topic, index) = at(member);
                builder.borrow_mut().list(number, topic, index, want);
            },
            |member| {
                let (number, topic, index) = at(member);
                builder.borrow_mut().forget(number, topic, index);
            },
        );
        self.asked_all = ask.session_epoch == FULL;
        let largest = self.session.largest();
        // A whole number of partitions' shares, so that the last one is not cut at the limit of the response.
        let bytes_max = (settings.response_bytes_max / largest).max(1).saturating_mul(largest);
        let request = self.builder.finish(ask, settings.fetch_wait_ms, settings.fetch_bytes_min, bytes_max);
        let Some(conn) = &mut self.conn else { return Err(RetryCause::Closed) };
        let offered = conn.versions().fetch;
        let version = if self.names_only { NAMES_VERSION_MAX.min(offered) } else { offered };
        let hold = Duration::from_millis(settings.fetch_wait_ms.max(0).cast_unsigned().into());
        let correlation_id = conn.send(version, request, hold).await?;
        self.crew.shared.metrics.add(Counter::FetchRequests, 1);
        self.asked_at.sent_ms = now_ms();
        Ok((version, correlation_id))
    }

    fn idle_for(&self) -> Duration {
        let now = Instant::now();
        let next = self.waiting.iter().filter_map(|&m| self.members[m as usize].partition.retry_at()).min();
        next.map_or(IDLE, |at| at.saturating_duration_since(now).max(Duration::from_millis(TICK_MS)))
    }
}

/// Whether the partition needs an offset from its leader.
pub(super) fn asks_offsets<D: Disk>(partition: &Partition<D>, now: Instant) -> bool {
    matches!(partition.need(now), Some(Need::Start | Need::Range))
}

/// The session epoch of a request that begins a session.
const FULL: i32 = 0;
/// The newest Fetch version that names topics.
const NAMES_VERSION_MAX: i16 = 12;
/// How long a pump without work sleeps when nobody rings.
const IDLE: Duration = Duration::from_secs(60);
