//! The first record that the broker of a drill takes, acknowledged by all replicas: with it a hand-over is over for clients.

use super::interrupt;
use crate::client::{Client, ClientError};
use crate::clock::now_ms;
use crate::failure::Failure;
use crate::handover::journal::{Journal, Topic};
use crate::mirror::internal::FOLLOWED;
use serde::Serialize;
use std::thread::sleep;
use std::time::{Duration, Instant};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use twinlog_proto::records::plain;

/// All replicas that are in sync.
const ACKS_ALL: i16 = -1;
/// How long the broker may wait for them, ms.
const REPLICAS_MS_MAX: i32 = 10_000;
/// The time between two tries, while leaders are still being told.
const PAUSE: Duration = Duration::from_millis(10);

/// A record that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Produced {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Where the partition ended that was handed over: the offset that it must have.
    pub end_offset: i64,
}

/// Has the first partition of the first topic take a record.
pub(super) fn first(address: &str, journal: &Journal, limit: Duration) -> Result<Produced, Failure> {
    let of_clients = |topic: &&Topic| !FOLLOWED.contains(&topic.topic.as_str());
    let found = journal.topics.iter().find(of_clients).and_then(|topic| Some((topic, topic.partitions.first()?)));
    let Some((topic, partition)) = found else {
        let remedy = "`twinlog topics start MIRROR --topic T` starts some";
        return Err(Failure::new("no record is written", "the mirror has no topics of clients", remedy));
    };
    let mut records = Vec::new();
    let value = (Some(&b"twinlog drill"[..]), Some(&b"written by a drill"[..]));
    plain::encode(&mut records, plain::header(0, -1, 0, now_ms()), [value]);
    let request = ProduceRequest {
        acks: ACKS_ALL,
        timeout_ms: REPLICAS_MS_MAX,
        topic_data: vec![TopicProduceData {
            name: topic.topic.clone(),
            topic_id: topic.topic_id.parse().unwrap_or_default(),
            partition_data: vec![PartitionProduceData { index: partition.partition, records: Some(records) }],
        }],
        ..ProduceRequest::default()
    };
    let name = format!("{}-{}", topic.topic, partition.partition);
    let unasked = |cause: ClientError| {
        Failure::new(format_args!("{name} takes no record"), cause, "look into the broker's output")
    };
    let mut client = Client::connect(address).map_err(unasked)?;
    let begun = Instant::now();
    loop {
        interrupt::check()?;
        let answer = client.ask(&request).map_err(unasked)?;
        let told = answer.responses.into_iter().flat_map(|topic| topic.partition_responses).next();
        let Some(told) = told else {
            return Err(Failure::new(
                format_args!("{name} takes no record"),
                "the broker says nothing of it",
                "report this",
            ));
        };
        let code = ErrorCode(told.error_code);
        if code.is_none() {
            return Ok(Produced {
                topic: topic.topic.clone(),
                partition: partition.partition,
                offset: told.base_offset,
                end_offset: partition.end_offset.unwrap_or(partition.last_mirrored_offset),
            });
        }
        // A broker that has just started knows its leaders a little later.
        if !code.is_retriable() || begun.elapsed() >= limit {
            let why = told.error_message.map_or_else(|| code.to_string(), |words| format!("{words} ({code})"));
            let remedy = "clients would meet the same after a hand-over: mend the topic's settings at the source";
            return Err(Failure::new(format_args!("{name} takes no record"), why, remedy));
        }
        sleep(PAUSE);
    }
}
