//! pure: what a step of the machine asks of the driver, and in which order it is carried out.

/// One thing that has to happen after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The last mirrored offset is recorded.
    PersistLastMirrored,
    /// The new state is recorded.
    Persist,
    /// The mirror's assignment is written and the data plane told.
    Send,
    /// The next attempt is scheduled.
    Arm,
}

impl Effect {
    /// The order of carrying out: a lower rank is complete before a higher one begins.
    #[must_use]
    pub fn rank(self) -> usize {
        match self {
            Self::PersistLastMirrored => 0,
            Self::Persist => 1,
            Self::Send => 2,
            Self::Arm => 3,
        }
    }
}
