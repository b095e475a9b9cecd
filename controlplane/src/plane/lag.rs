//! pure: how far a partition is behind, in records and bytes, by what the board shows. Lag in time needs a memory: `pace.rs`.

use twinlog_proto::channel::progress::{PartitionProgress, SlotState};

/// Records still to come; `None` when unknown, and when nothing is mirrored any more.
#[must_use]
pub fn lag_records(seen: &PartitionProgress) -> Option<i64> {
    if follows(seen) { seen.lag_records() } else { None }
}

/// Bytes still to come, estimated; `None` as above.
#[must_use]
pub fn lag_bytes(seen: &PartitionProgress) -> Option<i64> {
    (follows(seen) && seen.lag_bytes >= 0).then_some(seen.lag_bytes)
}

/// Records of the source that transactional readers cannot read yet; no lag of the mirror, which takes them all the same.
#[must_use]
pub fn lso_lag_records(seen: &PartitionProgress) -> Option<i64> {
    let known = follows(seen) && seen.source_lso >= 0 && seen.source_high_watermark >= 0;
    known.then(|| (seen.source_high_watermark - seen.source_lso).max(0))
}

/// A stopped partition is on its own: whatever the source has more is no lag.
fn follows(seen: &PartitionProgress) -> bool {
    !matches!(seen.state, SlotState::Stopped | SlotState::Absent)
}
