//! pure: what the matrix is made of: columns (a release and a way to hand over), rows (what may or may not survive it), cells.

use std::fmt;

/// How the topics are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// `twinlog promote --to`: into a node that is not running yet.
    Standby,
    /// `twinlog promote --adopt`: to a broker that runs and has a topic of its own.
    Adopt,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    /// How.
    pub(super) mode: Mode,
    /// Release of the source and of the broker that takes over.
    pub(super) release: &'static str,
}

/// All columns, as the table has them.
pub(super) const COLUMNS: [Column; 10] = [
    Column { release: "4.0.2", mode: Mode::Standby },
    Column { release: "4.1.2", mode: Mode::Standby },
    Column { release: "4.2.1", mode: Mode::Standby },
    Column { release: "4.3.1", mode: Mode::Standby },
    Column { release: "4.4.0", mode: Mode::Standby },
    Column { release: "4.0.2", mode: Mode::Adopt },
    Column { release: "4.1.2", mode: Mode::Adopt },
    Column { release: "4.2.1", mode: Mode::Adopt },
    Column { release: "4.3.1", mode: Mode::Adopt },
    Column { release: "4.4.0", mode: Mode::Adopt },
];

impl Column {
    /// As the table names it.
    pub(super) fn name(self) -> String {
        let mode = match self.mode {
            Mode::Standby => "standby",
            Mode::Adopt => "adopt",
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
    Gaps, "compacted gaps", "a topic that the source's cleaner went over: the same records at the same offsets, and as many missing";
    LogStart, "log start inside a batch", "a topic whose records were deleted up to the middle of a batch: the next record is the first that anybody gets";
    Aborted, "aborted transactions", "what a reader of committed records gets, against what one of all gets";
    Open, "open transactions", "the last stable offset, and what a reader of committed records gets, of a transaction that was open at the hand-over";
    Idempotent, "idempotent producer goes on", "a producer that lives on when the source is gone: its next record follows, under the same producer id and epoch, with the next sequence";
    Transactional, "transactional.id goes on", "the next transaction of a producer that lives on, and of another process with the id of the open transaction: committed, under the same producer id";
    Fresh, "new producers", "many new idempotent producers, a record each, as many as had written so at the source: each acknowledged offset is behind the log end, and the record is there";
    Classic, "group offsets, classic", "a group of the classic protocol: its offset with epoch and note, and the first record that its next member gets";
    Consumer, "group offsets, consumer", "the same of a group of the consumer protocol";
    Share, "group offsets, share", "a share group goes on with the records that nobody had accepted at the source, each once";
    HigherEpoch, "committed higher epoch", "a group whose committed offset has the source's highest leader epoch reads on, commits, begins again and reads on";
    Configs, "topic configs", "all settings that hold for the topics, made on them or the defaults of the source's brokers, where the other node has other defaults";
    Acls, "ACLs", "all access rules";
    Quotas, "quotas", "all client quotas";
    Unclean, "unclean start afterwards", "the broker is killed after clients wrote to it, and started again: all that was mirrored and all that it acknowledged is there";
    Cleaner, "cleaner afterwards", "the broker's cleaner goes over the mirrored topic: of every key the last record is left, at its offset";
    Retention, "retention afterwards", "retention by time moves the log start to where the source's own retention moves it";
    Follower, "second broker added", "a stock broker joins, is given a replica of every topic, and gets in sync: its batches and epochs are the first one's";
    Tiered, "tiered storage", "a hand-over of a topic whose old segments are in remote storage at the source; after the remedy, which makes it a local one, the broker has all of its records and settings";
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    /// As it was at the source.
    Kept,
    /// Not as it was, and how.
    Changed(String),
    /// Not taken along, and why.
    Refused(String),
    /// There is nothing of that kind in the release.
    Absent(String),
    /// Something else than any table may say; never expected.
    Wrong(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Changed(how) => write!(f, "changed: {how}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Absent(why) => write!(f, "none: {why}"),
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
            Some(("refused", why)) => Some(Self::Refused(why.to_owned())),
            Some(("none", why)) => Some(Self::Absent(why.to_owned())),
            Some(_) => None,
        }
    }
}
