//! What a hand-over and the way back ask of the control plane.

use crate::client::Client;
use crate::failure::Failure;
use crate::handover::journal::{Partition, Topic};
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::record_hand_over::{EndedPartition, RecordHandOverRequest, TopicData};

/// Connects to the control plane at `address`, HOST:PORT.
///
/// # Errors
/// When nothing answers there, or something else than a control plane.
pub(super) fn connect(address: &str) -> Result<Client, Failure> {
    let client = Client::connect(address)?;
    client.need_mirrors()?;
    Ok(client)
}

/// Topics by name, where what is recorded of their ends holds.
pub(super) fn named(names: impl IntoIterator<Item = String>) -> Vec<TopicData> {
    names.into_iter().map(|name| TopicData { topic_name: name, ..TopicData::default() }).collect()
}

/// Topics with the ends that a journal has: the control plane refuses when mirroring went on since.
pub(super) fn ended(topics: &[Topic]) -> Vec<TopicData> {
    let partition = |of: &Partition| EndedPartition {
        partition_index: of.partition,
        last_mirrored_offset: of.last_mirrored_offset,
        last_mirror_epoch: of.last_mirror_epoch,
        ..EndedPartition::default()
    };
    let topic = |of: &Topic| TopicData {
        topic_name: of.topic.clone(),
        partitions: of.partitions.iter().map(partition).collect(),
        ..TopicData::default()
    };
    topics.iter().map(topic).collect()
}

/// Has the control plane remember who has `topics`; `returned`: they are the mirror's again. `failure` says what has not been done
/// when it refuses.
///
/// # Errors
/// When it cannot be asked, or refuses.
pub(super) fn record(
    address: &str,
    mirror: &str,
    topics: Vec<TopicData>,
    (handed_over_to, returned): (&str, bool),
    failure: &str,
) -> Result<(), Failure> {
    let (mirror_name, handed_over_to) = (mirror.to_owned(), handed_over_to.to_owned());
    let request = RecordHandOverRequest { mirror_name, topics, handed_over_to, returned, ..Default::default() };
    ask_to_record(address, &request, failure)
}

/// Asks the control plane at `address` to record this. `failure` as for [`record`].
///
/// # Errors
/// When it cannot be asked, or refuses.
pub(super) fn ask_to_record(address: &str, request: &RecordHandOverRequest, failure: &str) -> Result<(), Failure> {
    let answer = connect(address)?.ask(request)?;
    accepted(answer.topics.iter().map(|topic| topic.error_code), answer.error_code, answer.error_message, failure)
}

/// Whether an answer refuses nothing: neither a topic nor, when all of them are well, the whole request. `failure` as for [`record`].
///
/// # Errors
/// The first refusal.
pub(super) fn accepted(
    topics: impl IntoIterator<Item = i16>,
    whole: i16,
    message: Option<String>,
    failure: &str,
) -> Result<(), Failure> {
    let code = topics.into_iter().find(|code| *code != 0).unwrap_or(whole);
    if code == 0 {
        return Ok(());
    }
    let words = message.unwrap_or_else(|| "the control plane refuses".to_owned());
    Err(Failure::told(failure, format_args!("{words} ({})", ErrorCode(code).name())))
}
