//! pure: what to do next with a partition, from what it is and what its assignment asks.
//!
//! Asked again after every assignment and after every finished job, until there is nothing left to do. Nothing here waits or
//! touches a file, and a step that was begun is seen as `busy` until it is over.

use twinlog_proto::assignment::Desired;

/// The wish of an assignment, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// The state wanted.
    pub desired: Desired,
    /// A higher number asks a failed partition to try again.
    pub attempt: i32,
    /// Where the log is cut first, -1 for no cut.
    pub cut_to: i64,
}

/// Whether there is a local log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogHere {
    /// Nobody has looked yet, or it was closed since.
    Unknown,
    /// There is no directory.
    Absent,
    /// It is open.
    Open,
}

/// What the partition does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Nothing yet.
    Nothing,
    /// Fetching, or on the way to it.
    Mirroring,
    /// Open and quiet.
    Paused,
    /// Finished.
    Stopped,
    /// Stopped by a fault.
    Failed,
}

/// What a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Have {
    /// A job works on the log.
    pub busy: bool,
    /// Whether there is a log.
    pub log: LogHere,
    /// The log failed and was not put in order since.
    pub broken: bool,
    /// What it does.
    pub doing: Doing,
    /// The wish that was carried out or failed last.
    pub tried: Option<Wish>,
    /// The cut (offset, attempt) that was made last.
    pub cut: Option<(i64, i32)>,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A job is under way; ask again when it is over.
    Wait,
    /// Everything is as wanted.
    Done,
    /// Look for the directory, open and recover what is there.
    Open,
    /// Put the log in order after a failure.
    Settle,
    /// Throw the folder away.
    Discard,
    /// Cut the log there.
    Cut(i64),
    /// Fetch.
    Run,
    /// Stop fetching.
    Pause,
    /// Stop fetching and finish the files.
    Stop,
    /// Let go of everything.
    Remove,
}

/// The next step from `have` towards `wish`.
#[must_use]
pub fn next_step(have: Have, wish: Wish) -> Step {
    if have.busy {
        return Step::Wait;
    }
    if wish.desired == Desired::Remove {
        return Step::Remove;
    }
    if have.doing == Doing::Failed && !asks_again(have.tried, wish) {
        return Step::Done;
    }
    if wish.desired == Desired::Discard {
        // What was thrown away stays so only until somebody else makes a folder there: each order looks for itself.
        let is_done = have.doing == Doing::Stopped && have.tried == Some(wish);
        return if is_done { Step::Done } else { Step::Discard };
    }
    let cut_due = wish.cut_to >= 0 && have.cut != Some((wish.cut_to, wish.attempt));
    let as_wished = matches!(
        (wish.desired, have.doing),
        (Desired::Mirror, Doing::Mirroring) | (Desired::Pause, Doing::Paused) | (Desired::Stop, Doing::Stopped)
    );
    if as_wished && !(cut_due && have.log != LogHere::Absent) {
        return Step::Done;
    }
    if have.log == LogHere::Unknown {
        return Step::Open;
    }
    if have.broken {
        return Step::Settle;
    }
    if cut_due && have.log == LogHere::Open {
        return Step::Cut(wish.cut_to);
    }
    match wish.desired {
        Desired::Mirror => Step::Run,
        Desired::Pause => Step::Pause,
        Desired::Stop => Step::Stop,
        Desired::Remove => Step::Remove,
        Desired::Discard => Step::Discard,
    }
}

/// Whether a failed partition is asked to try again: by a higher attempt, or by another wish.
fn asks_again(tried: Option<Wish>, wish: Wish) -> bool {
    tried.is_none_or(|tried| {
        wish.attempt > tried.attempt
            || wish.desired != tried.desired
            || (wish.cut_to >= 0 && wish.cut_to != tried.cut_to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(desired: Desired) -> Wish {
        Wish { desired, attempt: 0, cut_to: -1 }
    }

    fn have(log: LogHere, doing: Doing) -> Have {
        Have { busy: false, log, broken: false, doing, tried: Some(wish(Desired::Mirror)), cut: None }
    }

    #[test]
    fn a_new_partition_is_opened_and_then_run_paused_or_stopped() {
        for (desired, step) in
            [(Desired::Mirror, Step::Run), (Desired::Pause, Step::Pause), (Desired::Stop, Step::Stop)]
        {
            assert_eq!(next_step(have(LogHere::Unknown, Doing::Nothing), wish(desired)), Step::Open);
            assert_eq!(next_step(have(LogHere::Open, Doing::Nothing), wish(desired)), step);
            assert_eq!(next_step(have(LogHere::Absent, Doing::Nothing), wish(desired)), step);
        }
    }

    #[test]
    fn nothing_starts_while_a_job_is_under_way() {
        let busy = Have { busy: true, ..have(LogHere::Open, Doing::Mirroring) };
        assert_eq!(next_step(busy, wish(Desired::Remove)), Step::Wait);
    }

    #[test]
    fn a_failed_partition_goes_on_only_by_a_higher_attempt_or_another_wish() {
        let failed = have(LogHere::Open, Doing::Failed);
        assert_eq!(next_step(failed, wish(Desired::Mirror)), Step::Done);
        assert_eq!(next_step(failed, Wish { attempt: 1, ..wish(Desired::Mirror) }), Step::Run);
        assert_eq!(next_step(failed, wish(Desired::Stop)), Step::Stop);
        assert_eq!(next_step(failed, Wish { cut_to: 7, ..wish(Desired::Mirror) }), Step::Cut(7));
        assert_eq!(next_step(failed, wish(Desired::Remove)), Step::Remove);
    }

    #[test]
    fn a_cut_is_made_once_and_again_only_when_asked_anew() {
        let asked = Wish { cut_to: 7, attempt: 2, ..wish(Desired::Mirror) };
        let open = have(LogHere::Open, Doing::Stopped);
        assert_eq!(next_step(open, asked), Step::Cut(7));
        let done = Have { cut: Some((7, 2)), ..open };
        assert_eq!(next_step(done, asked), Step::Run);
        assert_eq!(next_step(done, Wish { attempt: 3, ..asked }), Step::Cut(7));
    }

    #[test]
    fn a_stopped_log_is_closed_and_is_opened_again_only_for_something_new() {
        let closed = have(LogHere::Unknown, Doing::Stopped);
        assert_eq!(next_step(closed, wish(Desired::Stop)), Step::Done);
        assert_eq!(next_step(closed, wish(Desired::Mirror)), Step::Open);
        assert_eq!(next_step(closed, Wish { cut_to: 5, ..wish(Desired::Stop) }), Step::Open);
    }

    #[test]
    fn nothing_is_cut_where_nothing_is() {
        assert_eq!(
            next_step(have(LogHere::Absent, Doing::Nothing), Wish { cut_to: 0, ..wish(Desired::Mirror) }),
            Step::Run
        );
    }

    #[test]
    fn a_broken_log_is_put_in_order_before_anything_else_is_asked_of_it() {
        let broken = Have { broken: true, ..have(LogHere::Open, Doing::Failed) };
        assert_eq!(next_step(broken, wish(Desired::Mirror)), Step::Done);
        assert_eq!(next_step(broken, wish(Desired::Stop)), Step::Settle);
    }

    #[test]
    fn a_folder_is_thrown_away_whatever_is_known_of_it_and_once_for_each_order() {
        let asked = wish(Desired::Discard);
        for log in [LogHere::Unknown, LogHere::Absent, LogHere::Open] {
            for doing in [Doing::Nothing, Doing::Mirroring, Doing::Paused, Doing::Stopped, Doing::Failed] {
                let broken = Have { broken: true, ..have(log, doing) };
                assert_eq!(next_step(broken, asked), Step::Discard, "{log:?} {doing:?}");
            }
        }
        let done = Have { tried: Some(asked), ..have(LogHere::Absent, Doing::Stopped) };
        assert_eq!(next_step(done, asked), Step::Done);
        assert_eq!(next_step(done, Wish { attempt: 1, ..asked }), Step::Discard);
        assert_eq!(next_step(done, wish(Desired::Mirror)), Step::Run);
        let failed = Have { doing: Doing::Failed, ..done };
        assert_eq!(next_step(failed, asked), Step::Done, "it is not tried again by itself");
    }

    #[test]
    fn a_stopped_partition_may_run_again() {
        assert_eq!(next_step(have(LogHere::Open, Doing::Stopped), wish(Desired::Mirror)), Step::Run);
        assert_eq!(next_step(have(LogHere::Open, Doing::Paused), wish(Desired::Mirror)), Step::Run);
    }
}
