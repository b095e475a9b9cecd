//! A pass proves: what a stock broker sent over TCP is read and written back byte for byte, and its Fetch responses give the same
//! events and batches however they are cut.

mod common;

use common::golden;
use twinlog_proto::frame::{decode_response, encode_response};
use twinlog_proto::messages::Message;
use twinlog_proto::messages::api_versions::ApiVersionsResponse;
use twinlog_proto::messages::describe_cluster::DescribeClusterResponse;
use twinlog_proto::messages::describe_configs::DescribeConfigsResponse;
use twinlog_proto::messages::fetch::walker::{FetchEvent, FetchWalker};
use twinlog_proto::messages::find_coordinator::FindCoordinatorResponse;
use twinlog_proto::messages::list_offsets::ListOffsetsResponse;
use twinlog_proto::messages::metadata::MetadataResponse;
use twinlog_proto::messages::offset_for_leader_epoch::OffsetForLeaderEpochResponse;
use twinlog_proto::records::batches::{BatchEvent, BatchLimits, BatchWalker};

fn recorded(name: &str, version: i16) -> Vec<u8> {
    golden(&format!("broker-4.4.0/{name}-v{version}.bin"))
}

/// Reads the frame, writes it again, and refuses every proper prefix.
fn same_again<M: Message + PartialEq + std::fmt::Debug>(name: &str, version: i16) -> M {
    let frame = recorded(name, version);
    let (correlation_id, message) = decode_response::<M>(&frame, version).unwrap();
    let mut out = Vec::new();
    encode_response(&mut out, version, correlation_id, &message).unwrap();
    assert_eq!(out[4..], frame, "{name} at version {version}");
    for end in 0..frame.len() {
        assert!(decode_response::<M>(&frame[..end], version).is_err(), "{name} v{version} cut at {end}");
    }
    message
}

#[test]
fn every_recorded_answer_is_read_and_written_back_byte_for_byte() {
    for version in [3, 4] {
        let answer: ApiVersionsResponse = same_again("api_versions", version);
        assert!(answer.api_keys.iter().any(|api| api.api_key == 1 && api.max_version >= 17), "{answer:?}");
    }
    for version in 9..=13 {
        let answer: MetadataResponse = same_again("metadata", version);
        assert_eq!(answer.topics[0].name.as_deref(), Some("orders"));
        assert_eq!((answer.brokers[0].port, answer.topics[0].partitions.len()), (23092, 2));
        assert_eq!(answer.topics[0].topic_id.is_zero(), version < 10);
    }
    for version in 6..=10 {
        let answer: ListOffsetsResponse = same_again("list_offsets", version);
        assert_eq!(answer.topics[0].partitions.iter().map(|partition| partition.offset).sum::<i64>(), 3);
    }
    let _: OffsetForLeaderEpochResponse = same_again("offset_for_leader_epoch", 4);
    let _: DescribeClusterResponse = same_again("describe_cluster", 2);
    let _: DescribeConfigsResponse = same_again("describe_configs", 4);
    let _: FindCoordinatorResponse = same_again("find_coordinator", 4);
}

/// Records in verified batches of a frame that arrives in two pieces.
fn records_of(version: i16, frame: &[u8], cut: usize) -> i64 {
    let mut fetch = FetchWalker::new(version, frame.len()).unwrap();
    let mut batches = BatchWalker::new(BatchLimits { batch_bytes_max: 1 << 20 });
    let mut records = 0;
    for piece in [&frame[..cut], &frame[cut..]] {
        let mut rest = piece;
        loop {
            let (taken, event) = fetch.feed(rest).unwrap();
            rest = &rest[taken..];
            match event {
                FetchEvent::NeedMore => break,
                FetchEvent::Partition(head) => {
                    assert!(head.error.is_none());
                    batches.reset();
                }
                FetchEvent::Records(bytes) => records += count(&mut batches, bytes),
                FetchEvent::End { .. } => return records,
                _ => {}
            }
        }
    }
    panic!("version {version} cut at {cut} has no end")
}

fn count(batches: &mut BatchWalker, mut bytes: &[u8]) -> i64 {
    let mut records = 0;
    loop {
        let fed = batches.feed(bytes).unwrap();
        bytes = &bytes[fed.consumed..];
        match fed.event {
            None => return records,
            Some(BatchEvent::Batch { header, .. }) => records += i64::from(header.record_count),
            Some(BatchEvent::Header(_)) => {}
        }
    }
}

#[test]
fn a_recorded_fetch_response_gives_its_three_records_wherever_it_is_cut() {
    for version in 12..=17 {
        let frame = recorded("fetch", version);
        for cut in 0..=frame.len() {
            assert_eq!(records_of(version, &frame, cut), 3, "version {version} cut at {cut}");
        }
    }
}
