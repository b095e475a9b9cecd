//! pure: releases of Kafka, and the feature levels with which their `kafka-storage format` begins a cluster.
//!
//! Levels as the tools of 4.0.2, 4.1.2, 4.2.1, 4.3.1 and 4.4.0 wrote them: `proto/golden/kraft`.

use std::fmt;
use std::str::FromStr;
use twinlog_proto::storage::kraft::records::METADATA_VERSION;

/// A release line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Release {
    /// 4.0, whose levels every later release takes: what a node is laid out for unless it is said otherwise.
    #[default]
    V4_0,
    /// 4.1.
    V4_1,
    /// 4.2.
    V4_2,
    /// 4.3.
    V4_3,
    /// 4.4.
    V4_4,
}

const NAMES: [(Release, &str); 5] = [
    (Release::V4_0, "4.0"),
    (Release::V4_1, "4.1"),
    (Release::V4_2, "4.2"),
    (Release::V4_3, "4.3"),
    (Release::V4_4, "4.4"),
];
const SHARE: &str = "share.version";
/// The highest level of metadata.version of the last release.
const LEVEL_MAX: i16 = 33;

impl Release {
    /// The levels, in the order of the format tool.
    #[must_use]
    pub fn levels(self) -> &'static [(&'static str, i16)] {
        const ELR: &str = "eligible.leader.replicas.version";
        const GROUP: &str = "group.version";
        const STREAMS: &str = "streams.version";
        const TRANSACTION: &str = "transaction.version";
        match self {
            Self::V4_0 => &[(METADATA_VERSION, 25), (GROUP, 1), (TRANSACTION, 2)],
            Self::V4_1 => &[(METADATA_VERSION, 27), (ELR, 1), (GROUP, 1), (TRANSACTION, 2)],
            Self::V4_2 => &[(METADATA_VERSION, 29), (ELR, 1), (GROUP, 1), (SHARE, 1), (STREAMS, 1), (TRANSACTION, 2)],
            Self::V4_3 => &[(METADATA_VERSION, 30), (ELR, 1), (GROUP, 1), (SHARE, 1), (STREAMS, 1), (TRANSACTION, 2)],
            Self::V4_4 => &[(METADATA_VERSION, 33), (ELR, 1), (GROUP, 1), (SHARE, 2), (STREAMS, 1), (TRANSACTION, 2)],
        }
    }

    /// Whether these levels have share groups.
    #[must_use]
    pub fn has_share_groups(self) -> bool {
        self.levels().iter().any(|(name, level)| *name == SHARE && *level > 0)
    }

    /// The first release with this level of metadata.version; none for one that is not known yet.
    #[must_use]
    pub fn of_level(level: i16) -> Option<Self> {
        match level {
            ..=25 => Some(Self::V4_0),
            26..=27 => Some(Self::V4_1),
            28..=29 => Some(Self::V4_2),
            30 => Some(Self::V4_3),
            31..=LEVEL_MAX => Some(Self::V4_4),
            _ => None,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(release, _)| release == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A text that names no release that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotARelease;

impl fmt::Display for NotARelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a release from 4.0 to 4.4")
    }
}

impl std::error::Error for NotARelease {}

impl FromStr for Release {
    type Err = NotARelease;

    /// Reads `4.1`, and `4.1.2` as the same.
    fn from_str(text: &str) -> Result<Self, NotARelease> {
        let is = |name: &str| {
            text.strip_prefix(name).is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('.').is_some_and(|patch| patch.parse::<u16>().is_ok())
            })
        };
        NAMES.iter().find(|(_, name)| is(name)).map(|(release, _)| *release).ok_or(NotARelease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_named_with_and_without_its_patch() {
        for (release, name) in NAMES {
            assert_eq!((name.parse(), format!("{name}.2").parse()), (Ok(release), Ok(release)));
            assert_eq!((release.to_string().as_str(), Release::of_level(release.levels()[0].1)), (name, Some(release)));
        }
        for name in ["", "4", "3.9", "4.5", "4.10", "4.0.x", "4.0-rc1", "v4.0"] {
            assert_eq!(name.parse::<Release>(), Err(NotARelease), "{name}");
        }
        assert_eq!((Release::of_level(17), Release::of_level(LEVEL_MAX + 1)), (Some(Release::V4_0), None));
    }
}
