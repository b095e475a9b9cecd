//! pure: the partitions of a topic or a mirror in one row.

use super::describe::Partition;
use super::units;
use serde::Serialize;
use std::collections::BTreeMap;

/// Many partitions together. `None` is "unknown of all of them".
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sums {
    /// How many.
    pub(super) partitions: usize,
    /// How many in which state.
    pub(super) states: BTreeMap<String, usize>,
    /// Records that are missing here.
    pub(super) lag_records: Option<i64>,
    /// Bytes that are missing here.
    pub(super) lag_bytes: Option<i64>,
    /// The longest time since a partition had everything.
    pub(super) lag_ms: Option<i64>,
    /// Partitions that mirror, and whose lag is not known.
    pub(super) lag_unknown: usize,
    /// Records that open transactions hold back from transactional readers.
    pub(super) lso_lag_records: Option<i64>,
    /// Bytes that came in a second, of late.
    pub(super) bytes_per_second: Option<i64>,
    /// How far those are that are behind; `None` when none is.
    pub(super) catch_up_percent: Option<f64>,
    /// When the last of them has everything; `None` when none is behind, or that is not known.
    pub(super) eta_ms: Option<i64>,
    /// Whether all that are behind come nearer; `None` when none is behind, or that is not known.
    pub(super) catching_up: Option<bool>,
}

impl Sums {
    /// Of these partitions.
    pub(super) fn of<'p>(partitions: impl Iterator<Item = &'p Partition>) -> Self {
        let mut sums = Self::default();
        let (mut way, mut left, mut unmeasured) = (0.0, 0.0, false);
        for p in partitions {
            sums.partitions += 1;
            match sums.states.get_mut(&p.state) {
                Some(count) => *count += 1,
                None => drop(sums.states.insert(p.state.clone(), 1)),
            }
            add(&mut sums.lag_records, p.lag_records);
            add(&mut sums.lag_bytes, p.lag_bytes);
            add(&mut sums.lso_lag_records, p.lso_lag_records);
            add(&mut sums.bytes_per_second, p.bytes_per_second);
            sums.lag_ms = sums.lag_ms.max(p.lag_ms);
            if p.lag_records.is_none() && !matches!(p.state.as_str(), "STOPPED" | "INITIALIZING") {
                sums.lag_unknown += 1;
            }
            let Some(percent) = p.catch_up_percent else { continue };
            let lag = p.lag_records.unwrap_or(0) as f64;
            left += lag;
            way += lag / (1.0 - percent / 100.0).max(0.001);
            sums.eta_ms = sums.eta_ms.max(p.eta_ms);
            match p.catching_up {
                None => unmeasured = true,
                Some(closing) => sums.catching_up = Some(sums.catching_up.unwrap_or(true) && closing),
            }
        }
        if way > 0.0 {
            sums.catch_up_percent = Some(((1.0 - left / way) * 1_000.0).round() / 10.0);
        }
        if sums.catching_up == Some(false) || unmeasured {
            sums.eta_ms = None;
        }
        if unmeasured && sums.catching_up == Some(true) {
            sums.catching_up = None;
        }
        sums
    }

    /// The states and how many partitions are in each.
    pub(super) fn states(&self) -> String {
        self.states.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
    }

    /// How a catch-up goes, in words; empty when there is none.
    pub(super) fn catch_up(&self) -> String {
        catch_up(self.catch_up_percent, self.catching_up, self.eta_ms)
    }
}

/// How a catch-up goes, in words; empty when there is none.
pub(super) fn catch_up(percent: Option<f64>, catching_up: Option<bool>, eta_ms: Option<i64>) -> String {
    match (percent, catching_up, eta_ms) {
        (None, ..) => String::new(),
        (Some(percent), Some(false), _) => format!("{percent:.1} %, not catching up"),
        (Some(percent), _, Some(eta_ms)) => format!("{percent:.1} %, {} to go", units::time(eta_ms)),
        (Some(percent), ..) => format!("{percent:.1} %"),
    }
}

fn add(sum: &mut Option<i64>, more: Option<i64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::messages::describe_mirrors::PartitionDetail;

    fn partition(lag: i64, lag_ms: i64, catch_up_per_mille: i32, catch_up_eta_ms: i64) -> Partition {
        let state = "MIRRORING".to_owned();
        let behind = PartitionDetail { lag, lag_ms, catch_up_per_mille, catch_up_eta_ms, state, ..Default::default() };
        Partition::from(behind)
    }

    #[test]
    fn what_is_unknown_is_counted_and_not_added() {
        let sums = Sums::of([partition(5, 70, -1, -1), partition(-1, -1, -1, -1), partition(7, 20, -1, -1)].iter());
        assert_eq!((sums.partitions, sums.lag_records, sums.lag_ms, sums.lag_unknown), (3, Some(12), Some(70), 1));
        assert_eq!((sums.lag_bytes, sums.catch_up_percent, sums.catching_up), (None, None, None));
        assert_eq!(sums.states(), "3 MIRRORING");
        assert_eq!(Sums::of([].iter()), Sums::default());
    }

    #[test]
    fn a_mirror_has_caught_up_when_its_last_partition_has() {
        let closing = [partition(100, 9_000, 900, 4_000), partition(500, 9_000, 500, 60_000), partition(0, 0, -1, -1)];
        let sums = Sums::of(closing.iter());
        assert_eq!((sums.catching_up, sums.eta_ms), (Some(true), Some(60_000)));
        assert_eq!(sums.catch_up(), "70.0 %, 1 min 0 s to go");
        let stuck = [partition(100, 9_000, 900, 4_000), partition(500, 9_000, 500, -2)];
        assert_eq!(Sums::of(stuck.iter()).catch_up(), "70.0 %, not catching up");
        let measuring = [partition(100, 9_000, 900, 4_000), partition(500, 9_000, 500, -1)];
        let sums = Sums::of(measuring.iter());
        assert_eq!((sums.catching_up, sums.eta_ms), (None, None));
    }
}
