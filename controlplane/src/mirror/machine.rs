//! pure: the whole transition table of a mirrored partition.
//!
//! `step` is called by `decide.rs` for every event, whether a person asked for it or the board showed it. It knows no
//! clock and no file: what has to happen is returned as effects, and the driver carries them out in the order
//! Persist, Send, Answer. `golden/machine.txt` is this table printed; its diff is the review.

use crate::mirror::effect::Effect;
use std::fmt;
use twinlog_proto::mirror_state::MirrorState;

/// What happened to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A start, the source's facts about the topic are known.
    Start,
    /// A start while the source cannot be asked.
    StartUnresolved,
    /// The source has told what the topic is.
    Resolved,
    /// A pause was asked for.
    Pause,
    /// A resume was asked for.
    Resume,
    /// A stop was asked for.
    Stop,
    /// The mirror forgets the partition; its files stay.
    Remove,
    /// The board: records flow.
    SlotMirroring,
    /// The board: the source's epoch is ahead of what is known here.
    SlotFencing,
    /// The board: no fetcher, on request.
    SlotPaused,
    /// The board: the files are finished, nothing is written any more.
    SlotStopped,
    /// The board: the files that were to be thrown away are gone.
    SlotDiscarded,
    /// The board: the first records after a retry arrived.
    SlotProgressed,
    /// The board, the source or a check here: it cannot go on.
    Failed,
    /// The delay before the next attempt is over.
    RetryDue,
    /// A person asks for another attempt.
    Retry,
}

/// All events, in the order in which the table is printed.
pub const EVENTS: [Event; 16] = [
    Event::Start,
    Event::StartUnresolved,
    Event::Resolved,
    Event::Pause,
    Event::Resume,
    Event::Stop,
    Event::Remove,
    Event::SlotMirroring,
    Event::SlotFencing,
    Event::SlotPaused,
    Event::SlotStopped,
    Event::SlotDiscarded,
    Event::SlotProgressed,
    Event::Failed,
    Event::RetryDue,
    Event::Retry,
];

/// All states, in the order in which the table is printed.
pub const STATES: [MirrorState; 10] = [
    MirrorState::Unknown,
    MirrorState::Initializing,
    MirrorState::Preparing,
    MirrorState::EpochFencing,
    MirrorState::Mirroring,
    MirrorState::Pausing,
    MirrorState::Paused,
    MirrorState::Stopping,
    MirrorState::Stopped,
    MirrorState::Failed,
];

/// Where a step leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To this state.
    State(MirrorState),
    /// To the state before the failure.
    Previous,
}

/// An event that has no place in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The state.
    pub state: MirrorState,
    /// The event.
    pub event: Event,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not possible in state {}", self.event, self.state.name())
    }
}

impl std::error::Error for Refused {}

const DURABLE: &[Effect] = &[Effect::Persist];
const ASKED: &[Effect] = &[Effect::Persist, Effect::Send];
const ARMED: &[Effect] = &[Effect::Persist, Effect::Arm];
const LAST_OFFSET_FIRST: &[Effect] = &[Effect::PersistLastMirrored, Effect::Persist];
const SHOWN_ONLY: &[Effect] = &[];

/// The table: what `event` does in `state`.
///
/// # Errors
/// When the event has no place in the state; nothing happens then.
pub fn step(state: MirrorState, event: Event) -> Result<(To, &'static [Effect]), Refused> {
    use Event as E;
    use MirrorState as S;
    let (to, effects) = match (state, event) {
        (S::Unknown | S::Stopped, E::Start) => (S::Preparing, ASKED),
        (S::Unknown | S::Stopped, E::StartUnresolved) => (S::Initializing, DURABLE),
        (S::Initializing, E::Resolved) => (S::Preparing, ASKED),
        // Nothing was mirrored, so there is nothing to wait for.
        (S::Initializing, E::Stop) => (S::Stopped, DURABLE),

        (S::Preparing | S::Failed, E::SlotMirroring) => (S::Mirroring, DURABLE),
        // Only now the next wish goes out.
        (S::Preparing, E::SlotDiscarded) => (S::Preparing, ASKED),
        (S::Stopping, E::SlotDiscarded) => (S::Stopping, ASKED),
        // Entered and left by the data plane alone, so it is shown and not recorded.
        (S::Mirroring, E::SlotFencing) => (S::EpochFencing, SHOWN_ONLY),
        (S::EpochFencing, E::SlotMirroring) => (S::Mirroring, SHOWN_ONLY),
        (S::Mirroring, E::SlotProgressed) => (S::Mirroring, DURABLE),

        (S::Mirroring, E::Pause) => (S::Pausing, ASKED),
        (S::Pausing | S::Failed, E::SlotPaused) => (S::Paused, DURABLE),
        (S::Paused, E::Resume) => (S::Mirroring, ASKED),

        (S::Preparing | S::EpochFencing | S::Mirroring | S::Pausing | S::Paused | S::Failed, E::Stop) => {
            (S::Stopping, ASKED)
        }
        (S::Stopping | S::Failed, E::SlotStopped) => (S::Stopped, LAST_OFFSET_FIRST),
        (S::Stopped, E::Remove) => (S::Unknown, ASKED),

        // A stopped partition belongs to whoever writes to it next; its slot says nothing about mirroring.
        (S::Unknown | S::Stopped, E::Failed) => return Err(Refused { state, event }),
        (_, E::Failed) => (S::Failed, ARMED),
        (S::Failed, E::RetryDue | E::Retry | E::SlotDiscarded) => return Ok((To::Previous, ASKED)),
        _ => return Err(Refused { state, event }),
    };
    Ok((To::State(to), effects))
}

/// The table as text, one line for each step that is not refused.
#[must_use]
pub fn printed() -> String {
    let mut text = String::from("state -> event -> next state: effects (what is not listed is refused)\n");
    for state in STATES {
        text.push('\n');
        for event in EVENTS {
            let Ok((to, effects)) = step(state, event) else { continue };
            let to = match to {
                To::State(to) => to.name(),
                To::Previous => "(previous)",
            };
            let effects: Vec<String> = effects.iter().map(|effect| format!("{effect:?}")).collect();
            let effects = if effects.is_empty() { "-".to_owned() } else { effects.join(", ") };
            text.push_str(&format!("{:<13} {:<15} {to:<13} {effects}\n", state.name(), format!("{event:?}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_in_the_golden_file() {
        let golden = include_str!("../../golden/machine.txt");
        assert_eq!(printed(), golden, "review the change, then write the printed table to golden/machine.txt");
    }

    #[test]
    fn every_durable_step_persists_before_it_sends_and_records_the_last_offset_first() {
        for state in STATES {
            for event in EVENTS {
                let Ok((_, effects)) = step(state, event) else { continue };
                let order: Vec<usize> = effects.iter().map(|effect| effect.rank()).collect();
                assert!(order.is_sorted(), "{state:?} {event:?}: {effects:?}");
                if effects.contains(&Effect::Send) {
                    assert!(effects.contains(&Effect::Persist), "{state:?} {event:?} acts on what is not on disk");
                }
            }
        }
    }

    #[test]
    fn a_stopped_partition_leaves_that_state_only_by_a_start_or_a_removal() {
        let leaving: Vec<Event> = EVENTS.into_iter().filter(|e| step(MirrorState::Stopped, *e).is_ok()).collect();
        assert_eq!(leaving, [Event::Start, Event::StartUnresolved, Event::Remove]);
    }
}
