//! pure: every bound of the bench, and the asserts that tie them together.

use std::time::Duration;

/// Bytes of the smallest batch that holds a record with its mark.
pub const BATCH_BYTES_MIN: u32 = 128;

/// Bytes of the largest batch that is made.
pub const BATCH_BYTES_MAX: u32 = 256 << 20;

/// Bytes of the smallest value of a record: the mark of the batch.
pub const RECORD_BYTES_MIN: u32 = 16;

/// What a broker caps a response at (`fetch.max.bytes`), in bytes.
pub const FETCH_BYTES_MAX: i32 = 55 << 20;

/// Bytes of the largest request that the embedded source reads.
pub const REQUEST_BYTES_MAX: u32 = 8 << 20;

/// Connections that it serves at once.
pub const CONNECTIONS_MAX: usize = 512;

/// Partitions that all of its topics together may have.
pub const PARTITIONS_MAX: u32 = 1 << 20;

/// Fetch sessions that it keeps; further clients are served without one.
pub const SESSIONS_MAX: usize = 1000;

/// The longest wait that it grants a client.
pub const FETCH_WAIT_MAX: Duration = Duration::from_secs(60);

/// The longest paced phase, in seconds.
pub const PACE_SECONDS_MAX: f64 = 1e6;

/// The largest batch that is believed of a segment file, in bytes.
pub const STORED_BATCH_BYTES_MAX: usize = 1 << 30;

/// Bytes of the largest answer of a source that is read again.
pub const SOURCE_ANSWER_BYTES_MAX: u32 = 1 << 30;

/// How long a source may be silent that is read again.
pub const SOURCE_SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes of the largest answer of a control plane.
pub const CONTROL_ANSWER_BYTES_MAX: usize = 512 << 20;

/// How long a control plane may take to answer.
pub const CONTROL_SILENCE_MAX: Duration = Duration::from_secs(120);

/// The longest that starting or stopping all partitions may take.
pub const CHANGE_MAX: Duration = Duration::from_secs(300);

/// How long a data plane may take until its board can be looked at.
pub const ATTACH_MAX: Duration = Duration::from_secs(10);

/// How long a copy may stand still.
pub const STALL_MAX: Duration = Duration::from_secs(60);

/// How long stopping the topics, and then both planes, may take each.
pub const STOP_MAX: Duration = Duration::from_secs(120);

const _: () =
    assert!(BATCH_BYTES_MAX as usize <= STORED_BATCH_BYTES_MAX, "what is made must be believed when it is stored");
const _: () = assert!(
    BATCH_BYTES_MAX < SOURCE_ANSWER_BYTES_MAX && FETCH_BYTES_MAX.unsigned_abs() < SOURCE_ANSWER_BYTES_MAX,
    "an answer holds one batch, or as much as a broker gives"
);
const _: () = assert!(RECORD_BYTES_MIN < BATCH_BYTES_MIN, "the smallest batch holds the smallest record");
