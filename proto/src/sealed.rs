//! pure: files that one plane writes for the other: a message with a magic, its version and a checksum in front.
//!
//! ```text
//! magic of 4 bytes | i16 version | u32 CRC-32C of what follows | body by a schema
//! ```

use crate::error::{DecodeError, EncodeError, Malformed};
use crate::messages::Message;
use crate::reader::Reader;
use crate::writer::Writer;

/// A kind of file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seal {
    /// What it is called in errors.
    pub(crate) what: &'static str,
    /// Its first bytes.
    pub(crate) magic: [u8; 4],
    /// What to say of a file that begins otherwise.
    pub(crate) no_magic: &'static str,
    /// The version of the body that is written.
    pub(crate) version: i16,
}

impl Seal {
    /// The content of a file.
    pub(crate) fn encode<M: Message>(&self, message: &M) -> Result<Vec<u8>, EncodeError> {
        let mut body = Vec::new();
        message.encode(&mut Writer::new(&mut body), self.version)?;
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
        let mut w = Writer::new(&mut out);
        w.write_slice(&self.magic);
        w.write_i16(self.version);
        w.write_u32(crc32c::crc32c(&body));
        w.write_slice(&body);
        Ok(out)
    }

    /// Reads the content of a file: an error when it is another kind of file, of an unknown version, or damaged.
    pub(crate) fn decode<M: Message>(&self, file: &[u8]) -> Result<M, DecodeError> {
        let mut r = Reader::new(self.what, file);
        if r.read_array()? != self.magic {
            return Err(DecodeError::rule(self.what, 0, self.no_magic));
        }
        let version = r.read_i16()?;
        let stored = r.read_u32()?;
        let computed = crc32c::crc32c(r.rest());
        if stored != computed {
            return Err(r.error(Malformed::Checksum { stored, computed }));
        }
        let message = M::decode(&mut r, version)?;
        r.finish()?;
        Ok(message)
    }
}

const HEADER_BYTES: usize = 4 + 2 + 4;
