//! pure: what the matrix is made of: columns (a release and a way to hand over), rows (what may or may not survive it), cells.

use std::fmt;

/// How the topics are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// `twinlog promote --to`: into a node that is not running yet.
    Standby,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    /// Release of the source and of the broker that takes over.
    pub(super) release: &'static str,
    /// How.
    pub(super) mode: Mode,
}

/// All columns, as the table has them.
pub(super) const COLUMNS: [Column; 5] = [
    Column { release: "4.0.2", mode: Mode::Standby },
    Column { release: "4.1.2", mode: Mode::Standby },
    Column { release: "4.2.1", mode: Mode::Standby },
    Column { release: "4.3.1", mode: Mode::Standby },
    Column { release: "4.4.0", mode: Mode::Standby },
];

impl Column {
    /// As the table names it.
    pub(super) fn name(self) -> String {
        let mode = match self.mode {
            Mode::Standby => "standby",
        };
        format!("{} {mode}", self.release)
    }

    /// The column of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        COLUMNS.into_iter().find(|column| column.name() == name)
    }
}

/// Declares the rows, each with its name in the table and how it is read.
macro_rules! rows {
    ($($row:ident, $name:literal, $about:literal;)*) => {
        /// A row.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Row {
            $(#[doc = $about] $row,)*
        }

        /// All rows, as the table has them.
        pub(super) const ROWS: &[Row] = &[$(Row::$row,)*];

        impl Row {
            /// As the table names it.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$row => $name,)*
                }
            }

            /// How it is read.
            pub(super) fn about(self) -> &'static str {
                match self {
                    $(Self::$row => $about,)*
                }
            }
        }
    };
}

rows! {
    Offsets, "offsets", "first and last offset, number of records and log start of every partition, as a consumer gets them";
    BatchBytes, "batch bytes", "every batch from log start to the last mirrored offset, file against file";
    LeaderEpochs, "leader epochs", "the epoch of every record as a consumer gets it, and the epoch history in the folder; the broker's own epoch is above all of them";
    TopicIds, "topic ids", "as a client is told, and in the folder";
    Timestamps, "timestamps", "digest over offset, timestamp and its type, key, value and headers of every record; lookups by time and of the largest timestamp";
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    /// As it was at the source.
    Kept,
    /// Not as it was, and how.
    Changed(String),
    /// Something else than any table may say; never expected.
    Wrong(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Changed(how) => write!(f, "changed: {how}"),
            Self::Wrong(how) => write!(f, "WRONG: {how}"),
        }
    }
}

impl Cell {
    /// The cell that is written so.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.split_once(": ") {
            None => (text == "kept").then_some(Self::Kept),
            Some(("changed", how)) => Some(Self::Changed(how.to_owned())),
            Some(_) => None,
        }
    }
}
