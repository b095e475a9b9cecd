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

/// The longest wait that a client is granted.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

const TOPIC_ID_FROM: i16 = 13;

/// A partition as the client names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    topic: TopicKey,
    partition: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TopicKey {
    Name(String),
    Id(Uuid),
}

impl TopicKey {
    fn new(version: i16, name: &str, id: Uuid) -> Self {
        if version >= TOPIC_ID_FROM { Self::Id(id) } else { Self::Name(name.to_owned()) }
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
        listed(version, request),
        &forgotten(version, request),
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

fn listed(version: i16, request: &FetchRequest) -> Vec<(Key, Want)> {
    let mut wants = Vec::new();
    for topic in &request.topics {
        let name = TopicKey::new(version, &topic.topic, topic.topic_id);
        wants.extend(topic.partitions.iter().map(|asked| {
            let want = Want {
                fetch_offset: asked.fetch_offset,
                bytes_max: asked.partition_max_bytes,
                current_leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
            };
            (Key { topic: name.clone(), partition: asked.partition }, want)
        }));
    }
    wants
}

fn forgotten(version: i16, request: &FetchRequest) -> Vec<Key> {
    let mut keys = Vec::new();
    for topic in &request.forgotten_topics_data {
        let name = TopicKey::new(version, &topic.topic, topic.topic_id);
        keys.extend(topic.partitions.iter().map(|&partition| Key { topic: name.clone(), partition }));
    }
    keys
}

fn read_when_due(store: &Store, fetch: &Fetch<Key>, request: &FetchRequest) -> Vec<Read> {
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(WAIT_MAX);
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
        Ok((_, released)) => budget.read(store.batches(), released, want),
        Err(error) => Read::refused(error),
    };
    fetch.wants.iter().map(read).collect()
}

/// The number of the partition and how many of its batches may be fetched.
fn resolve(store: &Store, key: &Key) -> Result<(u32, u64), ErrorCode> {
    match &key.topic {
        TopicKey::Id(id) if *id != store.topic_id() => return Err(ErrorCode::UNKNOWN_TOPIC_ID),
        TopicKey::Name(name) if name != store.topic() => return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        _ => {}
    }
    let partition = u32::try_from(key.partition).ok();
    partition.and_then(|number| Some((number, store.released(number)?))).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

fn write(store: &Store, version: i16, head: &ResponseHead, told: &[(&Key, &Read)]) -> io::Result<Answer> {
    let mut answer = Answer::default();
    let runs = || told.chunk_by(|one, other| one.0.topic == other.0.topic);
    let mut frame = FetchFrame::begin(&mut answer.frame, version, head, runs().count()).map_err(io::Error::other)?;
    for run in runs() {
        match &run[0].0.topic {
            TopicKey::Id(id) => frame.topic(*id, "", run.len()),
            TopicKey::Name(name) => frame.topic(Uuid::ZERO, name, run.len()),
        }
        for (key, read) in run {
            let at = frame.partition(&partition_head(key, read), None);
            frame.partition_end(&PartitionTail {
                diverging: read.diverging.map(|(epoch, end_offset)| EpochEnd { epoch, end_offset }),
                current_leader: None,
            });
            if let (true, Ok((partition, _))) = (read.slice.bytes > 0, resolve(store, key)) {
                answer.splices.push(Splice { at, partition, slice: read.slice });
            }
        }
        frame.topic_end();
    }
    frame.end(&[]).map_err(io::Error::other)?;
    Ok(answer)
}

fn partition_head(key: &Key, read: &Read) -> PartitionHead {
    PartitionHead {
        topic: TopicRef::Name,
        index: key.partition,
        error: read.error,
        high_watermark: read.high_watermark,
        last_stable_offset: read.high_watermark,
        log_start_offset: read.log_start,
        preferred_read_replica: -1,
        // A read is capped at 55 MiB or at one batch of at most 256 MiB.
        records_bytes: read.slice.bytes as u32,
    }
}
