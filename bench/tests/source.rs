//! The embedded source over real sockets behaves as a stock broker does: frames, limits, waits, sessions, bad requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bench::source::batches::Shape;
use bench::source::broker::{Broker, Config};
use twinlog_proto::api;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::frame::{decode_response, encode_request};
use twinlog_proto::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::fetch::{PartitionHead, PartitionTail, ResponseHead};
use twinlog_proto::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use twinlog_proto::messages::find_coordinator::FindCoordinatorRequest;
use twinlog_proto::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use twinlog_proto::messages::metadata::MetadataRequest;
use twinlog_proto::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use twinlog_proto::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use twinlog_proto::messages::{Message, Request};

const BATCH_BYTES: u32 = 4096;
const EPOCH: i32 = 2;

fn source(batches_each: u64) -> Broker {
    Broker::start(Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        topic: "orders".into(),
        topics: 1,
        topics_with_data: 1,
        partitions: 3,
        batches_each,
        shape: Shape { seed: 42, batch_bytes: BATCH_BYTES, record_bytes: 100, leader_epoch: EPOCH },
        core: None,
    })
    .unwrap()
}

fn connect(source: &Broker) -> TcpStream {
    let socket = TcpStream::connect(source.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

fn read_frame(socket: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut frame).unwrap();
    frame
}

fn ask<R: Request>(socket: &mut TcpStream, version: i16, request: &R) -> R::Response {
    let mut out = Vec::new();
    encode_request(&mut out, version, 77, Some("test"), request).unwrap();
    socket.write_all(&out).unwrap();
    let (correlation_id, response) = decode_response(&read_frame(socket), version).unwrap();
    assert_eq!(correlation_id, 77);
    response
}

/// A decoded Fetch response.
struct Fetched {
    head: ResponseHead,
    partitions: Vec<(PartitionHead, Vec<u8>, PartitionTail)>,
}

fn fetch(socket: &mut TcpStream, version: i16, request: &FetchRequest) -> Fetched {
    let mut out = Vec::new();
    encode_request(&mut out, version, 5, None, request).unwrap();
    socket.write_all(&out).unwrap();
    let frame = read_frame(socket);
    let mut walker = FetchWalker::new(version, frame.len()).unwrap();
    let (mut rest, mut head, mut partitions) = (&frame[..], None, Vec::new());
    loop {
        let (taken, event) = walker.feed(rest).unwrap();
        rest = &rest[taken..];
        match event {
            FetchEvent::Response(found) => head = Some(found),
            FetchEvent::Partition(found) => partitions.push((found, Vec::new(), PartitionTail::default())),
            FetchEvent::Records(bytes) => partitions.last_mut().unwrap().1.extend_from_slice(bytes),
            FetchEvent::PartitionEnd(tail) => partitions.last_mut().unwrap().2 = tail,
            FetchEvent::Node(_) => {}
            FetchEvent::End { trailing_bytes } => {
                assert_eq!((trailing_bytes, rest.len()), (0, 0));
                return Fetched { head: head.unwrap(), partitions };
            }
            FetchEvent::NeedMore => panic!("the frame ended early"),
        }
    }
}

fn request(source: &Broker, wants: &[(i32, i64)]) -> FetchRequest {
    let partitions = wants.iter().map(|&(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: EPOCH,
        ..Default::default()
    });
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: "orders".into(),
            topic_id: source.store().topics()[0].id,
            partitions: partitions.collect(),
        }],
        ..Default::default()
    }
}

fn expected(source: &Broker, partition: u32, batches: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    batches.for_each(|index| source.store().batches().append_batch(partition, index, &mut bytes));
    bytes
}

#[test]
fn every_fetch_version_returns_the_computed_bytes() {
    let source = source(5);
    let mut socket = connect(&source);
    for version in 4..=17 {
        let fetched =
            fetch(&mut socket, version, &request(&source, &[(0, 0), (2, source.store().batches().base_offset(3))]));
        assert_eq!((fetched.head.correlation_id, fetched.head.error, fetched.head.session_id), (5, ErrorCode::NONE, 0));
        assert_eq!(fetched.partitions.len(), 2, "version {version}");
        assert!(fetched.partitions[0].1 == expected(&source, 0, 0..5));
        assert!(fetched.partitions[1].1 == expected(&source, 2, 3..5));
        assert_eq!(fetched.partitions[1].0.high_watermark, source.store().batches().base_offset(5));
    }
}

#[test]
fn the_byte_limit_cuts_the_last_batch_and_the_first_comes_whole() {
    let source = source(5);
    let mut socket = connect(&source);
    let mut limited = request(&source, &[(0, 0), (1, 0)]);
    limited.max_bytes = 10_000;
    let fetched = fetch(&mut socket, 12, &limited);
    assert!(fetched.partitions[0].1 == expected(&source, 0, 0..5)[..10_000]);
    assert_eq!((fetched.partitions[1].0.records_bytes, fetched.partitions[1].0.error), (0, ErrorCode::NONE));
    limited.max_bytes = 1;
    let fetched = fetch(&mut socket, 12, &limited);
    assert!(fetched.partitions[0].1 == expected(&source, 0, 0..1));
}

#[test]
fn a_fetch_waits_for_its_bytes_and_is_woken_by_a_new_batch() {
    let source = source(0);
    let mut socket = connect(&source);
    let mut waiting = request(&source, &[(0, 0), (1, 0)]);
    (waiting.max_wait_ms, waiting.min_bytes) = (40, 1);
    let answer = fetch(&mut socket, 13, &waiting);
    assert!(answer.partitions.len() == 2 && answer.partitions.iter().all(|partition| partition.1.is_empty()));

    (waiting.max_wait_ms, waiting.min_bytes) = (8_000, 2 * BATCH_BYTES.cast_signed());
    // Whoever does not wait answers without both batches; whoever is not woken answers at the end, with what was there at first.
    let fetched = std::thread::scope(|scope| {
        scope.spawn(|| {
            for partition in [0, 2, 1] {
                std::thread::sleep(Duration::from_millis(10));
                source.store().raise([partition].into_iter());
            }
        });
        fetch(&mut socket, 13, &waiting)
    });
    assert!(
        fetched.partitions[0].1 == expected(&source, 0, 0..1),
        "one batch is not enough, another partition's does not count"
    );
    assert!(fetched.partitions[1].1 == expected(&source, 1, 0..1));
}

#[test]
fn an_error_answers_at_once() {
    let source = source(1);
    let mut socket = connect(&source);
    let mut wrong = request(&source, &[(0, 0), (3, 0), (1, i64::MAX)]);
    (wrong.max_wait_ms, wrong.min_bytes) = (8_000, i32::MAX);
    let fetched = fetch(&mut socket, 13, &wrong);
    let errors: Vec<_> = fetched.partitions.iter().map(|partition| partition.0.error).collect();
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::OFFSET_OUT_OF_RANGE]);
    wrong.topics[0].topic_id.0[3] ^= 1;
    assert_eq!(fetch(&mut socket, 13, &wrong).partitions[0].0.error, ErrorCode::UNKNOWN_TOPIC_ID);
}

#[test]
fn a_session_answers_only_news_and_survives_a_new_connection() {
    let source = source(1);
    let end = source.store().batches().base_offset(1);
    let mut opening = request(&source, &[(0, 0), (1, end), (2, end)]);
    opening.session_epoch = 0;
    let opened = fetch(&mut connect(&source), 17, &opening);
    assert!(opened.head.session_id > 0 && opened.partitions.len() == 3);

    let mut next = request(&source, &[(0, end)]);
    (next.session_id, next.session_epoch) = (opened.head.session_id, 1);
    let mut socket = connect(&source);
    assert!(fetch(&mut socket, 17, &next).partitions.is_empty(), "nothing is new");
    source.store().raise([2].into_iter());
    (next.session_epoch, next.topics) = (2, vec![]);
    let fetched = fetch(&mut socket, 17, &next);
    assert_eq!(fetched.partitions.len(), 1);
    assert_eq!(fetched.partitions[0].0.index, 2);
    assert!(fetched.partitions[0].1 == expected(&source, 2, 1..2));
    assert_eq!(fetch(&mut socket, 17, &next).head.error, ErrorCode::INVALID_FETCH_SESSION_EPOCH);
    next.session_id += 1;
    assert_eq!(fetch(&mut socket, 17, &next).head.error, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn a_log_of_an_older_epoch_diverges_in_band() {
    let source = source(3);
    let mut older = request(&source, &[(0, 40)]);
    older.topics[0].partitions[0].last_fetched_epoch = EPOCH - 1;
    let fetched = fetch(&mut connect(&source), 17, &older);
    let diverging = fetched.partitions[0].2.diverging.unwrap();
    assert_eq!((diverging.epoch, diverging.end_offset, fetched.partitions[0].1.len()), (EPOCH - 1, 0, 0));
}

#[test]
fn metadata_offsets_and_epochs_are_answered_at_every_version() {
    let source = source(2);
    let end = source.store().batches().base_offset(2);
    let mut socket = connect(&source);
    for version in 0..=13 {
        let topics = if version == 0 { Some(vec![]) } else { None };
        let metadata = ask(&mut socket, version, &MetadataRequest { topics, ..Default::default() });
        assert_eq!(
            (metadata.brokers[0].port, metadata.topics[0].partitions.len()),
            (source.address().port().into(), 3)
        );
    }
    for version in 1..=11 {
        let offset = |socket: &mut TcpStream, timestamp| {
            let partitions = vec![ListOffsetsPartition { partition_index: 1, timestamp, ..Default::default() }];
            let topics = vec![ListOffsetsTopic { name: "orders".into(), partitions }];
            let answer = ask(socket, version, &ListOffsetsRequest { topics, ..Default::default() });
            answer.topics[0].partitions[0].offset
        };
        let in_time = bench::source::batches::FIRST_TIMESTAMP_MS + 7;
        let offsets = [-1, -2, -3, in_time, i64::MAX].map(|timestamp| offset(&mut socket, timestamp));
        assert_eq!(offsets, [end, 0, end - 1, 7, -1], "version {version}");
    }
    for version in 2..=4 {
        let epoch = |socket: &mut TcpStream, leader_epoch| {
            let partitions = vec![OffsetForLeaderPartition { leader_epoch, ..Default::default() }];
            let topics = vec![OffsetForLeaderTopic { topic: "orders".into(), partitions }];
            let answer = ask(socket, version, &OffsetForLeaderEpochRequest { topics, ..Default::default() });
            (answer.topics[0].partitions[0].leader_epoch, answer.topics[0].partitions[0].end_offset)
        };
        let ends = [EPOCH, EPOCH - 1, EPOCH + 1].map(|leader_epoch| epoch(&mut socket, leader_epoch));
        assert_eq!(ends, [(EPOCH, end), (EPOCH - 1, 0), (-1, -1)]);
    }
    for version in 0..=6 {
        let answer = ask(
            &mut socket,
            version,
            &FindCoordinatorRequest {
                coordinator_keys: if version >= 4 { vec!["g".into()] } else { vec![] },
                ..Default::default()
            },
        );
        let code = if version >= 4 { answer.coordinators[0].error_code } else { answer.error_code };
        assert_eq!(code, ErrorCode::COORDINATOR_NOT_AVAILABLE.0);
    }
}

#[test]
fn an_api_versions_request_from_the_future_is_answered_at_version_0() {
    let source = source(0);
    let mut socket = connect(&source);
    let mut out = Vec::new();
    encode_request(&mut out, 4, 9, None, &ApiVersionsRequest::default()).unwrap();
    out[6..8].copy_from_slice(&99_i16.to_be_bytes());
    socket.write_all(&out).unwrap();
    let (_, answer) = decode_response::<ApiVersionsResponse>(&read_frame(&mut socket), 4).unwrap();
    assert_eq!(answer.error_code, ErrorCode::UNSUPPORTED_VERSION.0);
    assert_eq!(answer.api_keys.iter().map(|key| key.api_key).collect::<Vec<_>>(), [api::API_VERSIONS]);
    let current = ask(&mut socket, 4, &ApiVersionsRequest::default());
    assert_eq!(current.api_keys.len(), 9);
}

#[test]
fn cut_or_flipped_requests_close_the_connection_and_hurt_nobody_else() {
    let source = source(2);
    let mut frames = Vec::new();
    for version in [4, 12, 17] {
        let mut out = Vec::new();
        encode_request(&mut out, version, 1, Some("x"), &request(&source, &[(0, 0)])).unwrap();
        frames.push(out);
    }
    let mut out = Vec::new();
    encode_request(&mut out, 12, 1, None, &MetadataRequest::default()).unwrap();
    frames.push(out);
    for frame in &frames {
        for at in 4..frame.len() {
            let mut short = frame[..at].to_vec();
            short[..4].copy_from_slice(&(at as u32 - 4).to_be_bytes());
            let mut flipped = frame.clone();
            flipped[at] ^= 0x80;
            for bad in [short, flipped] {
                let mut socket = connect(&source);
                socket.write_all(&bad).unwrap();
                socket.shutdown(std::net::Shutdown::Write).unwrap();
                // An answer or a closed connection: both are fine, a hang is not.
                let mut answer = Vec::new();
                drop(socket.read_to_end(&mut answer));
            }
        }
    }
    for bad in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 0], &[0, 0, 0, 8, 0, 99, 0, 0, 0, 0, 0, 1]] {
        let mut socket = connect(&source);
        socket.write_all(bad).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        drop(socket.read_to_end(&mut answer));
        assert!(answer.is_empty());
    }
    assert_eq!(fetch(&mut connect(&source), 17, &request(&source, &[(0, 0)])).partitions.len(), 1);
}

#[test]
fn produce_is_shown_but_refused_so_that_every_client_can_read() {
    let source = source(1);
    let mut socket = connect(&source);
    let partition_data = vec![PartitionProduceData { index: 1, records: Some(vec![0; 70]) }];
    let topic_data = vec![TopicProduceData { name: "orders".into(), partition_data, ..Default::default() }];
    let request = ProduceRequest { acks: 1, topic_data, ..Default::default() };
    for version in 3..=13 {
        let answer = ask(&mut socket, version, &request);
        let refused = &answer.responses[0].partition_responses[0];
        assert_eq!((refused.index, refused.error_code), (1, ErrorCode::POLICY_VIOLATION.0));
    }
}

#[test]
fn requests_sent_ahead_are_answered_one_after_the_other() {
    let source = source(2);
    let mut socket = connect(&source);
    let mut out = Vec::new();
    for correlation_id in 0..20 {
        encode_request(&mut out, 1, correlation_id, None, &MetadataRequest::default()).unwrap();
    }
    socket.write_all(&out).unwrap();
    for correlation_id in 0..20 {
        let (answered, _) =
            decode_response::<<MetadataRequest as Request>::Response>(&read_frame(&mut socket), 1).unwrap();
        assert_eq!(answered, correlation_id);
    }
    assert_eq!(MetadataRequest::API_KEY, api::METADATA);
}
