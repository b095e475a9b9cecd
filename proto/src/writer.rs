//! pure: appends big-endian values to the caller's buffer and patches lengths in afterwards.

/// Appends to a borrowed `Vec`, so that a caller may keep one buffer for every message.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

/// Where a length that is not known yet will be written.
#[derive(Debug)]
#[must_use = "a length that is never patched stays 0"]
pub struct LengthAt(usize);

impl<'a> Writer<'a> {
    /// Appends after what `out` already holds.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Bytes in the buffer, those from before included.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Raw bytes, as they are.
    pub fn write_slice(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// An unsigned varint, 7 bits a byte, low bits first.
    pub fn write_uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// A zigzag varint of 32 bits, as in records.
    pub fn write_varint(&mut self, value: i32) {
        self.write_uvarint(((value << 1) ^ (value >> 31)).cast_unsigned());
    }

    /// A zigzag varint of 64 bits, as in records.
    pub fn write_varlong(&mut self, value: i64) {
        let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while raw >= 0x80 {
            self.out.push((raw & 0x7f) as u8 | 0x80);
            raw >>= 7;
        }
        self.out.push(raw as u8);
    }

    /// A bool of one byte.
    pub fn write_bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// Reserves the four bytes of a big-endian length.
    pub fn begin_length(&mut self) -> LengthAt {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        LengthAt(at)
    }

    /// Writes the number of bytes since [`Writer::begin_length`], the length itself not counted.
    ///
    /// # Panics
    /// When more than 2^31-1 bytes were written in between, which no caller's limits allow.
    pub fn end_length(&mut self, length: LengthAt) {
        let bytes = self.out.len() - length.0 - 4;
        let bytes = i32::try_from(bytes).expect("a frame is far below 2 GiB");
        self.out[length.0..length.0 + 4].copy_from_slice(&bytes.to_be_bytes());
    }

    /// Puts the number of bytes written since `start`, as an unsigned varint, in front of them. Nothing is allocated but
    /// the varint's own bytes.
    ///
    /// # Panics
    /// When `start` is no earlier [`Writer::position`], or 4 GiB were written since, which no caller's limits allow.
    pub fn insert_uvarint_length(&mut self, start: usize) {
        let bytes = self.out.len() - start;
        let before = self.out.len();
        self.write_uvarint(u32::try_from(bytes).expect("a tagged field is far below 4 GiB"));
        let width = self.out.len() - before;
        self.out[start..].rotate_right(width);
    }
}

macro_rules! write_int {
    ($($name:ident($int:ty)),* $(,)?) => {
        impl Writer<'_> {
            $(
                /// A big-endian number.
                pub fn $name(&mut self, value: $int) {
                    self.out.extend_from_slice(&value.to_be_bytes());
                }
            )*
        }
    };
}

write_int! {
    write_u8(u8), write_i8(i8), write_u16(u16), write_i16(i16),
    write_u32(u32), write_i32(i32), write_u64(u64), write_i64(i64),
    write_f64(f64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Reader;

    #[test]
    fn every_varint_is_read_back() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        for value in [i32::MIN, -1, 0, 1, 63, 64, i32::MAX] {
            writer.write_varint(value);
            writer.write_varlong(i64::from(value) << 31);
        }
        let mut reader = Reader::new("test", &bytes);
        for value in [i32::MIN, -1, 0, 1, 63, 64, i32::MAX] {
            assert_eq!(reader.read_varint(), Ok(value));
            assert_eq!(reader.read_varlong(), Ok(i64::from(value) << 31));
        }
        reader.finish().unwrap();
    }

    #[test]
    fn a_patched_length_counts_what_follows_it() {
        let mut bytes = vec![9];
        let mut writer = Writer::new(&mut bytes);
        let length = writer.begin_length();
        writer.write_i16(7);
        writer.end_length(length);
        assert_eq!(bytes, [9, 0, 0, 0, 2, 0, 7]);
    }

    #[test]
    fn an_inserted_length_stands_in_front_of_what_it_counts() {
        let mut bytes = vec![9];
        let mut writer = Writer::new(&mut bytes);
        let start = writer.position();
        writer.write_slice(&[5; 200]);
        writer.insert_uvarint_length(start);
        assert_eq!(bytes[..4], [9, 0xc8, 0x01, 5]);
        assert_eq!(bytes.len(), 203);
    }
}
