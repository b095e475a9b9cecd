//! The time of day. Time-outs and pauses go by `Instant`; this is for records, answers and people.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 when the clock stands before that.
#[must_use]
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
