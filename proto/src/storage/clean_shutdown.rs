//! pure: `.kafka_cleanshutdown`, which says that a log directory was closed in order.
//!
//! ```text
//! {"version":0,"brokerEpoch":42}      since Kafka 3.8; an empty file before
//! ```
//! A broker that finds it trusts all other files as they are, so it is written last and only when every check passed.

use crate::error::{DecodeError, Malformed};

const WHAT: &str = ".kafka_cleanshutdown";
const VERSION: i64 = 0;

/// The file's text. Without a broker epoch -1 is written.
#[must_use]
pub fn to_text(broker_epoch: Option<i64>) -> String {
    format!("{{\"version\":{VERSION},\"brokerEpoch\":{}}}", broker_epoch.unwrap_or(-1))
}

/// The broker epoch, none in the empty file of older brokers.
///
/// # Errors
/// When the file is neither empty nor the object above.
pub fn parse(bytes: &[u8]) -> Result<Option<i64>, DecodeError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = core::str::from_utf8(bytes).map_err(|cause| DecodeError {
        what: WHAT,
        at: cause.valid_up_to(),
        why: Malformed::NotUtf8,
    })?;
    let wrong = || DecodeError::rule(WHAT, 0, "an object with version and brokerEpoch was expected");
    let body = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(wrong)?;
    let (mut version, mut epoch) = (None, None);
    for field in body.split(',') {
        let (key, value) = field.split_once(':').ok_or_else(wrong)?;
        let slot = match key.trim() {
            "\"version\"" => &mut version,
            "\"brokerEpoch\"" => &mut epoch,
            // Later brokers may say more.
            _ => continue,
        };
        *slot = value.trim().parse::<i64>().ok();
    }
    match (version, epoch) {
        (Some(VERSION), Some(epoch)) => Ok(Some(epoch)),
        _ => Err(wrong()),
    }
}
