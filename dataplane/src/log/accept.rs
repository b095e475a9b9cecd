//! pure: whether a batch may follow what the log holds.
//!
//! Decided once per batch, from its header, before its checksum is known: the checksum decides later whether it counts.

use twinlog_proto::records::batch::BatchHeader;

use super::spec::AppendStop;

/// What the log holds, as far as the next batch is concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Have {
    /// The lowest offset that the batch may begin at.
    pub(super) next_offset: i64,
    /// Leader epoch of the batch before; -1 when there is none.
    pub(super) last_epoch: i32,
    /// Whether the log holds no batch at all.
    pub(super) empty: bool,
    /// Leader epoch that the region was fetched with.
    pub(super) epoch_max: i32,
}

/// What to do with the batch.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It follows.
    Take,
    /// It is the first batch of a log that begins inside of it: the first segment begins at this offset instead.
    TakeFrom(i64),
    /// It lies below the log end as a whole: its bytes are left out, what follows it is judged for itself.
    LeaveOut,
    /// It does not follow.
    Stop(AppendStop),
}

/// Judges a batch. Gaps are allowed (compaction leaves them); a batch spanning the start of an empty log is too.
pub(super) fn judge(have: &Have, batch: &BatchHeader) -> Verdict {
    let (offset, epoch) = (batch.base_offset, batch.leader_epoch);
    if batch.last_offset() < have.next_offset {
        return Verdict::LeaveOut;
    }
    if epoch > have.epoch_max {
        return Verdict::Stop(AppendStop::NewerEpoch { offset, epoch });
    }
    if epoch < 0 {
        return Verdict::Stop(AppendStop::NoEpoch { offset });
    }
    if epoch < have.last_epoch {
        return Verdict::Stop(AppendStop::EpochWentBack { offset, epoch, last: have.last_epoch });
    }
    if offset >= have.next_offset {
        return Verdict::Take;
    }
    if have.empty {
        return Verdict::TakeFrom(offset);
    }
    let (last_offset, next_offset) = (batch.last_offset(), have.next_offset);
    Verdict::Stop(AppendStop::Overlap { offset, last_offset, next_offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlog_proto::records::batch::HEADER_BYTES;

    fn batch(base_offset: i64, delta: i32, leader_epoch: i32) -> BatchHeader {
        let zero = BatchHeader::parse(&[0; HEADER_BYTES]);
        BatchHeader { base_offset, last_offset_delta: delta, leader_epoch, ..zero }
    }

    const HAVE: Have = Have { next_offset: 100, last_epoch: 3, empty: false, epoch_max: 5 };

    #[test]
    fn a_batch_at_or_above_the_end_follows_whatever_the_gap() {
        for offset in [100, 101, i64::MAX - 10] {
            assert!(matches!(judge(&HAVE, &batch(offset, 0, 3)), Verdict::Take));
        }
    }

    #[test]
    fn a_batch_below_the_end_follows_only_an_empty_log_inside_of_it() {
        assert!(matches!(judge(&HAVE, &batch(90, 20, 3)), Verdict::Stop(AppendStop::Overlap { .. })));
        let empty = Have { empty: true, last_epoch: -1, ..HAVE };
        assert!(matches!(judge(&empty, &batch(90, 20, 3)), Verdict::TakeFrom(90)));
    }

    #[test]
    fn a_batch_that_ends_below_the_log_end_is_left_out_whatever_its_epoch() {
        let empty = Have { empty: true, last_epoch: -1, ..HAVE };
        for have in [HAVE, empty] {
            for epoch in [-1, 2, 3, 9] {
                assert!(matches!(judge(&have, &batch(90, 9, epoch)), Verdict::LeaveOut));
            }
        }
    }

    #[test]
    fn epochs_may_rise_up_to_the_one_asked_with_and_never_fall() {
        assert!(matches!(judge(&HAVE, &batch(100, 0, 5)), Verdict::Take));
        assert!(matches!(judge(&HAVE, &batch(100, 0, 6)), Verdict::Stop(AppendStop::NewerEpoch { epoch: 6, .. })));
        assert!(matches!(judge(&HAVE, &batch(100, 0, 2)), Verdict::Stop(AppendStop::EpochWentBack { last: 3, .. })));
        assert!(matches!(judge(&HAVE, &batch(100, 0, -1)), Verdict::Stop(AppendStop::NoEpoch { .. })));
    }
}
