//! The named steps of a change on its way from decision to answer, at each of which a test kills the process.
//!
//! `TWINLOG_KILL_AT=NAME[:N]` ends the process as SIGKILL does when it passes the step for the Nth time. It is read once,
//! at the start; a process that was not told so pays one load of a variable at each step. What has to hold after a kill at
//! any of them is checked by `tests/it/killed_at_every_step.rs`. The steps of the hand-over, which the command takes, are in
//! `handover/journal.rs`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable.
pub const VARIABLE: &str = "TWINLOG_KILL_AT";

macro_rules! steps {
    ($($step:ident = $name:literal, $about:literal;)*) => {
        /// What has just been done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Step { $(#[doc = $about] $step),* }

        impl Step {
            /// All of them, in the order in which a change passes them.
            pub const ALL: &'static [Self] = &[$(Self::$step),*];

            /// Its name in the variable.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$step => $name),* }
            }
        }
    };
}

steps! {
    StartReplayed = "start-replayed", "The log was replayed, a torn tail is still there.";
    StartOpened = "start-opened", "The torn tail is cut off.";
    StartRestored = "start-restored", "The assignments are what the log says.";
    ChangeDecided = "change-decided", "A change is decided, nothing of it is on disk.";
    ChangeWritten = "change-written", "Its batch is written and not synced.";
    ChangeDurable = "change-durable", "Its batch is synced; nobody was told.";
    CatalogReplaced = "catalog-replaced", "Whoever reads sees the change.";
    AssignmentAside = "assignment-aside", "The new assignment is written beside the old one.";
    AssignmentRenamed = "assignment-renamed", "It has the old one's name, the folder is not synced.";
    AssignmentDurable = "assignment-durable", "The assignment is durable, the data plane was not told.";
    OrderSent = "order-sent", "The data plane was told.";
    AssignmentGone = "assignment-gone", "The assignment of a deleted mirror is gone, the data plane was not told.";
    RemovalSent = "removal-sent", "The data plane was told to let go of a mirror.";
    AnswerReleased = "answer-released", "The answers are on their way to their connections.";
    EventSeen = "event-seen", "The board showed something new, nothing of it is on disk.";
    EndDecided = "end-decided", "Where mirroring ended is decided together with STOPPED, nothing is on disk.";
    EndWritten = "end-written", "The batch with both is written and not synced.";
    EndDurable = "end-durable", "The batch with both is synced; nobody sees it.";
    EndShown = "end-shown", "Whoever reads sees both.";
    SnapshotAside = "snapshot-aside", "The compacted log is written and synced beside the long one.";
    SnapshotRenamed = "snapshot-renamed", "It has the long one's name, the folder is not synced.";
    SnapshotDurable = "snapshot-durable", "The compacted log is the log.";
}

struct Armed {
    step: &'static str,
    left: AtomicU32,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Reads the variable; gives what it said.
///
/// # Errors
/// The value, when it names no step of the control plane.
pub fn arm() -> Result<Option<Step>, String> {
    let names: Vec<&'static str> = Step::ALL.iter().map(|step| step.name()).collect();
    let armed = arm_among(&names)?;
    Ok(armed.and_then(|name| Step::ALL.iter().copied().find(|step| step.name() == name)))
}

/// The same for a process with other steps, which are called `names`.
///
/// # Errors
/// The value, when it names none of them.
pub fn arm_among(names: &[&'static str]) -> Result<Option<&'static str>, String> {
    let Some(value) = std::env::var_os(VARIABLE) else {
        ARMED.get_or_init(|| None);
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    let (step, times) = parse(names, &value).ok_or(value)?;
    ARMED.get_or_init(|| Some(Armed { step, left: AtomicU32::new(times) }));
    Ok(Some(step))
}

fn parse(names: &[&'static str], value: &str) -> Option<(&'static str, u32)> {
    let (name, times) = value.split_once(':').unwrap_or((value, "1"));
    let step = names.iter().find(|step| **step == name)?;
    times.parse().ok().filter(|times| *times > 0).map(|times| (*step, times))
}

/// Whether this process is told to end at a step.
#[must_use]
pub fn is_armed() -> bool {
    matches!(ARMED.get(), Some(Some(_)))
}

/// Says that the step is done; does not return when the process was told to end here.
pub fn passed(step: Step) {
    passed_by_name(step.name());
}

/// [`passed`] for a process with other steps.
pub fn passed_by_name(step: &str) {
    let Some(Some(armed)) = ARMED.get() else { return };
    if armed.step != step || armed.left.fetch_sub(1, Ordering::Relaxed) != 1 {
        return;
    }
    // Not by an exit: nothing may be flushed or tidied up. Nothing is left to do when even this fails.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_named_with_the_time_at_which_it_counts() {
        let names = ["end-durable", "order-sent"];
        assert_eq!(parse(&names, "end-durable"), Some(("end-durable", 1)));
        assert_eq!(parse(&names, "order-sent:3"), Some(("order-sent", 3)));
        for wrong in ["", "order", "order-sent:0", "order-sent:x"] {
            assert_eq!(parse(&names, wrong), None, "{wrong:?}");
        }
    }
}
