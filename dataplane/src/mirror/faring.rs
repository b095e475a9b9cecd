//! How a partition fares with its source: what it suffers from while it tries, what it failed of, when it tries again.

use std::time::{Duration, Instant};

use twinlog_proto::channel::progress::FaultCode;

use super::partition::Partition;
use super::plan::Doing;
use super::progress::FaultView;
use crate::disk::Disk;
use crate::fault::Fault;

impl<D: Disk> Partition<D> {
    /// It stops because of a fault; only a new wish or a higher attempt lets it go on.
    pub fn fail(&self, fault: &Fault) {
        let (from, to) = fault.range();
        tracing::error!(
            topic = &*self.place.topic,
            partition = self.place.index,
            from,
            to,
            "partition failed: {fault}"
        );
        let mut state = self.state.borrow_mut();
        state.doing = Doing::Failed;
        state.tried = Some(state.wish);
        state.carried_out = Some((state.version, state.wish.attempt));
        state.fault = FaultView { code: fault.code(), from, to };
    }

    /// Shows something that it suffers from while it goes on trying; what it failed of stands.
    pub fn suffer(&self, code: FaultCode) -> bool {
        let mut state = self.state.borrow_mut();
        if state.doing == Doing::Failed {
            return false;
        }
        let news = state.fault.code != code;
        state.fault = FaultView { code, from: -1, to: -1 };
        news
    }

    /// The source answered without an error. An answer that was on its way when the partition failed takes nothing back.
    pub fn met(&self) -> bool {
        let mut state = self.state.borrow_mut();
        if state.doing == Doing::Failed {
            return false;
        }
        let news = !state.met || state.fault.code != FaultCode::NONE;
        state.met = true;
        state.retry_at = None;
        state.pause.reset();
        state.fault = FaultView::NONE;
        news
    }

    /// Whether the source has answered since fetching began.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.state.borrow().met
    }

    /// Pauses after an error; gives the number of tries so far.
    pub fn pause(&self, now: Instant, random: u64) -> u32 {
        let mut state = self.state.borrow_mut();
        let ms = state.pause.next_ms(random);
        state.retry_at = Some(now + Duration::from_millis(ms));
        state.pause.tries()
    }

    /// When it may ask again, if it waits for that.
    #[must_use]
    pub fn retry_at(&self) -> Option<Instant> {
        let state = self.state.borrow();
        if state.doing == Doing::Mirroring { state.retry_at } else { None }
    }

    /// Corrupt fetches of the same offsets so far, this one included.
    pub fn corrupt_again(&self) -> u32 {
        let mut state = self.state.borrow_mut();
        state.corrupt_tries += 1;
        state.corrupt_tries
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::PathBuf;
    use std::rc::Rc;

    use twinlog_proto::assignment::Desired;
    use twinlog_proto::channel::progress::SlotState;
    use twinlog_proto::ids::Uuid;

    use super::*;
    use crate::disk::uring::UringDisk;
    use crate::log::LogRules;
    use crate::mirror::partition::Place;
    use crate::mirror::plan::Wish;

    fn partition() -> Partition<UringDisk> {
        let place = Place {
            slot: 0,
            topic: Rc::from("t"),
            topic_id: Uuid::default(),
            index: 0,
            data_dir: PathBuf::from("data"),
            rules: Cell::new(LogRules::default()),
        };
        let wish = Wish { desired: Desired::Mirror, attempt: 0, cut_to: -1 };
        Partition::new(0, place, wish, 1, 100)
    }

    #[test]
    fn an_answer_after_the_failure_takes_its_reason_not_back() {
        let partition = partition();
        partition.run();
        partition.fail(&Fault::partition_at(FaultCode::DISK_FULL, 7, -1, "no space".to_owned()));
        assert!(!partition.met() && !partition.suffer(FaultCode::UNREACHABLE), "nothing new to show");
        let shown = partition.board_value();
        assert_eq!((shown.state, shown.fault, shown.fault_from), (SlotState::Failed, FaultCode::DISK_FULL, 7));
        partition.run();
        assert!(partition.met());
        assert_eq!(partition.board_value().fault, FaultCode::NONE);
    }
}
