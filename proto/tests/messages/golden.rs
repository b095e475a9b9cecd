//! Bytes that other implementations wrote, or that follow from the documents by hand.

use core::fmt::Debug;
use std::collections::BTreeMap;

use crate::source::Sample;
use crate::{Visitor, encode, every_message};
use twinlog_proto::error::Malformed;
use twinlog_proto::ids::Uuid;
use twinlog_proto::messages::Message;
use twinlog_proto::messages::describe_mirrors::{
    DescribeMirrorsResponse, DescribedMirror, PartitionDetail, TopicPartitions,
};
use twinlog_proto::messages::metadata::{MetadataRequest, MetadataResponse};
use twinlog_proto::messages::pause_mirror_topics::PauseMirrorTopicsResponse;
use twinlog_proto::messages::state_log::{LastMirrorEpochsKey, MirrorPartitionStateValue};
use twinlog_proto::messages::stop_mirror_topics::{
    StopMirrorTopicsRequest, StopMirrorTopicsResponse, TopicData, TopicResult,
};
use twinlog_proto::messages::write_mirror_states::WriteMirrorStatesRequest;
use twinlog_proto::reader::Reader;
use twinlog_proto::writer::Writer;

/// From a stock client's classes: see `golden/messages/MessageVectors.java`.
const STOCK: &str = include_str!("../../golden/messages/stock-4.4.0.txt");

pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

#[test]
fn what_stock_classes_wrote_is_read_and_written_again_byte_for_byte() {
    struct Stock<'a> {
        vectors: BTreeMap<(&'a str, i16), Vec<u8>>,
    }
    impl Visitor for Stock<'_> {
        fn visit<M: Message + Sample + Debug + PartialEq>(&mut self) {
            for version in M::VERSIONS {
                let Some(bytes) = self.vectors.remove(&(M::NAME, version)) else { continue };
                let mut r = Reader::new(M::NAME, &bytes);
                let value = M::decode(&mut r, version).unwrap_or_else(|cause| panic!("{} {version}: {cause}", M::NAME));
                r.finish().unwrap_or_else(|cause| panic!("{} {version}: {cause}", M::NAME));
                assert_eq!(encode(&value, version), bytes, "{} {version}: {value:?}", M::NAME);
            }
        }
    }
    let mut vectors = BTreeMap::new();
    for line in STOCK.lines() {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a line has three words");
        let (name, version, hex) = (word(), word(), word());
        vectors.insert((name, version.parse().expect("a version")), from_hex(hex));
    }
    assert_eq!(vectors.len(), STOCK.lines().count());
    let mut stock = Stock { vectors };
    every_message(&mut stock);
    assert!(stock.vectors.is_empty(), "no such message: {:?}", stock.vectors.keys());
}

#[test]
fn a_stop_has_the_layout_of_the_later_document() {
    let request = StopMirrorTopicsRequest {
        mirror_name: "m1".into(),
        topics: vec![TopicData { topic_id: Uuid([9; 16]), topic_name: "t".into() }],
        patterns: vec!["a.*".into()],
    };
    let expected = ["03", "6d31", "02", &"09".repeat(16), "0274", "00", "02", "04612e2a", "00"].concat();
    assert_eq!(encode(&request, 0), from_hex(&expected));
    let response = StopMirrorTopicsResponse {
        throttle_time_ms: 0,
        error_code: 0,
        error_message: None,
        mirror_name: "m1".into(),
        topics: vec![TopicResult { name: "t".into(), error_code: 3 }],
    };
    let expected = ["00000000", "0000", "00", "036d31", "02", "0274", "0003", "00", "00"].concat();
    assert_eq!(encode(&response, 0), from_hex(&expected));
}

#[test]
fn a_description_at_version_0_has_the_operations_after_the_topics() {
    let partition = PartitionDetail {
        partition_index: 1,
        source_offset: 7,
        destination_offset: 5,
        lag: 2,
        state: "MIRRORING".into(),
        leader_epoch: 4,
        lag_ms: 3,
        ..Default::default()
    };
    let topic = TopicPartitions {
        topic_name: "t".into(),
        partitions: vec![partition],
        topic_id: Uuid([1; 16]),
        ..Default::default()
    };
    let mirror = DescribedMirror { mirror_name: "m".into(), topics: vec![topic], ..Default::default() };
    let response = DescribeMirrorsResponse { mirrors: vec![mirror], ..Default::default() };
    let offsets = "0000000000000007 0000000000000005 0000000000000002".replace(' ', "");
    let partition = ["00000001", &offsets, "0a4d4952524f52494e47", "00"].concat();
    let topic = ["0274", "02", &partition, "00"].concat();
    let expected = ["00000000", "02", "0000", "026d", "02", &topic, "80000000", "00", "00"].concat();
    assert_eq!(encode(&response, 0), from_hex(&expected));
}

#[test]
fn the_earlier_pause_answers_without_message_and_name_and_the_later_with_both() {
    let response = PauseMirrorTopicsResponse {
        error_code: 42,
        error_message: Some("no".into()),
        mirror_name: "m".into(),
        ..Default::default()
    };
    assert_eq!(encode(&response, 0), from_hex("00000000002a0100"));
    assert_eq!(encode(&response, 1), from_hex("00000000002a036e6f026d0100"));
}

#[test]
fn a_partition_state_is_the_later_document_s_followed_by_tags_that_it_skips() {
    let plain = MirrorPartitionStateValue { topic_name: "t".into(), partition: 2, state: 6, ..Default::default() };
    assert_eq!(encode(&plain, 0), from_hex("0274000000020610000000"));
    let more = MirrorPartitionStateValue { last_mirrored_offset: 9, ..plain };
    assert_eq!(encode(&more, 0), from_hex("0274000000020610000001eb07080000000000000009"));
    let key = LastMirrorEpochsKey { mirror_name: "m".into() };
    assert_eq!(encode(&key, 0), from_hex("00016d"));
}

#[test]
fn null_where_the_layout_has_none_is_refused() {
    // Throttle time, then null brokers.
    let bytes = from_hex("0000000000");
    let cause = MetadataResponse::decode(&mut Reader::new("test", &bytes), 9).unwrap_err();
    assert_eq!((cause.at, cause.why), (4, Malformed::UnexpectedNull));
}

#[test]
fn a_value_that_the_version_cannot_carry_is_refused() {
    let mut out = Vec::new();
    let gone = WriteMirrorStatesRequest { removed_topics: vec!["t".into()], ..Default::default() };
    assert!(gone.encode(&mut Writer::new(&mut out), 0).is_ok());
    let cause = gone.encode(&mut Writer::new(&mut out), 1).unwrap_err();
    assert_eq!(cause.what, "WriteMirrorStatesRequest.RemovedTopics");
    let quiet = MetadataRequest { allow_auto_topic_creation: false, ..Default::default() };
    assert!(quiet.encode(&mut Writer::new(&mut out), 3).is_err(), "auto creation cannot be refused before version 4");
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert!(all.encode(&mut Writer::new(&mut out), 0).is_err(), "null says nothing before version 1");
    assert!(all.encode(&mut Writer::new(&mut out), 1).is_ok());
}
