//! pure: the numbers and names that mean something, each with a type of its own.

use core::fmt;
use core::str::FromStr;

/// The 16 bytes of a topic id, directory id or cluster-scoped uuid.
///
/// Its text form is Kafka's: base64url of the 16 bytes without padding, 22 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The all-zero id: "no id".
    pub const ZERO: Self = Self([0; 16]);

    /// Whether this is the all-zero id.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

const BASE64URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const UUID_TEXT_BYTES: usize = 22;

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; UUID_TEXT_BYTES];
        let value = u128::from_be_bytes(self.0);
        for (i, out) in text.iter_mut().enumerate() {
            // 22 characters carry 132 bits: the last one has 4 zero bits at its end.
            let sextet = if i == 21 { (value << 4) & 0x3f } else { (value >> (122 - 6 * i)) & 0x3f };
            *out = BASE64URL[sextet as usize];
        }
        f.write_str(core::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no base64url uuid of 22 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAUuid;

impl fmt::Display for NotAUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a uuid of 22 base64url characters")
    }
}

impl core::error::Error for NotAUuid {}

impl FromStr for Uuid {
    type Err = NotAUuid;

    fn from_str(text: &str) -> Result<Self, NotAUuid> {
        let text = text.as_bytes();
        if text.len() != UUID_TEXT_BYTES {
            return Err(NotAUuid);
        }
        let mut value = 0_u128;
        for (i, byte) in text.iter().enumerate() {
            let sextet = BASE64URL.iter().position(|c| c == byte).ok_or(NotAUuid)? as u128;
            if i == 21 {
                if sextet & 0x0f != 0 {
                    return Err(NotAUuid);
                }
                value |= sextet >> 4;
            } else {
                value |= sextet << (122 - 6 * i);
            }
        }
        Ok(Self(value.to_be_bytes()))
    }
}

/// The longest topic or mirror name, in characters (Kafka's `Topic.MAX_NAME_LENGTH`).
pub const NAME_CHARS_MAX: usize = 249;

/// Whether `name` may name a topic or a mirror: 1 to 249 of `[a-zA-Z0-9._-]`, and neither `.` nor `..`.
#[must_use]
pub fn is_legal_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_CHARS_MAX
        && name != "."
        && name != ".."
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_reads_and_prints_as_stock_kafka_does() {
        let id = Uuid([0x3a, 0x03, 0xd3, 0x94, 0xf2, 0xd2, 0x46, 0xfe, 0xa3, 0x52, 0x7f, 0x42, 0x69, 0x13, 0xc9, 0x5a]);
        assert_eq!(id.to_string(), "OgPTlPLSRv6jUn9CaRPJWg");
        assert_eq!("OgPTlPLSRv6jUn9CaRPJWg".parse(), Ok(id));
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
    }

    #[test]
    fn text_with_stray_bits_or_another_length_is_no_uuid() {
        for text in ["", "OgPTlPLSRv6jUn9CaRPJW", "OgPTlPLSRv6jUn9CaRPJWh", "OgPTlPLSRv6jUn9CaRPJW="] {
            assert_eq!(text.parse::<Uuid>(), Err(NotAUuid));
        }
    }

    #[test]
    fn names_are_those_that_kafka_takes() {
        assert!(is_legal_name("a.b_C-9") && is_legal_name(&"x".repeat(249)));
        for name in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(250)] {
            assert!(!is_legal_name(name), "{name:?}");
        }
    }
}
