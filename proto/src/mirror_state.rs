//! pure: the states of a mirrored partition and their wire codes. Which state may follow which is not decided here.

use core::fmt;

/// State of a mirrored partition, with its code on the wire and in the state log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum MirrorState {
    /// Source leader known; the local log is opened and aligned.
    Preparing = 0,
    /// A batch of a newer leader epoch was seen; the source's metadata is fetched before it is taken.
    EpochFencing = 1,
    /// Records flow.
    Mirroring = 2,
    /// To be paused as soon as what is under way has ended.
    Pausing = 3,
    /// Nothing is fetched; clients may not write.
    Paused = 4,
    /// To be stopped as soon as what is under way has ended.
    Stopping = 5,
    /// The partition is the destination's own.
    Stopped = 6,
    /// Mirroring cannot go on; the previous state and the reason are kept.
    Failed = 7,
    /// The topic is added, its source id and leader are not known yet.
    Initializing = 8,
    /// No state is known.
    Unknown = 16,
}

/// A number that stands for no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchState(pub i8);

impl fmt::Display for NoSuchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} stands for no mirror state", self.0)
    }
}

impl core::error::Error for NoSuchState {}

impl MirrorState {
    /// Every state, ascending by code.
    pub const ALL: [Self; 10] = [
        Self::Preparing,
        Self::EpochFencing,
        Self::Mirroring,
        Self::Pausing,
        Self::Paused,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Initializing,
        Self::Unknown,
    ];

    /// The code that is written.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The state of a code that was read; -1 is an older way to say unknown.
    ///
    /// # Errors
    /// When the code stands for no state.
    pub fn from_code(code: i8) -> Result<Self, NoSuchState> {
        match code {
            -1 => Ok(Self::Unknown),
            _ => Self::ALL.into_iter().find(|state| state.code() == code).ok_or(NoSuchState(code)),
        }
    }

    /// The name that answers carry, as `EPOCH_FENCING`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Preparing => "PREPARING",
            Self::EpochFencing => "EPOCH_FENCING",
            Self::Mirroring => "MIRRORING",
            Self::Pausing => "PAUSING",
            Self::Paused => "PAUSED",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
            Self::Initializing => "INITIALIZING",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// The state of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for MirrorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_code_and_by_its_name() {
        for state in MirrorState::ALL {
            assert_eq!(MirrorState::from_code(state.code()), Ok(state));
            assert_eq!(MirrorState::from_name(state.name()), Some(state));
        }
    }

    #[test]
    fn unknown_is_written_as_16_and_read_from_minus_1_too() {
        assert_eq!(MirrorState::Unknown.code(), 16);
        assert_eq!(MirrorState::from_code(-1), Ok(MirrorState::Unknown));
        assert_eq!(MirrorState::from_code(9), Err(NoSuchState(9)));
    }
}
