//! pure: `meta.properties`, the identity of a log directory.
//!
//! ```text
//! #
//! node.id=1
//! directory.id=AAAAAAAAQACAAAAAAAAABg
//! version=1
//! cluster.id=MkU3OEVBNTcwNTJENDM2Qk
//! ```

use core::fmt::Write;

use crate::error::{DecodeError, Malformed};
use crate::ids::Uuid;
use crate::properties;

const WHAT: &str = "meta.properties";
const VERSION: i32 = 1;
/// Ids below, read as a signed number with an upper half of 0, have a meaning of their own in Kafka.
const RESERVED_DIRECTORY_IDS: i64 = 100;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster.
    pub cluster_id: String,
    /// The broker.
    pub node_id: i32,
    /// This directory; none before Kafka 3.7.
    pub directory_id: Option<Uuid>,
}

impl MetaProperties {
    /// The file's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("#\nnode.id={}\n", self.node_id);
        if let Some(id) = self.directory_id {
            // Writing to a String does not fail.
            let _infallible = writeln!(text, "directory.id={id}");
        }
        let _infallible = writeln!(text, "version={VERSION}\ncluster.id={}", escaped(&self.cluster_id));
        text
    }

    /// Reads the file, of version 0 (`broker.id`) or 1.
    ///
    /// # Errors
    /// When a value is missing or wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let all = properties::parse(bytes)?;
        let wrong = |rule| DecodeError::rule(WHAT, 0, rule);
        let version = last(&all, "version").and_then(|value| value.parse().ok());
        let version: i32 = version.ok_or_else(|| wrong("version is missing"))?;
        let node_key = match version {
            0 => "broker.id",
            VERSION => "node.id",
            found => return Err(DecodeError { what: WHAT, at: 0, why: Malformed::Version { found } }),
        };
        let node_id = last(&all, node_key).and_then(|value| value.parse().ok()).filter(|id| *id >= 0);
        let directory_id = match last(&all, "directory.id").map(str::parse::<Uuid>) {
            None => None,
            Some(Ok(id)) if !is_reserved(id) => Some(id),
            Some(_) => return Err(wrong("directory.id is no id, or a reserved one")),
        };
        let cluster_id = last(&all, "cluster.id").filter(|id| !id.is_empty());
        Ok(Self {
            cluster_id: cluster_id.ok_or_else(|| wrong("cluster.id is missing"))?.to_owned(),
            node_id: node_id.ok_or_else(|| wrong("node.id is missing or no node"))?,
            directory_id,
        })
    }
}

/// The value that counts: the last one of the key.
fn last<'a>(all: &'a [(String, String)], key: &str) -> Option<&'a str> {
    all.iter().rev().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
}

/// Text that Java properties read back as `value`.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for unit in value.encode_utf16() {
        match u8::try_from(unit) {
            Ok(plain @ b'!'..=b'~') if plain != b'\\' => text.push(char::from(plain)),
            _ => {
                let _infallible = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

fn is_reserved(id: Uuid) -> bool {
    let value = u128::from_be_bytes(id.0);
    let (upper, lower) = ((value >> 64) as u64, (value as u64).cast_signed());
    upper == 0 && lower < RESERVED_DIRECTORY_IDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<MetaProperties, DecodeError> {
        MetaProperties::parse(text.as_bytes())
    }

    #[test]
    fn any_cluster_id_is_read_back() {
        for cluster_id in ["MkU3OEVBNTcwNTJENDM2Qk", " a=b:c\\ #\u{e4}\u{1d11e}\n"] {
            let meta = MetaProperties { cluster_id: cluster_id.to_owned(), node_id: 7, directory_id: None };
            assert_eq!(parse(&meta.to_text()), Ok(meta));
        }
    }

    #[test]
    fn the_older_version_names_the_node_broker() {
        assert_eq!(parse("version=0\nbroker.id=3\ncluster.id=x\n").unwrap().node_id, 3);
        assert!(parse("version=1\nbroker.id=3\ncluster.id=x\n").is_err());
        assert!(parse("version=2\nnode.id=3\ncluster.id=x\n").is_err());
    }

    #[test]
    fn reserved_directory_ids_are_refused() {
        let with =
            |id: u128| parse(&format!("version=1\nnode.id=3\ncluster.id=x\ndirectory.id={}\n", Uuid(id.to_be_bytes())));
        assert!([0, 99, 1 << 63].into_iter().all(|id| with(id).is_err()));
        assert!([100, 1 << 64, u128::MAX].into_iter().all(|id| with(id).is_ok()));
    }
}
