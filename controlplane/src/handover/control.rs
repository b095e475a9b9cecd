//! What a hand-over and the way back ask of the control plane.

use crate::client::Client;
use crate::failure::Failure;
use twinlog_proto::error_code::ErrorCode;
use twinlog_proto::messages::record_hand_over::{RecordHandOverRequest, TopicData};

/// Connects to the control plane at `address`, HOST:PORT.
///
/// # Errors
/// When nothing answers there, or something else than a control plane.
pub(super) fn connect(address: &str) -> Result<Client, Failure> {
    let client = Client::connect(address)?;
    client.need_mirrors()?;
    Ok(client)
}

/// Has the control plane remember who has the topics called `names`; `returned`: they are the mirror's again. `failure` says what
/// has not been done when it refuses.
///
/// # Errors
/// When it cannot be asked, or refuses.
pub(super) fn record(
    address: &str,
    mirror: &str,
    names: impl IntoIterator<Item = String>,
    (handed_over_to, returned): (&str, bool),
    failure: &str,
) -> Result<(), Failure> {
    let topics = names.into_iter().map(|name| TopicData { topic_name: name, ..TopicData::default() }).collect();
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
