//! pure: `partition.metadata`, which ties a partition's folder to a topic id.
//!
//! ```text
//! version: 0
//! topic_id: OgPTlPLSRv6jUn9CaRPJWg        no line end after it
//! ```

use super::text::Lines;
use crate::error::{DecodeError, Malformed};
use crate::ids::Uuid;

const WHAT: &str = "partition.metadata";
const VERSION: i32 = 0;

/// The file's text.
#[must_use]
pub fn to_text(topic_id: Uuid) -> String {
    format!("version: {VERSION}\ntopic_id: {topic_id}")
}

/// The topic id.
///
/// # Errors
/// When the file does not follow the format or holds the zero id.
pub fn parse(bytes: &[u8]) -> Result<Uuid, DecodeError> {
    let mut lines = Lines::new(WHAT, bytes)?;
    let (mut version, mut topic_id) = (None, None);
    while let Some((at, line)) = lines.next_line() {
        match line.split_once(": ") {
            Some(("version", value)) if version.is_none() => version = Some((at, lines.number::<i32>(at, value)?)),
            Some(("topic_id", value)) if topic_id.is_none() => {
                topic_id = value.parse::<Uuid>().ok().filter(|id| !id.is_zero());
                if topic_id.is_none() {
                    return Err(lines.rule(at, "a topic id was expected"));
                }
            }
            _ => return Err(lines.rule(at, "version and topic_id were expected, each once")),
        }
    }
    match (version, topic_id) {
        (Some((_, VERSION)), Some(id)) => Ok(id),
        (Some((at, found)), Some(_)) => Err(DecodeError { what: WHAT, at, why: Malformed::Version { found } }),
        _ => Err(lines.rule(bytes.len(), "version and topic_id were expected, each once")),
    }
}
