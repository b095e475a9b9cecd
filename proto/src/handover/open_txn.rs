//! pure: one open transaction of a partition: what `__transaction_state` and the markers in other partitions say of it.
//!
//! With `transaction.version` 2 each end of a transaction raises the producer's epoch, so that the epoch of its records says which
//! decision is meant. With older clients many transactions share an epoch, one after the other: the next begins when all markers of
//! the one before it are written. The open one is then the first that has this partition and began after the producer's last marker
//! in it. That is told by the brokers' clocks where markers are there, else by the times that the records carry.

use std::fmt;

use super::resolve::PartitionEnd;
use super::trail::{Bounds, Ended};
use crate::storage::coordinator::transactions::{TransactionLogValue, TransactionState};
use crate::storage::producer_snapshot::{NONE, ProducerEntry};

/// Why a transaction ends as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The coordinator had decided; this is the state that it noted.
    Decided(TransactionState),
    /// The coordinator had decided about the transaction that was open at the time of these records, by this state.
    DecidedThen(TransactionState),
    /// Another partition has the marker that ends it.
    MarkedElsewhere,
    /// The coordinator knew it as open.
    Ongoing,
    /// It began after the last decision that was mirrored.
    AfterLastDecision,
    /// No transactional id with this producer and epoch was mirrored.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(state) => write!(f, "__transaction_state says {}", state.name()),
            Self::DecidedThen(state) => {
                write!(f, "__transaction_state says {} of the transaction that was open then", state.name())
            }
            Self::MarkedElsewhere => f.write_str("another partition of it has the marker that ends it"),
            Self::Ongoing => f.write_str("nothing was decided: __transaction_state says Ongoing"),
            Self::AfterLastDecision => f.write_str("it began after the last decision that was mirrored"),
            Self::Unknown => f.write_str("__transaction_state does not know this producer at this epoch"),
        }
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) commit: bool,
    pub(super) marker_epoch: i16,
    pub(super) why: Why,
}

/// A transaction that shares its epoch with others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub(super) start_ms: i64,
    decided: Option<Decided>,
    /// It is known to have the partition.
    is_here: bool,
}

impl Timed {
    pub(super) fn is_decided(&self) -> bool {
        self.decided.is_some()
    }
}

#[derive(Debug, Clone, Copy)]
struct Decided {
    commit: bool,
    marker_epoch: i16,
    at_ms: i64,
    state: TransactionState,
}

/// An open transaction and what was learnt about it.
#[derive(Debug, Clone)]
pub(super) struct OpenTxn {
    /// Index of its partition.
    pub(super) place: usize,
    pub(super) producer: ProducerEntry,
    pub(super) transactional_id: Option<String>,
    bounds: Bounds,
    /// By its epoch alone.
    decided: Option<Decided>,
    /// The transaction of its epoch that it may be.
    candidate: Option<Timed>,
    /// No later one can be it.
    is_found: bool,
    /// Start of the last transaction that is known to be one of other partitions.
    elsewhere_ms: Option<i64>,
    /// A decision about an earlier transaction was seen.
    had_earlier: bool,
    /// Transactions of its epoch are those of an older client.
    shares_epoch: bool,
    ongoing: bool,
}

impl OpenTxn {
    pub(super) fn new(place: usize, producer: ProducerEntry, bounds: Bounds) -> Self {
        Self {
            place,
            producer,
            transactional_id: None,
            bounds,
            decided: None,
            candidate: None,
            is_found: false,
            elsewhere_ms: None,
            had_earlier: false,
            shares_epoch: false,
            ongoing: false,
        }
    }

    /// Takes a state of the transactional id `id`, in the order in which they were written.
    pub(super) fn note(&mut self, id: &str, value: &TransactionLogValue, end: &PartitionEnd) {
        let state = value.state();
        let is_here = value.producer_id == self.producer.producer_id;
        let epoch = self.producer.epoch;
        if is_here {
            self.transactional_id = Some(id.to_owned());
        }
        self.ongoing = is_here && state == TransactionState::Ongoing && value.producer_epoch == epoch;
        let commit = matches!(state, TransactionState::PrepareCommit | TransactionState::CompleteCommit);
        let abort = matches!(state, TransactionState::PrepareAbort | TransactionState::CompleteAbort);
        let decided =
            |marker_epoch| Decided { commit, marker_epoch, at_ms: value.transaction_last_update_timestamp_ms, state };
        if value.raises_epochs() && (commit || abort) {
            // The epochs of this producer id may be used up by this end: its last one is the largest there is.
            let ended_by = if is_here { value.producer_epoch } else { i16::MAX };
            let ends = if commit { Some(ended_by) == epoch.checked_add(1) } else { ended_by > epoch };
            if ends && self.decided.is_none() {
                self.decided = Some(decided(ended_by));
            }
            return;
        }
        let ends = (commit && value.producer_epoch == epoch)
            || (abort && (value.producer_epoch == epoch || Some(value.producer_epoch) == epoch.checked_add(1)));
        self.shares_epoch |= is_here && ends && !value.raises_epochs();
        if is_here && (ends || self.ongoing) {
            // A complete transaction names no partitions any more.
            let names_none = value.transaction_partitions.as_ref().is_some_and(Vec::is_empty);
            let is_here = value.has_partition(&end.topic, end.partition);
            let start_ms = value.transaction_start_timestamp_ms;
            if !is_here && !names_none {
                self.elsewhere_ms = Some(start_ms);
            } else if is_here || self.elsewhere_ms != Some(start_ms) {
                let decided = ends.then(|| decided(value.producer_epoch));
                self.note_timed(Timed { start_ms, decided, is_here });
            }
        }
    }

    fn note_timed(&mut self, new: Timed) {
        if let Some(known) = self.candidate.as_mut().filter(|known| known.start_ms == new.start_ms) {
            // The first word is the decision's time, the later ones that of its markers.
            known.decided = known.decided.or(new.decided);
            known.is_here |= new.is_here;
            return;
        }
        if self.is_found {
            return;
        }
        if let Some(known) = self.candidate
            && self.may_be(&known, Some(new.start_ms))
        {
            self.is_found = true;
            return;
        }
        self.had_earlier |= self.candidate.is_some();
        self.candidate = Some(new);
    }

    /// Whether it may be this transaction, behind which one begins at `next_ms`, if one was seen.
    fn may_be(&self, timed: &Timed, next_ms: Option<i64>) -> bool {
        let Timed { start_ms, decided, is_here } = *timed;
        let Bounds { previous_end_ms, after_ms, before_ms } = self.bounds;
        if before_ms.is_some_and(|before| start_ms > before)
            || decided.is_some_and(|decided| after_ms.is_some_and(|after| decided.at_ms < after))
        {
            return false;
        }
        if let Some(previous) = previous_end_ms {
            // The one before ended by that marker, just after it was decided. Brokers' clocks may differ by half of a transaction.
            let middle = decided.map_or(start_ms, |decided| start_ms.midpoint(decided.at_ms));
            return middle >= previous;
        }
        let written = self.producer.timestamp;
        // Not one of those that ended here before: there are none, or none that late.
        let is_none_before = self.producer.coordinator_epoch == NONE || after_ms.is_some();
        match decided {
            None => true,
            Some(decided) if is_here && is_none_before => {
                written <= decided.at_ms || next_ms.is_some_and(|next| next > written)
            }
            Some(decided) => (start_ms..=decided.at_ms).contains(&written),
        }
    }

    /// The transaction of its epoch that it is, as `__transaction_state` tells.
    pub(super) fn found(&self) -> Option<Timed> {
        self.candidate.filter(|timed| self.is_found || self.may_be(timed, None))
    }

    /// Decides. `ends` are the ends of transactions of its producer and epoch in other partitions, `of_found` is the one among them that
    /// ends the transaction that was found.
    pub(super) fn decide(&self, ends: &[Ended], of_found: Option<Ended>) -> Decision {
        let epoch = self.producer.epoch;
        let raised = |ended: &&Ended| ended.marker_epoch > epoch;
        // A marker of the records' own epoch is that of an older client, whose other transactions share the epoch.
        let is_shared = self.shares_epoch || ends.iter().any(|ended| ended.marker_epoch == epoch);
        let last = ends.iter().find(raised).filter(|_| !is_shared);
        let marked = |ended: &Ended| Decision {
            commit: ended.commit,
            marker_epoch: ended.marker_epoch,
            why: Why::MarkedElsewhere,
        };
        if let Some(Decided { commit, marker_epoch, state, .. }) = self.decided {
            // The coordinator may have aborted a later transaction, and what it said of this one was compacted away.
            let is_proven = last.filter(|ended| ended.marker_epoch < marker_epoch);
            return is_proven.map_or(Decision { commit, marker_epoch, why: Why::Decided(state) }, marked);
        }
        if let Some(last) = last {
            return marked(last);
        }
        let found = self.found();
        if let Some(Decided { commit, marker_epoch, state, .. }) = found.and_then(|timed| timed.decided) {
            return Decision { commit, marker_epoch, why: Why::DecidedThen(state) };
        }
        if let Some(ended) = of_found {
            return marked(&ended);
        }
        self.abort(match found {
            Some(_) if self.ongoing => Why::Ongoing,
            None if self.candidate.is_some() || self.had_earlier => Why::AfterLastDecision,
            _ if self.ongoing => Why::Ongoing,
            _ => Why::Unknown,
        })
    }

    /// As a coordinator aborts by itself: the producer is fenced by the next epoch.
    fn abort(&self, why: Why) -> Decision {
        Decision { commit: false, marker_epoch: self.producer.epoch.saturating_add(1), why }
    }
}
