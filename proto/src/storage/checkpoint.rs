//! pure: the checkpoint files of a log directory, an offset for every partition.
//!
//! ```text
//! 0               version
//! 1               number of entries
//! golden 0 1155   topic, partition, offset
//! ```
//! They are written aside, synced and renamed. A line that is wrong takes the whole log directory of a stock broker offline.

use core::fmt::Write;

use super::text::{read_checkpoint, write_checkpoint};
use crate::error::DecodeError;
use crate::ids::is_legal_name;

const WHAT: &str = "offset checkpoint";

/// The offset of a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionOffset {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Reads the file. An empty one has no entries.
///
/// # Errors
/// When it does not follow the format.
pub fn parse(bytes: &[u8]) -> Result<Vec<PartitionOffset>, DecodeError> {
    let mut entries = Vec::new();
    read_checkpoint(WHAT, bytes, |lines, at, line| {
        let mut fields = line.split(' ');
        let (Some(topic), Some(partition), Some(offset), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(lines.rule(at, "a topic, a partition and an offset were expected"));
        };
        let (partition, offset) = (lines.number(at, partition)?, lines.number(at, offset)?);
        if !is_legal_name(topic) || partition < 0 {
            return Err(lines.rule(at, "no partition has this name"));
        }
        entries.push(PartitionOffset { topic: topic.to_owned(), partition, offset });
        Ok(())
    })?;
    Ok(entries)
}

/// The file's text, in the order given.
#[must_use]
pub fn to_text(entries: &[PartitionOffset]) -> String {
    write_checkpoint(entries, |text, entry| {
        // Writing to a String does not fail.
        let _infallible = write!(text, "{} {} {}", entry.topic, entry.partition, entry.offset);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_quite_the_format_is_refused() {
        for text in [
            "0\n1\na 0\n",
            "0\n1\na 0 1 2\n",
            "0\n1\na  1\n",
            "0\n1\na/b 0 1\n",
            "0\n1\na -1 1\n",
            "0\n1\na 0 1",
            "0\n1\na 0 x\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert_eq!(parse(b""), Ok(Vec::new()));
    }
}
