//! One batch of a partition, fetched as a consumer would.

use crate::client::{Client, ClientError};
use crate::handover::tail::Sample;
use std::thread::sleep;
use std::time::Duration;
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use twinlog_proto::records::batch::{BatchHeader, CRC_FROM, HEADER_BYTES};

/// Bytes asked for; the first batch comes whole all the same.
const FETCH_BYTES_MAX: i32 = 1;
/// Longest wait of the broker, ms. What is asked for is there.
const WAIT_MS_MAX: i32 = 500;
/// Bytes read at once.
const PIECE_BYTES: usize = 64 << 10;
/// First Fetch version with topic ids.
const FETCH_WITH_IDS: i16 = 13;
/// A fetch without a session.
const NO_SESSION_EPOCH: i32 = -1;
/// How often a leader that is still starting is asked.
const TRIES_MAX: u32 = 100;
/// The time between.
const PAUSE: Duration = Duration::from_millis(100);

/// The batch that holds `offset`, its checksum computed; why there is none.
///
/// # Errors
/// When the broker cannot be asked.
pub(super) fn first_at(
    client: &mut Client,
    (topic, id, partition): (&str, Uuid, i32),
    offset: i64,
) -> Result<Result<Sample, String>, ClientError> {
    let version = client.version_of(api::FETCH)?;
    let partition =
        FetchPartition { partition, fetch_offset: offset, partition_max_bytes: FETCH_BYTES_MAX, ..Default::default() };
    let mut of = FetchTopic { partitions: vec![partition], ..Default::default() };
    if version >= FETCH_WITH_IDS {
        of.topic_id = id;
    } else {
        topic.clone_into(&mut of.topic);
    }
    let request = FetchRequest {
        max_wait_ms: WAIT_MS_MAX,
        min_bytes: 1,
        max_bytes: FETCH_BYTES_MAX,
        session_epoch: NO_SESSION_EPOCH,
        topics: vec![of],
        ..Default::default()
    };
    let mut tried = 1;
    loop {
        let (code, bytes) = fetch(client, &request, version)?;
        match code {
            ErrorCode::NONE => return Ok(first(&bytes)),
            code if code.is_retriable() && tried < TRIES_MAX => sleep(PAUSE),
            code => return Ok(Err(code.to_string())),
        }
        tried += 1;
    }
}

fn fetch(client: &mut Client, request: &FetchRequest, version: i16) -> Result<(ErrorCode, Vec<u8>), ClientError> {
    let peer = client.peer().to_owned();
    let malformed = |cause| ClientError::Malformed { peer: peer.clone(), cause };
    let mut answer = client.ask_for_stream(request, version)?;
    let mut walker = FetchWalker::new(version, answer.remaining_bytes()).map_err(malformed)?;
    let (mut code, mut bytes, mut buffer) = (ErrorCode::NONE, Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        let read = answer.read(&mut buffer)?;
        let mut piece = &buffer[..read];
        loop {
            let (used, event) = walker.feed(piece).map_err(malformed)?;
            piece = &piece[used..];
            match event {
                FetchEvent::NeedMore => break,
                FetchEvent::Response(head) if !head.error.is_none() => code = head.error,
                FetchEvent::Partition(head) if !head.error.is_none() => code = head.error,
                FetchEvent::Records(records) => bytes.extend_from_slice(records),
                FetchEvent::End { .. } => return Ok((code, bytes)),
                FetchEvent::Response(_)
                | FetchEvent::Partition(_)
                | FetchEvent::PartitionEnd(_)
                | FetchEvent::Node(_) => {}
            }
        }
    }
}

fn first(bytes: &[u8]) -> Result<Sample, String> {
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("the broker sends no batch")?;
    let header = BatchHeader::parse(head);
    let whole = bytes.get(..header.size_bytes()).ok_or("the broker sends half a batch")?;
    let computed = crc32c::crc32c(&whole[CRC_FROM..]);
    if computed != header.crc {
        return Err(format!("the checksum of the batch is {computed}, and it says {}", header.crc));
    }
    Ok(Sample::from(&header))
}
