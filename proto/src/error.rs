//! pure: what was wrong with bytes that came from outside, in which message, at which byte.

use core::fmt;

/// Bytes that do not follow the format they claim to have.
///
/// `at` is the byte position from the start of the input that was being decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The message, file or field that was being read, in Kafka's words.
    pub what: &'static str,
    /// Byte position in the input.
    pub at: usize,
    /// What was found.
    pub why: Malformed,
}

/// The ways in which input can be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The input ended before the value did; `missing` bytes more were needed.
    Truncated {
        /// Bytes that the value still needs.
        missing: usize,
    },
    /// A length, count or position outside of what the format or the rest of the input allows.
    OutOfBounds {
        /// The value found.
        found: i64,
        /// The largest value that would have been accepted here.
        max: i64,
    },
    /// Null where the format has no null.
    UnexpectedNull,
    /// A varint with too many bytes or bits.
    VarintTooLong,
    /// Text that is not UTF-8.
    NotUtf8,
    /// Tags of a tagged section not strictly ascending.
    TagOrder,
    /// Bytes left over after the value.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// A version that this code does not speak.
    Version {
        /// The version found or asked for.
        found: i32,
    },
    /// A checksum that does not match its bytes.
    Checksum {
        /// The checksum stored in the input.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A rule of the format, in words.
    Rule(&'static str),
}

impl DecodeError {
    /// A rule of `what` that the byte at `at` breaks.
    #[must_use]
    pub fn rule(what: &'static str, at: usize, rule: &'static str) -> Self {
        Self { what, at, why: Malformed::Rule(rule) }
    }

    /// A value outside of `..=max`.
    #[must_use]
    pub fn out_of_bounds(what: &'static str, at: usize, found: i64, max: i64) -> Self {
        Self { what, at, why: Malformed::OutOfBounds { found, max } }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {} at byte {}: {}", self.what, self.at, self.why)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { missing } => write!(f, "the input ends {missing} bytes too early"),
            Self::OutOfBounds { found, max } => write!(f, "{found} is not within the bound {max}"),
            Self::UnexpectedNull => f.write_str("null is not allowed here"),
            Self::VarintTooLong => f.write_str("a varint is too long"),
            Self::NotUtf8 => f.write_str("text is not UTF-8"),
            Self::TagOrder => f.write_str("tags are not in ascending order"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes are left over"),
            Self::Version { found } => write!(f, "version {found} is not known"),
            Self::Checksum { stored, computed } => {
                write!(f, "the checksum is {stored:#010x} but its bytes give {computed:#010x}")
            }
            Self::Rule(rule) => f.write_str(rule),
        }
    }
}

impl core::error::Error for DecodeError {}

/// A value that the wanted version of a format cannot carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeError {
    /// The message and field.
    pub what: &'static str,
    /// The version that was asked for.
    pub version: i16,
    /// Why it cannot be written.
    pub why: &'static str,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {} at version {}: {}", self.what, self.version, self.why)
    }
}

impl core::error::Error for EncodeError {}
