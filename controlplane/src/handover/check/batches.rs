//! Batches of many partitions, fetched as a consumer would, in few large requests.

use super::asking::Asking;
use crate::client::{Client, ClientError};
use crate::failure::Failure;
use crate::handover::tail::Sample;
use crate::limits::CLIENT_RESPONSE_BYTES_MAX;
use std::collections::BTreeSet;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::TopicRef;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES};

/// Bytes of batches that are asked for at once; a larger batch is asked for alone.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Partitions of one request.
const REQUEST_PARTITIONS_MAX: usize = 500;
/// Asked for of a batch whose size is not known, and whenever one is asked for alone: the first batch of an answer comes whole.
const FEWEST_BYTES: i32 = 1;
/// Longest wait of the broker, ms. What is asked for is there.
const WAIT_MS_MAX: i32 = 500;
/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;
/// First Fetch version with topic ids.
const FETCH_WITH_IDS: i16 = 13;
/// A fetch without a session.
const NO_SESSION_EPOCH: i32 = -1;

/// A batch to fetch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) topic: &'a str,
    pub(super) id: Uuid,
    pub(super) partition: i32,
    /// An offset in it.
    pub(super) offset: i64,
    /// Its size in bytes; 0 when that is not known.
    pub(super) size_bytes: u32,
}

/// What came of one.
type Found = Result<Sample, String>;

/// What a request brought of one partition.
enum Came {
    Batch(Found),
    /// Not yet: its leader is still starting.
    Later(ErrorCode),
    /// Nothing, though there is something: others have used up the bytes of the answer.
    Nothing,
}

/// The batches that hold the offsets, their checksums computed; why there is none.
///
/// # Errors
/// When the broker cannot be asked.
pub(super) fn fetch(broker: &mut Asking, wanted: &[Wanted<'_>]) -> Result<Vec<Found>, Failure> {
    let mut all: Vec<Option<Found>> = vec![None; wanted.len()];
    let is_small = |at: &usize| (1..REQUEST_BYTES_MAX).contains(&wanted[*at].size_bytes);
    let (mut together, mut alone): (Vec<usize>, Vec<usize>) = (0..wanted.len()).partition(is_small);
    loop {
        let mut later = Vec::new();
        let chunks = chunks(wanted, &together).into_iter().chain(alone.iter().map(|at| vec![*at]));
        let mut left = Vec::new();
        for chunk in chunks.collect::<Vec<_>>() {
            let asked: Vec<Wanted<'_>> = chunk.iter().map(|at| wanted[*at]).collect();
            let (came, throttled) = broker.with(|client| ask(client, &asked))?;
            for (at, came) in chunk.iter().zip(came) {
                match came {
                    Came::Batch(found) => all[*at] = Some(found),
                    Came::Later(code) => later.push((*at, code.to_string())),
                    Came::Nothing if throttled => later.push((*at, "the broker holds the answer back".to_owned())),
                    Came::Nothing if chunk.len() == 1 => all[*at] = Some(Err("the broker sends no batch".to_owned())),
                    Came::Nothing => left.push(*at),
                }
            }
        }
        if !later.is_empty() && !broker.wait() {
            later.drain(..).for_each(|(at, why)| all[at] = Some(Err(why)));
        }
        if left.is_empty() && later.is_empty() {
            let untold = || Err("the broker says nothing of it".to_owned());
            return Ok(all.into_iter().map(|found| found.unwrap_or_else(untold)).collect());
        }
        (together, alone) = later.into_iter().map(|(at, _)| at).partition(is_small);
        // What others left no room for is asked for alone: then it comes whatever its size.
        alone.extend(left);
    }
}

/// The places of `wanted`, as many in a request as it may hold: a partition cannot stand in it twice.
fn chunks(wanted: &[Wanted<'_>], places: &[usize]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let (mut bytes, mut held) = (0_u32, BTreeSet::new());
    for at in places {
        let one = &wanted[*at];
        let fits = bytes.saturating_add(one.size_bytes) <= REQUEST_BYTES_MAX
            && held.len() < REQUEST_PARTITIONS_MAX
            && !held.contains(&(one.topic, one.partition));
        if all.is_empty() || !fits {
            all.push(Vec::new());
            (bytes, held) = (0, BTreeSet::new());
        }
        bytes = bytes.saturating_add(one.size_bytes);
        held.insert((one.topic, one.partition));
        all.last_mut().into_iter().for_each(|chunk| chunk.push(*at));
    }
    all
}

fn request(asked: &[Wanted<'_>], version: i16) -> FetchRequest {
    let alone = asked.len() == 1;
    let size = |one: &Wanted<'_>| if alone { FEWEST_BYTES } else { i32::try_from(one.size_bytes).unwrap_or(i32::MAX) };
    let mut topics: Vec<FetchTopic> = Vec::new();
    for (at, one) in asked.iter().enumerate() {
        let partition = FetchPartition {
            partition: one.partition,
            fetch_offset: one.offset,
            partition_max_bytes: size(one),
            ..FetchPartition::default()
        };
        if at == 0 || asked[at - 1].topic != one.topic {
            let mut topic = FetchTopic::default();
            if version >= FETCH_WITH_IDS {
                topic.topic_id = one.id;
            } else {
                one.topic.clone_into(&mut topic.topic);
            }
            topics.push(topic);
        }
        topics.last_mut().into_iter().for_each(|topic| topic.partitions.push(partition.clone()));
    }
    FetchRequest {
        max_wait_ms: WAIT_MS_MAX,
        min_bytes: 1,
        max_bytes: asked.iter().map(size).fold(0, i32::saturating_add),
        session_epoch: NO_SESSION_EPOCH,
        topics,
        ..FetchRequest::default()
    }
}

/// Asks for all of them at once; whether the broker holds back what a quota does not allow.
fn ask(client: &mut Client, asked: &[Wanted<'_>]) -> Result<(Vec<Came>, bool), ClientError> {
    let version = client.version_of(api::FETCH)?;
    let peer = client.peer().to_owned();
    let malformed = |cause| ClientError::Malformed { peer: peer.clone(), cause };
    let mut answer = client.ask_for_stream(&request(asked, version), version)?;
    if answer.remaining_bytes() > CLIENT_RESPONSE_BYTES_MAX {
        let why = format!("a frame of {} bytes is not believed", answer.remaining_bytes());
        return Err(ClientError::Unexpected { peer, why });
    }
    let mut walker = FetchWalker::new(version, answer.remaining_bytes()).map_err(malformed)?;
    let mut came: Vec<Came> = asked.iter().map(|_| Came::Nothing).collect();
    let (mut throttled, mut of_all) = (false, ErrorCode::NONE);
    let (mut of, mut code, mut bytes) = (None, ErrorCode::NONE, Vec::new());
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = answer.read(&mut buffer)?;
        let mut piece = &buffer[..read];
        loop {
            let (used, event) = walker.feed(piece).map_err(malformed)?;
            piece = &piece[used..];
            match event {
                FetchEvent::NeedMore => break,
                FetchEvent::Response(head) => (throttled, of_all) = (head.throttle_ms > 0, head.error),
                FetchEvent::Partition(head) => {
                    let is_it = |one: &Wanted<'_>| match head.topic {
                        TopicRef::Id(id) => one.id == id,
                        TopicRef::Name => walker.topic_name() == Some(one.topic),
                    };
                    of = asked.iter().position(|one| one.partition == head.index && is_it(one));
                    code = head.error;
                    bytes.clear();
                }
                FetchEvent::Records(records) => bytes.extend_from_slice(records),
                FetchEvent::PartitionEnd(_) => of.into_iter().for_each(|of| came[of] = judge(code, &bytes)),
                FetchEvent::End { .. } => {
                    if !of_all.is_none() {
                        came = asked.iter().map(|_| judge(of_all, &[])).collect();
                    }
                    return Ok((came, throttled));
                }
                FetchEvent::Node(_) => {}
            }
        }
    }
}

fn judge(code: ErrorCode, bytes: &[u8]) -> Came {
    match code {
        ErrorCode::NONE if bytes.is_empty() => Came::Nothing,
        ErrorCode::NONE => Came::Batch(first(bytes)),
        code if code.is_retriable() => Came::Later(code),
        code => Came::Batch(Err(code.to_string())),
    }
}

fn first(bytes: &[u8]) -> Found {
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("the broker sends no batch")?;
    let header = BatchHeader::parse(head);
    let whole = bytes.get(..header.size_bytes()).ok_or("the broker sends half a batch")?;
    let computed = crc32c::crc32c(&whole[CRC_FROM..]);
    if computed != header.crc {
        return Err(format!("the checksum of the batch is {computed}, and it says {}", header.crc));
    }
    Ok(Sample::from(&header))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(topic: &'static str, partition: i32, offset: i64, size_bytes: u32) -> Wanted<'static> {
        Wanted { topic, id: Uuid::default(), partition, offset, size_bytes }
    }

    #[test]
    fn a_request_holds_no_partition_twice_and_no_more_bytes_than_it_may() {
        let half = REQUEST_BYTES_MAX / 2;
        let all = [wanted("a", 0, 0, 100), wanted("a", 1, 0, 100), wanted("a", 0, 9, 100), wanted("b", 0, 9, 100)];
        assert_eq!(chunks(&all, &[0, 1, 2, 3]), [vec![0, 1], vec![2, 3]]);
        let large = [wanted("a", 0, 0, half), wanted("a", 1, 0, half), wanted("a", 2, 0, 1)];
        assert_eq!(chunks(&large, &[0, 1, 2]), [vec![0, 1], vec![2]]);
        let many: Vec<Wanted<'_>> = (0..1001).map(|partition| wanted("a", partition, 0, 1)).collect();
        let sizes: Vec<usize> = chunks(&many, &(0..1001).collect::<Vec<_>>()).iter().map(Vec::len).collect();
        assert_eq!(sizes, [500, 500, 1]);
        assert!(chunks(&all, &[]).is_empty());
    }

    #[test]
    fn a_batch_is_asked_for_with_its_size_and_alone_with_as_little_as_there_is() {
        let all = [wanted("a", 0, 7, 100), wanted("a", 1, 8, 50), wanted("b", 0, 9, 30)];
        let asked = request(&all, FETCH_WITH_IDS);
        let sizes: Vec<Vec<i32>> =
            asked.topics.iter().map(|t| t.partitions.iter().map(|p| p.partition_max_bytes).collect()).collect();
        assert_eq!((asked.max_bytes, sizes), (180, vec![vec![100, 50], vec![30]]));
        let one = request(&all[..1], FETCH_WITH_IDS);
        assert_eq!((one.max_bytes, one.topics[0].partitions[0].partition_max_bytes), (1, 1));
    }

    #[test]
    fn what_is_no_whole_batch_is_told() {
        assert!(matches!(judge(ErrorCode::NONE, &[]), Came::Nothing));
        assert!(matches!(judge(ErrorCode::NOT_LEADER_OR_FOLLOWER, &[]), Came::Later(_)));
        assert!(matches!(judge(ErrorCode::OFFSET_OUT_OF_RANGE, &[]), Came::Batch(Err(_))));
        assert!(first(&[0; HEADER_BYTES - 1]).unwrap_err().contains("no batch"));
    }
}
