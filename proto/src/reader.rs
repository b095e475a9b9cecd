//! pure: the bounds-checked cursor over bytes from outside. Nobody else slices wire bytes.
//!
//! Every `read_*` either returns a value and moves on, or returns an error and leaves the caller to give up. Nothing is
//! allocated here, and no count or length is believed before it was compared with what is left of the input.

use crate::error::{DecodeError, Malformed};

/// A cursor over borrowed bytes. Cheap to copy: a copy is a bookmark.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
    /// Bytes that arrays may still take in memory.
    allowance_bytes: usize,
}

impl<'a> Reader<'a> {
    /// Starts at byte 0 of `bytes`; `what` names the message or file in errors.
    #[must_use]
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, what, allowance_bytes: usize::MAX }
    }

    /// The same, for input of which all arrays together may take no more than `bytes` in memory.
    #[must_use]
    pub fn with_allowance(self, bytes: usize) -> Self {
        Self { allowance_bytes: bytes, ..self }
    }

    /// Takes `bytes` of the allowance.
    ///
    /// # Errors
    /// When less is left.
    pub fn spend(&mut self, bytes: usize) -> Result<(), DecodeError> {
        match self.allowance_bytes.checked_sub(bytes) {
            Some(left) => self.allowance_bytes = left,
            None => return Err(self.error(Malformed::Rule("it would take far more memory than it has bytes"))),
        }
        Ok(())
    }

    /// The byte position of the next read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes that have not been read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The bytes that have not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// An error at the current position.
    #[must_use]
    pub fn error(&self, why: Malformed) -> DecodeError {
        DecodeError { what: self.what, at: self.at, why }
    }

    /// Takes the next `len` bytes, borrowed.
    ///
    /// # Errors
    /// When fewer than `len` bytes are left.
    pub fn read_slice(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        if len > self.remaining() {
            return Err(self.error(Malformed::Truncated { missing: len - self.remaining() }));
        }
        let slice = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(slice)
    }

    /// Takes the next `N` bytes by value.
    ///
    /// # Errors
    /// When fewer than `N` bytes are left.
    pub fn read_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.read_slice(N)?);
        Ok(array)
    }

    /// Refuses bytes that are left over.
    ///
    /// # Errors
    /// When anything is left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(self.error(Malformed::Trailing { bytes })),
        }
    }

    /// An unsigned varint of at most 32 bits, 7 bits a byte, low bits first.
    ///
    /// # Errors
    /// When it is cut off, has a sixth byte, or has bits above the 32nd.
    pub fn read_uvarint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.read_u8()?;
            if shift == 28 && byte > 0x0f {
                return Err(self.error(Malformed::VarintTooLong));
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// A zigzag varint of 32 bits, as in records.
    ///
    /// # Errors
    /// As [`Reader::read_uvarint`].
    pub fn read_varint(&mut self) -> Result<i32, DecodeError> {
        let raw = self.read_uvarint()?;
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// A zigzag varint of 64 bits, as in records.
    ///
    /// # Errors
    /// When it is cut off, has an eleventh byte, or has bits above the 64th.
    pub fn read_varlong(&mut self) -> Result<i64, DecodeError> {
        let mut raw = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.read_u8()?;
            if shift == 63 && byte > 0x01 {
                return Err(self.error(Malformed::VarintTooLong));
            }
            raw |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
    }

    /// A bool of one byte; any value but 0 is true, as stock Kafka reads it.
    ///
    /// # Errors
    /// At the end of the input.
    pub fn read_bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.read_u8()? != 0)
    }

    /// UTF-8 text of `len` bytes, borrowed.
    ///
    /// # Errors
    /// When fewer bytes are left or they are not UTF-8.
    pub fn read_str(&mut self, len: usize) -> Result<&'a str, DecodeError> {
        let at = self.at;
        let bytes = self.read_slice(len)?;
        core::str::from_utf8(bytes).map_err(|cause| DecodeError {
            what: self.what,
            at: at + cause.valid_up_to(),
            why: Malformed::NotUtf8,
        })
    }
}

macro_rules! read_int {
    ($($name:ident -> $int:ty),* $(,)?) => {
        impl Reader<'_> {
            $(
                /// A big-endian number.
                ///
                /// # Errors
                /// At the end of the input.
                pub fn $name(&mut self) -> Result<$int, DecodeError> {
                    Ok(<$int>::from_be_bytes(self.read_array()?))
                }
            )*
        }
    };
}

read_int! {
    read_u8 -> u8, read_i8 -> i8, read_u16 -> u16, read_i16 -> i16,
    read_u32 -> u32, read_i32 -> i32, read_u64 -> u64, read_i64 -> i64,
    read_f64 -> f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_follow_the_zigzag_of_protobuf() {
        for (bytes, value) in
            [(&[0x00][..], 0), (&[0x01], -1), (&[0x02], 1), (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN)]
        {
            assert_eq!(Reader::new("test", bytes).read_varint(), Ok(value));
        }
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new("test", &longest).read_varlong(), Ok(i64::MIN));
    }

    #[test]
    fn a_varint_with_a_sixth_byte_or_a_33rd_bit_is_refused() {
        for bytes in [[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], [0xff, 0xff, 0xff, 0xff, 0x1f, 0x00]] {
            let error = Reader::new("test", &bytes).read_uvarint().unwrap_err();
            assert_eq!(error.why, Malformed::VarintTooLong);
        }
    }

    #[test]
    fn a_read_past_the_end_names_the_position_and_what_is_missing() {
        let mut reader = Reader::new("test", &[1, 2, 3]);
        reader.read_u8().unwrap();
        let error = reader.read_i64().unwrap_err();
        assert_eq!((error.at, error.why), (1, Malformed::Truncated { missing: 6 }));
    }
}
