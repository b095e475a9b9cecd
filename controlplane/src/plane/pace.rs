//! pure: what the board showed over time: since when a partition is behind, how fast bytes come, when it will have caught up.
//!
//! One look at a slot says where a partition stands, and two looks say how it moves. [`Tracker::see`] takes every look in; what
//! it keeps is three words for each slot, and a few more for those that move or are behind. The times survive a restart of the
//! data plane, which forgets when it last had everything.

use crate::limits::{CATCH_UP_MS_MIN, PACE_SILENCE_MS_MAX, PACE_WINDOW_MS, PACE_WINDOW_MS_MIN};
use std::collections::HashMap;
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress, SlotState};

/// How a partition moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// How long ago our end last was the source's end; 0 when it is now, `None` when nobody can tell, or nothing is mirrored
    /// any more.
    pub lag_ms: Option<i64>,
    /// Bytes that came in a second, of late.
    pub bytes_per_second: Option<i64>,
    /// Whether it will have everything.
    pub catch_up: CatchUp,
}

/// Whether a partition that is behind will have everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CatchUp {
    /// It is not behind, or does not mirror.
    #[default]
    None,
    /// It is behind, and was not looked at for long enough.
    Measuring {
        /// Thousandths of the way that are done.
        per_mille: i32,
    },
    /// It comes nearer.
    Closing {
        /// Thousandths of the way that are done.
        per_mille: i32,
        /// At this rate it has everything after this time.
        eta_ms: i64,
    },
    /// The source is as fast, or faster.
    NotClosing {
        /// Thousandths of the way that are done.
        per_mille: i32,
    },
}

impl Pace {
    /// What a single look tells.
    #[must_use]
    pub fn of_board(seen: &PartitionProgress, now_ms: i64) -> Self {
        let since_ms = (seen.caught_up_at_ms >= 0).then_some(seen.caught_up_at_ms);
        Self { lag_ms: lag_ms(seen, since_ms, now_ms), ..Self::default() }
    }
}

/// Everything that was seen, by slot.
#[derive(Debug, Default)]
pub struct Tracker {
    tracks: Vec<Track>,
    moving: HashMap<u32, Moving>,
}

/// What is kept of every partition.
#[derive(Debug, Clone, Copy, Default)]
struct Track {
    /// The partition that had the slot; 0: none.
    identity: u64,
    /// When it last had everything; when it was first seen, if it never had.
    since_ms: i64,
    /// Its bytes at the last look.
    bytes: u64,
    /// Whether it was fetched at the last look.
    fetched: bool,
}

/// What is kept of a partition that moves or is behind.
#[derive(Debug, Clone, Copy)]
struct Moving {
    older: Anchor,
    newer: Anchor,
    seen_at_ms: i64,
    /// Where our end was when it fell behind.
    start_leo: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Anchor {
    at_ms: i64,
    lag_records: i64,
    bytes: u64,
}

impl Tracker {
    /// Whether a partition moves or is behind: worth a look soon.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Takes a look at a slot in, and tells how its partition moves.
    pub fn see(&mut self, slot: u32, seen: &PartitionProgress, now_ms: i64) -> Pace {
        let at = slot as usize;
        if at >= self.tracks.len() {
            self.tracks.resize(at + 1, Track::default());
        }
        let track = &mut self.tracks[at];
        if track.identity != seen.identity {
            self.moving.remove(&slot);
            let since_ms = if seen.caught_up_at_ms >= 0 { seen.caught_up_at_ms } else { now_ms };
            *track = Track { identity: seen.identity, since_ms, bytes: seen.bytes, fetched: is_fetched(seen) };
        }
        let since_before_ms = track.since_ms;
        track.look(seen, now_ms);
        let (since_ms, came) = (track.since_ms, seen.bytes != track.bytes);
        track.bytes = seen.bytes;
        let lag_records = seen.lag_records().unwrap_or(0);
        if lag_records > 0 || came {
            let anchor = Anchor { at_ms: now_ms, lag_records, bytes: seen.bytes };
            let moving = self.moving.entry(slot).or_insert_with(|| Moving::begin(anchor, seen.leo));
            moving.look(anchor, seen.leo, since_ms > since_before_ms);
        } else if let Some(moving) = self.moving.get_mut(&slot) {
            let anchor = Anchor { at_ms: now_ms, lag_records, bytes: seen.bytes };
            moving.look(anchor, seen.leo, true);
            if moving.older.bytes == seen.bytes {
                self.moving.remove(&slot);
            }
        }
        let lag_ms = lag_ms(seen, Some(since_ms), now_ms);
        let behind = is_fetched(seen) && lag_records > 0 && lag_ms.is_some_and(|lag_ms| lag_ms >= CATCH_UP_MS_MIN);
        let moving = self.moving.get(&slot);
        Pace {
            lag_ms,
            bytes_per_second: moving.map_or(Some(0), |moving| moving.bytes_per_second(seen.bytes, now_ms)),
            catch_up: moving.filter(|_| behind).map_or(CatchUp::None, |moving| moving.catch_up(seen, now_ms)),
        }
    }
}

impl Track {
    fn look(&mut self, seen: &PartitionProgress, now_ms: i64) {
        let fetched = is_fetched(seen);
        if fetched && seen.lag_records() == Some(0) {
            self.since_ms = now_ms;
        } else if fetched || self.fetched {
            // A partition that rests cannot tell what the source has meanwhile: what it said when it came to rest counts.
            self.since_ms = self.since_ms.max(seen.caught_up_at_ms);
        }
        self.fetched = fetched;
    }
}

impl Moving {
    fn begin(anchor: Anchor, leo: i64) -> Self {
        Self { older: anchor, newer: anchor, seen_at_ms: anchor.at_ms, start_leo: leo }
    }

    fn look(&mut self, now: Anchor, leo: i64, had_everything: bool) {
        let restarted = now.bytes < self.newer.bytes || now.at_ms - self.seen_at_ms > PACE_SILENCE_MS_MAX;
        if restarted || now.at_ms < self.newer.at_ms {
            let start_leo = self.start_leo.min(leo);
            *self = Self { start_leo, ..Self::begin(now, leo) };
        } else if now.at_ms - self.newer.at_ms >= PACE_WINDOW_MS {
            (self.older, self.newer) = (self.newer, now);
        }
        if had_everything {
            self.start_leo = leo;
        }
        self.seen_at_ms = now.at_ms;
    }

    /// The newest anchor that is old enough to measure from.
    fn base(&self, now_ms: i64) -> Option<Anchor> {
        let old_enough = |anchor: &&Anchor| now_ms - anchor.at_ms >= PACE_WINDOW_MS_MIN;
        [&self.newer, &self.older].into_iter().find(old_enough).copied()
    }

    fn bytes_per_second(&self, bytes: u64, now_ms: i64) -> Option<i64> {
        let base = self.base(now_ms)?;
        let more = i128::from(bytes.saturating_sub(base.bytes));
        i64::try_from(more * 1_000 / i128::from(now_ms - base.at_ms)).ok()
    }

    fn catch_up(&self, seen: &PartitionProgress, now_ms: i64) -> CatchUp {
        let (way, done) = (seen.source_high_watermark - self.start_leo, seen.leo - self.start_leo);
        let per_mille = if way > 0 { (i128::from(done.max(0)) * 1_000 / i128::from(way)).min(999) as i32 } else { 0 };
        let Some(base) = self.base(now_ms) else { return CatchUp::Measuring { per_mille } };
        let lag_records = seen.lag_records().unwrap_or(0);
        let (closed, took_ms) = (base.lag_records - lag_records, now_ms - base.at_ms);
        if closed <= 0 {
            return CatchUp::NotClosing { per_mille };
        }
        let eta_ms = i128::from(lag_records) * i128::from(took_ms) / i128::from(closed);
        CatchUp::Closing { per_mille, eta_ms: i64::try_from(eta_ms).unwrap_or(i64::MAX) }
    }
}

/// Whether records are fetched and the source answers: only then does the board know the source's end.
fn is_fetched(seen: &PartitionProgress) -> bool {
    let flows = matches!(seen.state, SlotState::Mirroring | SlotState::Fencing | SlotState::Preparing);
    flows && seen.fault == FaultCode::NONE
}

fn lag_ms(seen: &PartitionProgress, since_ms: Option<i64>, now_ms: i64) -> Option<i64> {
    match seen.state {
        SlotState::Absent | SlotState::Stopped => None,
        _ if is_fetched(seen) && seen.lag_records() == Some(0) => Some(0),
        _ => since_ms.map(|since_ms| (now_ms - since_ms).max(0)),
    }
}

#[cfg(test)]
mod tests;
