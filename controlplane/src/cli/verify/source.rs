//! The source cluster, asked again: who leads what, which offsets there are, and the batches.

use super::compare::{CompareError, Comparison};
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;
use twinlog_proto::api;
use twinlog_proto::error::DecodeError;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataRequestTopic};

/// Longest wait of a broker for data, in ms. What is compared is there already.
const WAIT_MS_MAX: i32 = 500;
/// Bytes asked for at once.
const FETCH_BYTES_MAX: i32 = 16 << 20;
/// Bytes read at once.
const PIECE_BYTES: usize = 256 << 10;
/// How often a question is tried that a moving or starting leader refuses.
const ATTEMPTS_MAX: u32 = 40;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(250);
/// Answers without a batch after which the rest of the range is taken for empty.
const EMPTY_ANSWERS_MAX: u32 = 3;
/// ListOffsets: the log start.
const EARLIEST: i64 = -2;
/// ListOffsets: the high watermark.
const LATEST: i64 = -1;
/// First Fetch version with topic ids.
const FETCH_WITH_IDS: i16 = 13;
/// A fetch without a session.
const NO_SESSION_EPOCH: i32 = -1;

/// A partition of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionAt<'a> {
    /// The topic's name.
    pub(super) topic: &'a str,
    /// Its id.
    pub(super) topic_id: Uuid,
    /// The partition.
    pub(super) partition: i32,
}

/// Connections to a source cluster.
#[derive(Debug)]
pub(super) struct Source {
    bootstrap: Vec<String>,
    brokers: HashMap<i32, String>,
    leaders: HashMap<(String, i32), i32>,
    topic_ids: HashMap<String, Uuid>,
    clients: HashMap<i32, Client>,
    piece: Vec<u8>,
}

/// Why one try failed.
enum Try {
    /// The next one may not.
    Again(String),
    /// There is no use.
    Stop(Failure),
}

impl From<ClientError> for Try {
    fn from(cause: ClientError) -> Self {
        match cause {
            ClientError::Io { .. } => Self::Again(cause.to_string()),
            other => Self::Stop(not_comparable(other)),
        }
    }
}

impl From<DecodeError> for Try {
    fn from(cause: DecodeError) -> Self {
        Self::Stop(not_comparable(cause))
    }
}

impl From<CompareError> for Try {
    fn from(cause: CompareError) -> Self {
        match cause {
            CompareError::Io(cause) => {
                Self::Stop(Failure::new("the local log cannot be read", cause, "check the directory and its disk"))
            }
            CompareError::Source(cause) => Self::Stop(not_comparable(cause)),
        }
    }
}

fn not_comparable(cause: impl std::fmt::Display) -> Failure {
    Failure::new("the source cannot be compared", cause, "check that it is the Kafka cluster that is mirrored")
}

impl Source {
    /// A source that is first reached at one of `bootstrap`.
    pub(super) fn new(bootstrap: Vec<String>) -> Self {
        Self {
            bootstrap,
            brokers: HashMap::new(),
            leaders: HashMap::new(),
            topic_ids: HashMap::new(),
            clients: HashMap::new(),
            piece: vec![0; PIECE_BYTES],
        }
    }

    /// The topic's id at the source; none when there is no such topic.
    ///
    /// # Errors
    /// When the source cannot be asked.
    pub(super) fn topic_id(&mut self, topic: &str) -> Result<Option<Uuid>, Failure> {
        if !self.topic_ids.contains_key(topic) {
            self.retried(|source| source.refresh(topic))?;
        }
        Ok(self.topic_ids.get(topic).copied())
    }

    /// Log start and high watermark.
    ///
    /// # Errors
    /// When the source cannot be asked.
    pub(super) fn offsets(&mut self, at: PartitionAt<'_>) -> Result<(i64, i64), Failure> {
        let earliest = self.retried(|source| source.offset(at, EARLIEST))?;
        Ok((earliest, self.retried(|source| source.offset(at, LATEST))?))
    }

    /// Fetches until the comparison is done.
    ///
    /// # Errors
    /// When the source cannot be asked, or what it sends is damaged.
    pub(super) fn feed(&mut self, at: PartitionAt<'_>, comparison: &mut Comparison) -> Result<(), Failure> {
        let mut empty = 0;
        while !comparison.is_done() && empty < EMPTY_ANSWERS_MAX {
            let before = comparison.next_offset();
            self.retried(|source| source.fetch(at, comparison))?;
            empty = if comparison.next_offset() == before { empty + 1 } else { 0 };
        }
        Ok(())
    }

    fn retried<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T, Try>) -> Result<T, Failure> {
        let mut tried = 1;
        loop {
            match attempt(self) {
                Ok(value) => return Ok(value),
                Err(Try::Stop(failure)) => return Err(failure),
                Err(Try::Again(why)) if tried == ATTEMPTS_MAX => {
                    return Err(Failure::new("the source does not answer", why, "check its address and that it runs"));
                }
                Err(Try::Again(_)) => {
                    tried += 1;
                    self.leaders.clear();
                    self.clients.clear();
                    sleep(PAUSE);
                }
            }
        }
    }

    /// Asks a bootstrap server who leads `topic`.
    fn refresh(&mut self, topic: &str) -> Result<(), Try> {
        let mut why = "there is no bootstrap server".to_owned();
        for server in self.bootstrap.clone() {
            let mut client = match Client::connect(&server) {
                Ok(client) => client,
                Err(cause) => {
                    why = cause.to_string();
                    continue;
                }
            };
            let name = Some(topic.to_owned());
            let topics = Some(vec![MetadataRequestTopic { name, ..Default::default() }]);
            let answer =
                client.ask(&MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() })?;
            self.brokers = answer.brokers.into_iter().map(|b| (b.node_id, format!("{}:{}", b.host, b.port))).collect();
            for found in answer.topics {
                let code = ErrorCode(found.error_code);
                let name = found.name.unwrap_or_default();
                match code {
                    ErrorCode::NONE => self.topic_ids.insert(name.clone(), found.topic_id),
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => self.topic_ids.remove(&name),
                    code if code.is_retriable() => return Err(Try::Again(format!("topic {name}: {code}"))),
                    code => return Err(Try::Stop(not_comparable(format_args!("topic {name}: {code}")))),
                };
                let leaders = found.partitions.into_iter().filter(|p| p.leader_id >= 0);
                self.leaders.extend(leaders.map(|p| ((name.clone(), p.partition_index), p.leader_id)));
            }
            return Ok(());
        }
        Err(Try::Again(why))
    }

    fn leader(&mut self, topic: &str, partition: i32) -> Result<i32, Try> {
        let key = (topic.to_owned(), partition);
        if !self.leaders.contains_key(&key) {
            self.refresh(topic)?;
        }
        let leader = self.leaders.get(&key).copied();
        let leader = leader.ok_or_else(|| Try::Again(format!("{topic}-{partition} has no leader")))?;
        if !self.clients.contains_key(&leader) {
            let address = self.brokers.get(&leader);
            let address = address.ok_or_else(|| Try::Again(format!("broker {leader} is not listed")))?;
            self.clients.insert(leader, Client::connect(address)?);
        }
        Ok(leader)
    }

    fn offset(&mut self, at: PartitionAt<'_>, timestamp: i64) -> Result<i64, Try> {
        let leader = self.leader(at.topic, at.partition)?;
        let partition = ListOffsetsPartition { partition_index: at.partition, timestamp, ..Default::default() };
        let topics = vec![ListOffsetsTopic { name: at.topic.to_owned(), partitions: vec![partition] }];
        let Some(client) = self.clients.get_mut(&leader) else { return Err(Try::Again("no connection".to_owned())) };
        let answer = client.ask(&ListOffsetsRequest { replica_id: -1, topics, ..Default::default() })?;
        let found = answer.topics.iter().flat_map(|topic| &topic.partitions).next();
        let found = found.ok_or_else(|| Try::Again("the answer names no partition".to_owned()))?;
        settled(at, ErrorCode(found.error_code))?;
        Ok(found.offset)
    }

    fn fetch(&mut self, at: PartitionAt<'_>, comparison: &mut Comparison) -> Result<(), Try> {
        let leader = self.leader(at.topic, at.partition)?;
        // Back in the map only when the answer was read to its end.
        let Some(mut client) = self.clients.remove(&leader) else { return Err(Try::Again("no connection".to_owned())) };
        let version = client.version_of(api::FETCH)?;
        let request = request(at, version, comparison.next_offset());
        let mut answer = client.ask_for_stream(&request, version)?;
        let mut walker = FetchWalker::new(version, answer.remaining_bytes())?;
        let mut error = ErrorCode::NONE;
        'frame: loop {
            let bytes = answer.read(&mut self.piece)?;
            let mut piece = &self.piece[..bytes];
            loop {
                let (used, event) = walker.feed(piece)?;
                piece = &piece[used..];
                match event {
                    FetchEvent::NeedMore => break,
                    FetchEvent::Response(head) if !head.error.is_none() => error = head.error,
                    FetchEvent::Partition(head) if !head.error.is_none() => error = head.error,
                    FetchEvent::Records(records) => comparison.take(records)?,
                    FetchEvent::PartitionEnd(_) => comparison.end_of_response(),
                    FetchEvent::End { .. } => break 'frame,
                    FetchEvent::Response(_) | FetchEvent::Partition(_) | FetchEvent::Node(_) => {}
                }
            }
        }
        self.clients.insert(leader, client);
        if error == ErrorCode::OFFSET_OUT_OF_RANGE {
            let earliest = self.offset(at, EARLIEST)?;
            if earliest > comparison.next_offset() {
                // Its retention went on while we compared.
                comparison.skip_to(earliest);
                return Ok(());
            }
        }
        settled(at, error)
    }
}

fn request(at: PartitionAt<'_>, version: i16, fetch_offset: i64) -> FetchRequest {
    let partition = FetchPartition {
        partition: at.partition,
        fetch_offset,
        partition_max_bytes: FETCH_BYTES_MAX,
        ..Default::default()
    };
    let mut topic = FetchTopic { partitions: vec![partition], ..Default::default() };
    if version >= FETCH_WITH_IDS {
        topic.topic_id = at.topic_id;
    } else {
        at.topic.clone_into(&mut topic.topic);
    }
    FetchRequest {
        max_wait_ms: WAIT_MS_MAX,
        min_bytes: 1,
        max_bytes: FETCH_BYTES_MAX,
        session_epoch: NO_SESSION_EPOCH,
        topics: vec![topic],
        ..Default::default()
    }
}

fn settled(at: PartitionAt<'_>, code: ErrorCode) -> Result<(), Try> {
    let said = || format!("{}-{}: {code}", at.topic, at.partition);
    match code {
        ErrorCode::NONE => Ok(()),
        code if code.is_retriable() => Err(Try::Again(said())),
        _ => Err(Try::Stop(not_comparable(said()))),
    }
}
