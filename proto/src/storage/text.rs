//! pure: the text files of a log directory, line by line.
//!
//! ```text
//! 0              version
//! 2              number of entries
//! golden 0 1155  entries
//! golden 1 9
//! ```

use core::str::FromStr;

use crate::error::{DecodeError, Malformed};

/// The only version of the checkpoint files.
const VERSION: i32 = 0;

/// The lines of a file, each with the byte it starts at.
#[derive(Debug, Clone)]
pub(super) struct Lines<'a> {
    what: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(what: &'static str, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let text = core::str::from_utf8(bytes).map_err(|cause| DecodeError {
            what,
            at: cause.valid_up_to(),
            why: Malformed::NotUtf8,
        })?;
        Ok(Self { what, text, at: 0 })
    }

    /// The next line and the byte it starts at. A line that the file's end cuts off counts as one.
    pub(super) fn next_line(&mut self) -> Option<(usize, &'a str)> {
        let at = self.at;
        let rest = self.text.get(at..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').unwrap_or(rest.len());
        self.at = at + length + 1;
        Some((at, rest[..length].strip_suffix('\r').unwrap_or(&rest[..length])))
    }

    pub(super) fn rule(&self, at: usize, rule: &'static str) -> DecodeError {
        DecodeError::rule(self.what, at, rule)
    }

    fn expect_line(&mut self, rule: &'static str) -> Result<(usize, &'a str), DecodeError> {
        let end = self.text.len();
        self.next_line().ok_or_else(|| self.rule(end, rule))
    }

    /// A number that takes a whole field.
    pub(super) fn number<T: FromStr>(&self, at: usize, field: &str) -> Result<T, DecodeError> {
        // FromStr takes a leading plus, Kafka does not write one.
        match field.parse() {
            Ok(value) if !field.starts_with('+') => Ok(value),
            _ => Err(self.rule(at, "a number was expected")),
        }
    }
}

/// Reads version and count, then gives every entry's line to `entry`. An empty file has no entries.
pub(super) fn read_checkpoint<'a>(
    what: &'static str,
    bytes: &'a [u8],
    mut entry: impl FnMut(&Lines<'a>, usize, &'a str) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        return Ok(());
    }
    if bytes.last() != Some(&b'\n') {
        return Err(DecodeError { what, at: bytes.len(), why: Malformed::Truncated { missing: 1 } });
    }
    let mut lines = Lines::new(what, bytes)?;
    let (at, line) = lines.expect_line("the version is missing")?;
    let version: i32 = lines.number(at, line)?;
    if version != VERSION {
        return Err(DecodeError { what, at, why: Malformed::Version { found: version } });
    }
    let (count_at, line) = lines.expect_line("the number of entries is missing")?;
    let count: u32 = lines.number(count_at, line)?;
    let mut found = 0_u32;
    while let Some((at, line)) = lines.next_line() {
        entry(&lines, at, line)?;
        found += 1;
    }
    if found != count {
        return Err(DecodeError::out_of_bounds(what, count_at, count.into(), found.into()));
    }
    Ok(())
}

/// Writes version, count and the lines.
pub(super) fn write_checkpoint<T>(entries: &[T], mut line: impl FnMut(&mut String, &T)) -> String {
    let mut text = format!("{VERSION}\n{}\n", entries.len());
    for entry in entries {
        line(&mut text, entry);
        text.push('\n');
    }
    text
}
