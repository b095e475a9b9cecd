//! Answers Fetch requests: session, wait, frame, batches.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::encode::FetchFrame;
use twinlog_proto::messages::fetch::{EpochEnd, PartitionHead, PartitionTail, ResponseHead, TopicRef};
use twinlog_proto::messages::fetch_request::FetchRequest;

use super::outgoing::{Outgoing, Splice};
use super::read::{Budget, Read, Want};
use super::session::{Fetch, Sessions};
use super::store::Store;
use crate::limits::FETCH_WAIT_MAX;

const TOPIC_ID_FROM: i16 = 13;

/// A partition that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// Its number.
    Known(u32),
    /// There is no such partition; what the client called it.
    Stranger(Box<Stranger>),
}

/// What a client called a partition that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stranger {
    topic: TopicKey,
    partition: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TopicKey {
    Name(String),
    Id(Uuid),
}

impl Key {
    fn new(store: &Store, version: i16, (name, id): (&str, Uuid), partition: i32) -> Self {
        let by_id = version >= TOPIC_ID_FROM;
        let number = if by_id { store.number_of(id, partition) } else { store.number_named(name, partition) };
        number.map_or_else(
            || {
                let topic = if by_id { TopicKey::Id(id) } else { TopicKey::Name(name.to_owned()) };
                Self::Stranger(Box::new(Stranger { topic, partition }))
            },
            Self::Known,
        )
    }

    /// The topic's id and name, and the index, as an answer of any version has them.
    fn named<'a>(&'a self, store: &'a Store) -> (Uuid, &'a str, i32) {
        match self {
            Self::Known(number) => {
                let (topic, index) = store.place(*number);
                (topic.id, &topic.name, index)
            }
            Self::Stranger(stranger) => match &stranger.topic {
                TopicKey::Name(name) => (Uuid::ZERO, name, stranger.partition),
                TopicKey::Id(id) => (*id, "", stranger.partition),
            },
        }
    }
}

/// The frame of an answer and the batches that go into it.
#[derive(Debug, Default)]
pub struct Answer {
    /// The frame without batches, its length field counting them.
    pub frame: Vec<u8>,
    /// The batches.
    pub splices: Vec<Splice>,
}

impl Answer {
    /// Sends it.
    ///
    /// # Errors
    /// When the peer is gone.
    pub fn send(&self, to: &mut impl Write, outgoing: &mut Outgoing, store: &Store) -> io::Result<()> {
        outgoing.send(to, store.batches(), &self.frame, &self.splices)
    }
}

/// Answers a request as soon as it has what it asks for, or when its wait is over.
///
/// # Errors
/// When the answer cannot be written at `version`.
pub fn answer(
    store: &Store,
    sessions: &Mutex<Sessions<Key>>,
    (version, correlation_id): (i16, i32),
    request: &FetchRequest,
) -> io::Result<Answer> {
    let begun = lock(sessions).begin(
        request.session_id,
        request.session_epoch,
        listed(store, version, request),
        &forgotten(store, version, request),
    );
    let fetch = match begun {
        Ok(fetch) => fetch,
        Err(error) => {
            let head = ResponseHead { correlation_id, throttle_ms: 0, error, session_id: 0 };
            return write(store, version, &head, &[]);
        }
    };
    let reads = read_when_due(store, &fetch, request);
    let is_news = lock(sessions).finish(&fetch, &reads);
    let told: Vec<(&Key, &Read)> = (fetch.wants.iter().zip(&reads).zip(is_news))
        .filter_map(|(((key, _), read), news)| news.then_some((key, read)))
        .collect();
    let head = ResponseHead { correlation_id, throttle_ms: 0, error: ErrorCode::NONE, session_id: fetch.session_id };
    write(store, version, &head, &told)
}

fn lock(sessions: &Mutex<Sessions<Key>>) -> std::sync::MutexGuard<'_, Sessions<Key>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listed(store: &Store, version: i16, request: &FetchRequest) -> Vec<(Key, Want)> {
    let mut wants = Vec::new();
    for topic in &request.topics {
        let name = (topic.topic.as_str(), topic.topic_id);
        wants.extend(topic.partitions.iter().map(|asked| {
            let want = Want {
                fetch_offset: asked.fetch_offset,
                bytes_max: asked.partition_max_bytes,
                current_leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
            };
            (Key::new(store, version, name, asked.partition), want)
        }));
    }
    wants
}

fn forgotten(store: &Store, version: i16, request: &FetchRequest) -> Vec<Key> {
    let mut keys = Vec::new();
    for topic in &request.forgotten_topics_data {
        let name = (topic.topic.as_str(), topic.topic_id);
        keys.extend(topic.partitions.iter().map(|&partition| Key::new(store, version, name, partition)));
    }
    keys
}

fn read_when_due(store: &Store, fetch: &Fetch<Key>, request: &FetchRequest) -> Vec<Read> {
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(FETCH_WAIT_MAX);
    let deadline = Instant::now() + wait;
    let bytes_min = u64::try_from(request.min_bytes).unwrap_or(0);
    loop {
        let seen = store.version();
        let reads = read_all(store, fetch, request.max_bytes);
        let bytes: u64 = reads.iter().map(|read| read.slice.bytes).sum();
        let is_due = reads.is_empty() || bytes >= bytes_min || reads.iter().any(Read::is_urgent);
        if is_due || !store.wait_beyond(seen, deadline) {
            return reads;
        }
    }
}

fn read_all(store: &Store, fetch: &Fetch<Key>, bytes_max: i32) -> Vec<Read> {
    let mut budget = Budget::new(bytes_max);
    let read = |(key, want): &(Key, Want)| match resolve(store, key) {
        Ok(released) => budget.read(store.batches(), released, want),
        Err(error) => Read::refused(error),
    };
    fetch.wants.iter().map(read).collect()
}

/// How many batches of the partition may be fetched.
fn resolve(store: &Store, key: &Key) -> Result<u64, ErrorCode> {
    match key {
        Key::Known(number) => store.released(*number).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        Key::Stranger(stranger) => match &stranger.topic {
            TopicKey::Id(id) if store.topic_of(*id).is_none() => Err(ErrorCode::UNKNOWN_TOPIC_ID),
            TopicKey::Id(_) | TopicKey::Name(_) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        },
    }
}

fn write(store: &Store, version: i16, head: &ResponseHead, told: &[(&Key, &Read)]) -> io::Result<Answer> {
    let mut answer = Answer::default();
    let runs = || told.chunk_by(|one, other| same_topic(store, one.0, other.0));
    let mut frame = FetchFrame::begin(&mut answer.frame, version, head, runs().count()).map_err(io::Error::other)?;
    for run in runs() {
        let (id, name, _) = run[0].0.named(store);
        frame.topic(id, name, run.len());
        for (key, read) in run {
            let at = frame.partition(&partition_head(key.named(store).2, read), None);
            frame.partition_end(&PartitionTail {
                diverging: read.diverging.map(|(epoch, end_offset)| EpochEnd { epoch, end_offset }),
                current_leader: None,
            });
            if let (true, Key::Known(number)) = (read.slice.bytes > 0, key) {
                answer.splices.push(Splice { at, partition: *number, slice: read.slice });
            }
        }
        frame.topic_end();
    }
    frame.end(&[]).map_err(io::Error::other)?;
    Ok(answer)
}

fn same_topic(store: &Store, one: &Key, other: &Key) -> bool {
    match (one, other) {
        (Key::Known(one), Key::Known(other)) => one / store.partitions_each() == other / store.partitions_each(),
        (Key::Stranger(one), Key::Stranger(other)) => one.topic == other.topic,
        // A partition that a topic does not have stands beside those that it has.
        (one, other) => one.named(store).0 == other.named(store).0,
    }
}

fn partition_head(index: i32, read: &Read) -> PartitionHead {
    PartitionHead {
        topic: TopicRef::Name,
        index,
        error: read.error,
        high_watermark: read.high_watermark,
        last_stable_offset: read.high_watermark,
        log_start_offset: read.log_start,
        preferred_read_replica: -1,
        // A read is capped at 55 MiB or at one batch of at most 256 MiB.
        records_bytes: read.slice.bytes as u32,
    }
}
