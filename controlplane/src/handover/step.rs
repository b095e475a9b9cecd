//! pure: how the steps are declared that a journal remembers.

/// Makes the enum `Step` of a journal. For each step: its name in the journal, the name of the point at which its work is done and not
/// written down yet, and what is true once it is done.
macro_rules! journal_steps {
    ($($step:ident = $name:literal, $done:literal, $about:literal;)*) => {
        /// What was done last.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Step { $(#[doc = $about] $step),* }

        impl Step {
            /// All of them, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$step),*];

            /// The points at which a test kills the command: what a step does is done, and the journal says so.
            pub const KILL_POINTS: &'static [&'static str] = &[$($done, $name),*];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$step => $name),* }
            }

            /// The step after this one.
            #[must_use]
            pub fn next(self) -> Option<Self> {
                Self::ALL.iter().copied().find(|step| *step > self)
            }

            /// Says that the work is done and not written down yet.
            pub fn passed_work(self) {
                $crate::steps::passed_by_name(match self { $(Self::$step => $done),* });
            }
        }
    };
}

pub(super) use journal_steps;
