//! Records by which Kafka's coordinators keep their state: `__transaction_state` and the offsets in `__consumer_offsets`.
//!
//! `handover/resolve.rs` reads and writes them when a mirror is handed over. Layouts: `schemas/coordinator_records.json`. A version that
//! this code does not know is an error that names it; other kinds of records in `__consumer_offsets` are told apart and left as they are.

pub mod offsets;
pub mod transactions;

use crate::error::{DecodeError, EncodeError};
use crate::messages::Message;
use crate::reader::Reader;
use crate::writer::Writer;

/// The topic of the transaction coordinators.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// The topic of the group coordinators.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// A message behind its version (a value) or its record type (a key).
fn encode<M: Message>(prefix: i16, version: i16, message: &M) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    w.write_i16(prefix);
    message.encode(&mut w, version)?;
    Ok(out)
}

/// A value with the version that stands in front of it.
fn decode_value<M: Message>(bytes: &[u8]) -> Result<(i16, M), DecodeError> {
    let mut r = Reader::new(M::NAME, bytes);
    let version = r.read_i16()?;
    let value = M::decode(&mut r, version)?;
    r.finish()?;
    Ok((version, value))
}
