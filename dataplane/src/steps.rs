//! The named steps of a hand-over, at each of which a test kills the process; the control plane has its own (`steps.rs` there).
//!
//! `TWINLOG_HAND_OVER_KILL_AT=NAME[:N]` ends the process as SIGKILL does when it passes the step for the Nth time. A variable of its own,
//! for the process is a child of one that may have been told to end elsewhere. What has to hold after a kill at any of them is checked by
//! `dataplane/tests/hand_over/`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable.
pub const VARIABLE: &str = "TWINLOG_HAND_OVER_KILL_AT";

macro_rules! steps {
    ($($step:ident = $name:literal, $about:literal;)*) => {
        /// What has just been done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Step { $(#[doc = $about] $step),* }

        impl Step {
            /// All of them, in the order in which a hand-over passes them.
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
    PlanChecked = "plan-checked", "The plan is read and the locks are held, nothing was touched.";
    Saved = "saved", "What a reclaim throws away is saved aside, nothing else was touched.";
    CheckpointsLowered = "checkpoints-lowered", "A log directory's checkpoints say no more than what a reclaim leaves.";
    Copied = "copied", "A partition's segments are copied, its copy is no log yet.";
    Sealed = "sealed", "A copy is done, not durable.";
    Renamed = "renamed", "A partition's directory has its new place.";
    RenamesDurable = "renames-durable", "All have it, for good.";
    Opened = "opened", "A log is open, nothing was appended.";
    Appended = "appended", "Its batches are written, its files are not finished.";
    Finished = "finished", "Its files are finished, not durable.";
    LogsDone = "logs-done", "All logs are done for good, no checkpoint says so.";
    CheckpointsWritten = "checkpoints-written", "A directory's checkpoints are written.";
    AllDone = "all-done", "Everything is done, nobody was told.";
}

struct Armed {
    step: Step,
    left: AtomicU32,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Reads the variable.
///
/// # Errors
/// The value, when it names no step.
pub fn arm() -> Result<Option<Step>, String> {
    let Some(value) = std::env::var_os(VARIABLE) else {
        ARMED.get_or_init(|| None);
        return Ok(None);
    };
    let value = value.to_string_lossy().into_owned();
    let (step, times) = parse(&value).ok_or(value)?;
    ARMED.get_or_init(|| Some(Armed { step, left: AtomicU32::new(times) }));
    Ok(Some(step))
}

fn parse(value: &str) -> Option<(Step, u32)> {
    let (name, times) = value.split_once(':').unwrap_or((value, "1"));
    let step = Step::ALL.iter().find(|step| step.name() == name)?;
    times.parse().ok().filter(|times| *times > 0).map(|times| (*step, times))
}

/// Says that the step is done; does not return when the process was told to end here.
pub fn passed(step: Step) {
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
        assert_eq!(parse("finished"), Some((Step::Finished, 1)));
        assert_eq!(parse("renamed:3"), Some((Step::Renamed, 3)));
        for wrong in ["", "rename", "renamed:0", "renamed:x"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
