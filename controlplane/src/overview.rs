//! pure: each mirror in one row: what metrics, health and `twinlog status` are made of.

use crate::limits::FAILED_NAMED_MAX;
use crate::mirror::catalog::{Catalog, Mirror, Partition, Topic};
use crate::mirror::machine::STATES;
use crate::plane::lag::{lag_bytes, lag_records, lso_lag_records};
use crate::plane::pace::{CatchUp, Pace};
use crate::plane::view::{self, View};
use std::collections::BTreeMap;
use twinlog_proto::channel::progress::{FaultCode, PartitionProgress};
use twinlog_proto::mirror_state::MirrorState;

/// One mirror, all its partitions together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overview {
    /// Its name.
    pub mirror: String,
    /// Its topics.
    pub topics: usize,
    /// Its partitions.
    pub partitions: usize,
    /// Partitions by state; every state that is reported has an entry.
    pub states: BTreeMap<MirrorState, usize>,
    /// Lag, each as the sum and the largest of the partitions whose lag is known.
    pub lag_records: Lag,
    /// See `lag_records`.
    pub lag_bytes: Lag,
    /// See `lag_records`; the sum has no use.
    pub lag_ms: Lag,
    /// Records that open transactions hold back at the source.
    pub lso_lag_records: Lag,
    /// Bytes that come in a second.
    pub bytes_per_second: Lag,
    /// Partitions that should mirror and whose lag nobody knows.
    pub lag_unknown: usize,
    /// Partitions that are behind.
    pub behind: usize,
    /// Those of them that come no nearer.
    pub not_closing: usize,
    /// When the last of those that come nearer has everything.
    pub eta_ms: Option<i64>,
    /// Records of the way of all that are behind, and how many are left of it.
    pub way: (f64, f64),
    /// Automatic retries of failed partitions so far.
    pub retries: u64,
    /// Failed partitions that wait for a person.
    pub not_retried: usize,
    /// Partitions by what they suffer from while they go on trying.
    pub suffering: BTreeMap<FaultCode, usize>,
    /// Some of the failed partitions.
    pub failed: Vec<Failed>,
}

/// A sum and its largest part; `None` when nothing was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// All together.
    pub sum: Option<i64>,
    /// The largest.
    pub max: Option<i64>,
}

/// A failed partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its topic.
    pub topic: String,
    /// Its index.
    pub partition: i32,
    /// Why.
    pub why: String,
    /// Whether it is tried again by itself.
    pub retried: bool,
}

/// Every mirror of the catalog.
#[must_use]
pub fn of_all(catalog: &Catalog, view: &View<'_>) -> Vec<Overview> {
    catalog.mirrors().map(|(name, mirror)| Overview::of(name, mirror, view)).collect()
}

impl Overview {
    fn of(name: &str, mirror: &Mirror, view: &View<'_>) -> Self {
        let states = STATES.iter().filter(|state| **state != MirrorState::Unknown).map(|state| (*state, 0)).collect();
        let mut all = Self { mirror: name.to_owned(), topics: mirror.topics.len(), states, ..Self::default() };
        for (name, topic) in &mirror.topics {
            for (index, partition) in &topic.partitions {
                all.take(name, topic, *index, partition, view);
            }
        }
        all
    }

    fn take(&mut self, name: &str, topic: &Topic, index: i32, partition: &Partition, view: &View<'_>) {
        let standing = &partition.standing;
        let moves = view.moves(topic, index);
        let state = view::state(standing.state, moves.as_ref().map(|(seen, _)| seen));
        self.partitions += 1;
        *self.states.entry(state).or_default() += 1;
        self.retries += u64::try_from(standing.retry_attempt).unwrap_or(0);
        if state == MirrorState::Failed {
            self.not_retried += usize::from(standing.retry_attempt < 0);
            if self.failed.len() < FAILED_NAMED_MAX {
                let why = standing.message.clone().unwrap_or_default();
                let retried = standing.retry_attempt >= 0;
                self.failed.push(Failed { topic: name.to_owned(), partition: index, why, retried });
            }
        }
        match moves {
            Some((seen, pace)) => self.see(&seen, pace),
            None if matches!(state, MirrorState::Stopped | MirrorState::Initializing) => {}
            None => self.lag_unknown += 1,
        }
    }

    fn see(&mut self, seen: &PartitionProgress, pace: Pace) {
        self.lag_records.add(lag_records(seen));
        self.lag_bytes.add(lag_bytes(seen));
        self.lag_ms.add(pace.lag_ms);
        self.lso_lag_records.add(lso_lag_records(seen));
        self.bytes_per_second.add(pace.bytes_per_second);
        if seen.fault != FaultCode::NONE && seen.state != twinlog_proto::channel::progress::SlotState::Failed {
            *self.suffering.entry(seen.fault).or_default() += 1;
        }
        let per_mille = match pace.catch_up {
            CatchUp::None => return,
            CatchUp::Measuring { per_mille } => per_mille,
            CatchUp::Closing { per_mille, eta_ms } => {
                self.eta_ms = self.eta_ms.max(Some(eta_ms));
                per_mille
            }
            CatchUp::NotClosing { per_mille } => {
                self.not_closing += 1;
                per_mille
            }
        };
        let left = seen.lag_records().unwrap_or(0) as f64;
        self.behind += 1;
        self.way.0 += left * 1_000.0 / f64::from((1_000 - per_mille).max(1));
        self.way.1 += left;
    }

    /// How far those are that are behind, 0.0 to 1.0; `None` when none is.
    #[must_use]
    pub fn caught_up_share(&self) -> Option<f64> {
        (self.way.0 > 0.0).then(|| 1.0 - self.way.1 / self.way.0)
    }

    /// Partitions in a state.
    #[must_use]
    pub fn in_state(&self, state: MirrorState) -> usize {
        self.states.get(&state).copied().unwrap_or(0)
    }
}

impl Lag {
    fn add(&mut self, more: Option<i64>) {
        let Some(more) = more else { return };
        self.sum = Some(self.sum.unwrap_or(0).saturating_add(more));
        self.max = self.max.max(Some(more));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::catalog::{Desired, MirrorFacts, Placement, Standing, StateRecord, TopicFacts, TopicSettings};
    use crate::plane::view::tests::Board;
    use twinlog_proto::channel::progress::{SlotState, identity};
    use twinlog_proto::ids::Uuid;

    const ID: Uuid = Uuid([3; 16]);

    /// A topic whose partitions have these standings, each in the slot of its index.
    pub(crate) fn catalog(standings: &[Standing]) -> Catalog {
        let mut catalog = Catalog::default();
        let (mirror, topic) = (|| "m".to_owned(), || "t".to_owned());
        catalog.apply(&StateRecord::Mirror { mirror: mirror(), facts: Some(MirrorFacts::default()) });
        let partition_count = standings.len() as i32;
        let facts =
            TopicFacts { id: ID, desired: Desired::Mirror, partition_count, settings: TopicSettings::default() };
        catalog.apply(&StateRecord::Topic { mirror: mirror(), topic: topic(), facts: Some(facts) });
        for (partition, standing) in (0..).zip(standings) {
            let (mirror, topic, standing) = (mirror, topic, standing.clone());
            let placement = Some(Placement {
                slot: partition as u32,
                directory: "/d".into(),
                attempt: 0,
                asked_version: 1,
                discard: false,
            });
            let record = StateRecord::Placement { mirror: mirror(), topic: topic(), partition, placement };
            catalog.apply(&record);
            let record = StateRecord::Standing { mirror: mirror(), topic: topic(), topic_id: ID, partition, standing };
            catalog.apply(&record);
        }
        catalog
    }

    #[test]
    fn a_mirror_is_the_sum_of_its_partitions_and_what_is_unknown_is_counted() {
        let standing = |state| Standing { state, ..Standing::default() };
        let failed = Standing { retry_attempt: -1, message: Some("gap: why".into()), ..standing(MirrorState::Failed) };
        let catalog = catalog(&[
            standing(MirrorState::Mirroring),
            standing(MirrorState::Mirroring),
            standing(MirrorState::Stopped),
            failed,
            standing(MirrorState::Mirroring),
        ]);
        let seen = |index, state| PartitionProgress {
            leo: 90,
            source_high_watermark: 100,
            source_lso: 97,
            lag_bytes: 1_000,
            caught_up_at_ms: 4_000,
            ..PartitionProgress::unknown(identity(ID, index), state)
        };
        let cut_off = PartitionProgress { fault: FaultCode::UNREACHABLE, leo: 70, ..seen(1, SlotState::Mirroring) };
        let board = Board([(0, seen(0, SlotState::Mirroring)), (1, cut_off), (2, seen(2, SlotState::Stopped))].into());
        let all = of_all(&catalog, &View::new(&board, 9_000)).remove(0);
        assert_eq!((all.topics, all.partitions, all.lag_unknown), (1, 5, 2));
        assert_eq!(all.lag_records, Lag { sum: Some(40), max: Some(30) });
        assert_eq!((all.lag_bytes.sum, all.lag_ms.max, all.lso_lag_records.max), (Some(2_000), Some(5_000), Some(3)));
        assert_eq!((all.in_state(MirrorState::Mirroring), all.in_state(MirrorState::Failed)), (3, 1));
        assert_eq!((all.not_retried, all.suffering), (1, [(FaultCode::UNREACHABLE, 1)].into()));
        assert_eq!(all.failed, [Failed { topic: "t".into(), partition: 3, why: "gap: why".into(), retried: false }]);
        assert_eq!((all.behind, all.eta_ms), (0, None));
    }
}
