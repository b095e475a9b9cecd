//! Looks for the leaders of a mirror's partitions: one task per mirror and core, on a connection of its own.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::FaultCode;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};

use super::crew::Crew;
use super::partition::Partition;
use super::plan::Doing;
use super::react::{Lasting, Reaction, react};
use super::retry::Backoff;
use crate::disk::Disk;
use crate::fault::{Fault, RetryCause};
use crate::limits::{CONNECT_PAUSE_MS_MAX, METADATA_PAUSE_MS_MIN, METADATA_REFRESH_MS, PARTITION_TRIES_MAX};
use crate::metrics::Counter;
use crate::wire::Transport;
use crate::wire::conn::Conn;
use crate::wire::leaders::Leader;

/// The scout of one mirror; returns when the mirror has left the core.
pub async fn run<T: Transport, D: Disk>(crew: Rc<Crew<T, D>>) {
    let pause = Backoff::new(METADATA_PAUSE_MS_MIN, CONNECT_PAUSE_MS_MAX);
    let mut scout = Scout { crew, conn: None, moves: 0, pause, looked_at_all: None };
    let mut longest = Duration::from_millis(METADATA_REFRESH_MS);
    loop {
        scout.crew.refresh_wanted(longest).await;
        if scout.crew.is_over() {
            return;
        }
        scout.crew.take_refresh();
        if scout.crew.mirroring().is_empty() {
            scout.conn = None;
            longest = Duration::from_millis(METADATA_REFRESH_MS);
            continue;
        }
        let all_led = scout.look().await;
        if all_led {
            scout.pause.reset();
            longest = Duration::from_millis(METADATA_REFRESH_MS);
            tokio::time::sleep(Duration::from_millis(METADATA_PAUSE_MS_MIN)).await;
        } else {
            longest = Duration::ZERO;
            let random = scout.crew.shared.random();
            tokio::time::sleep(Duration::from_millis(scout.pause.next_ms(random))).await;
        }
    }
}

struct Scout<T: Transport, D: Disk> {
    crew: Rc<Crew<T, D>>,
    conn: Option<Conn<T>>,
    /// Changes of the way to the source before it was made.
    moves: u64,
    pause: Backoff,
    /// When it last asked for everything.
    looked_at_all: Option<Instant>,
}

impl<T: Transport, D: Disk> Scout<T, D> {
    /// Asks once, at the first door that opens; true when every partition has a leader.
    async fn look(&mut self) -> bool {
        let partitions = self.concerned();
        match self.ask(&partitions).await {
            Ok(answer) => {
                self.crew.say(FaultCode::NONE);
                self.take(&answer, &partitions)
            }
            Err(cause) => {
                self.conn = None;
                self.unreachable(&cause, &partitions);
                false
            }
        }
    }

    /// The partitions to ask for: those that wait for a word about their leader, if it is they who want it, else all. An answer
    /// for fifty thousand partitions takes its time at both ends.
    fn concerned(&mut self) -> Vec<Rc<Partition<D>>> {
        let (now, all) = (Instant::now(), self.crew.mirroring());
        let fresh = self.looked_at_all.is_some_and(|at| now - at < Duration::from_millis(METADATA_REFRESH_MS));
        if fresh {
            let waiting: Vec<_> = all.iter().filter(|partition| partition.waits_for_leader()).cloned().collect();
            if !waiting.is_empty() {
                return waiting;
            }
        }
        self.looked_at_all = Some(now);
        all
    }

    async fn ask(&mut self, partitions: &[Rc<Partition<D>>]) -> Result<MetadataResponse, RetryCause> {
        let mut names: Vec<_> = partitions.iter().map(|p| Rc::clone(&p.place.topic)).collect();
        names.sort_unstable();
        names.dedup();
        let topics =
            names.iter().map(|name| MetadataRequestTopic { name: Some(name.to_string()), ..Default::default() });
        let request = MetadataRequest {
            topics: Some(topics.collect()),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        if std::mem::replace(&mut self.moves, self.crew.moves()) != self.crew.moves() {
            self.conn = None;
        }
        if let Some(conn) = &mut self.conn {
            let version = conn.versions().metadata;
            match conn.call(version, &request).await {
                Ok(answer) => return checked(answer),
                Err(cause) => {
                    tracing::debug!(mirror = &*self.crew.name, "the metadata connection is lost: {cause}");
                    self.conn = None;
                }
            }
        }
        let mut last = RetryCause::Closed;
        for door in self.crew.doors() {
            match Conn::<T>::open(&door, &self.crew.conn_settings(), &self.crew.shared.dog).await {
                Ok(mut conn) => {
                    self.crew.shared.metrics.add(Counter::Connects, 1);
                    let version = conn.versions().metadata;
                    match conn.call(version, &request).await {
                        Ok(answer) => {
                            self.conn = Some(conn);
                            return checked(answer);
                        }
                        Err(cause) => last = cause,
                    }
                }
                Err(cause) => {
                    self.crew.shared.metrics.add(Counter::ConnectFailures, 1);
                    tracing::debug!(mirror = &*self.crew.name, %door, "no metadata: {cause}");
                    last = cause;
                }
            }
        }
        Err(last)
    }

    fn unreachable(&self, cause: &RetryCause, partitions: &[Rc<Partition<D>>]) {
        let code = match cause {
            RetryCause::Unsupported(_) => FaultCode::UNSUPPORTED,
            RetryCause::Malformed(_) | RetryCause::FrameTooLarge { .. } | RetryCause::Correlation { .. } => {
                FaultCode::PROTOCOL
            }
            _ => FaultCode::UNREACHABLE,
        };
        tracing::warn!(
            mirror = &*self.crew.name,
            "no broker of the source tells who leads what, trying again: {cause}"
        );
        self.crew.say(code);
        for partition in partitions.iter().filter(|p| p.seat.borrow().is_none() && is_fetching(p)) {
            if partition.suffer(code) {
                self.crew.shared.publish(partition);
            }
        }
    }

    fn take(&self, answer: &MetadataResponse, partitions: &[Rc<Partition<D>>]) -> bool {
        if self.is_another_cluster(answer, partitions) {
            return true;
        }
        self.crew.with_brokers(|brokers| {
            if ErrorCode(answer.error_code) == ErrorCode::REBOOTSTRAP_REQUIRED {
                brokers.forget();
            }
            for broker in &answer.brokers {
                brokers.learn(broker.node_id, &broker.host, broker.port);
            }
        });
        let topics: HashMap<&str, &MetadataResponseTopic> =
            answer.topics.iter().filter_map(|topic| Some((topic.name.as_deref()?, topic))).collect();
        let mut all_led = true;
        for partition in partitions {
            if !is_fetching(partition) {
                // Its log is not open yet: only the leader is kept, so that nobody needs to ask again then.
                self.expect(topics.get(&*partition.place.topic).copied(), partition);
                continue;
            }
            all_led &= match topics.get(&*partition.place.topic) {
                Some(topic) => self.take_partition(topic, partition),
                None => self.suffers(partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
        }
        all_led
    }

    fn expect(&self, topic: Option<&MetadataResponseTopic>, partition: &Partition<D>) {
        let Some(topic) = topic.filter(|topic| ErrorCode(topic.error_code).is_none()) else { return };
        let same = topic.topic_id.is_zero() || topic.topic_id == partition.place.topic_id;
        let found = find(topic, partition.place.index).filter(|found| found.leader_id >= 0 && same);
        if let (Some(found), None) = (found, partition.leader()) {
            partition.set_leader(Leader { broker: found.leader_id, epoch: found.leader_epoch });
        }
    }

    /// True when the partition needs no further look soon.
    fn take_partition(&self, topic: &MetadataResponseTopic, partition: &Rc<Partition<D>>) -> bool {
        let place = &partition.place;
        if !ErrorCode(topic.error_code).is_none() {
            return self.suffers(partition, ErrorCode(topic.error_code));
        }
        if !topic.topic_id.is_zero() && !place.topic_id.is_zero() && topic.topic_id != place.topic_id {
            let what = format!(
                "topic {} has the id {} at the source, this mirror holds {}; what is here stays as it is: stop the \
                 topic and start it from scratch to mirror the new one",
                place.topic, topic.topic_id, place.topic_id
            );
            self.crew.fail(partition, Fault::partition(FaultCode::RECREATED, what));
            return true;
        }
        let Some(found) = find(topic, place.index) else {
            return self.suffers(partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        if found.leader_id < 0 {
            return self.suffers(partition, ErrorCode::LEADER_NOT_AVAILABLE);
        }
        // An error beside a leader (some replica is not available) is no matter of ours.
        self.crew.lead(partition, Leader { broker: found.leader_id, epoch: found.leader_epoch });
        // A batch has come from an epoch that the metadata does not know yet.
        !partition.is_fenced()
    }

    /// An error of one partition: shown, and fatal when it lasts and its kind says so.
    fn suffers(&self, partition: &Rc<Partition<D>>, error: ErrorCode) -> bool {
        let tries = self.crew.pause(partition);
        let (code, fails) = match react(error) {
            Reaction::Refresh(Lasting::Fails(code)) | Reaction::Wait(Lasting::Fails(code)) => (code, true),
            Reaction::Report(code) => (code, false),
            _ => (FaultCode::NO_LEADER, false),
        };
        if fails && tries > PARTITION_TRIES_MAX {
            let what = format!("the source answers {error} for {} since {tries} tries", partition.place.topic);
            self.crew.fail(partition, Fault::partition(code, what));
            return true;
        }
        if partition.suffer(code) {
            tracing::warn!(?partition, "the source answers {error}; trying again");
            self.crew.shared.publish(partition);
        }
        false
    }

    fn is_another_cluster(&self, answer: &MetadataResponse, partitions: &[Rc<Partition<D>>]) -> bool {
        let pinned = self.crew.cluster_id();
        let found = answer.cluster_id.as_deref().unwrap_or("");
        if pinned.is_empty() || found.is_empty() || pinned == found {
            return false;
        }
        for partition in partitions.iter().filter(|partition| is_fetching(partition)) {
            let what = format!("the bootstrap servers belong to cluster {found}, this mirror's source is {pinned}");
            self.crew.fail(partition, Fault::partition(FaultCode::CLUSTER, what));
        }
        self.crew.say(FaultCode::CLUSTER);
        true
    }
}

fn is_fetching<D: Disk>(partition: &Rc<Partition<D>>) -> bool {
    partition.have().doing == Doing::Mirroring
}

/// Partitions come sorted from every broker we know; a topic may have many thousand.
fn find(topic: &MetadataResponseTopic, index: i32) -> Option<&MetadataResponsePartition> {
    let expected = usize::try_from(index).ok().and_then(|at| topic.partitions.get(at));
    expected
        .filter(|found| found.partition_index == index)
        .or_else(|| topic.partitions.iter().find(|found| found.partition_index == index))
}

fn checked(answer: MetadataResponse) -> Result<MetadataResponse, RetryCause> {
    match ErrorCode(answer.error_code) {
        ErrorCode::NONE | ErrorCode::REBOOTSTRAP_REQUIRED => Ok(answer),
        ErrorCode(code) => Err(RetryCause::Refused { request: MetadataRequest::NAME, code }),
    }
}
