//! pure: assignment files, by which the data plane learns its work, also while no control plane runs.
//!
//! One file a mirror, `STATE/assignments/<mirror>.assignment`, written by the control plane only (aside, fsync, rename, fsync
//! of the folder; mode 0600, for it holds secrets):
//!
//! ```text
//! "TWLA" | i16 version | u32 CRC-32C of what follows | body (`schemas/assignment.json`)
//! ```

pub use crate::messages::assignment::{AssignedPartition, AssignedSetting, AssignedTopic, Assignment};

use crate::error::{DecodeError, EncodeError};
use crate::sealed::Seal;

/// The folder of the files in STATE.
pub const FOLDER: &str = "assignments";
/// How the name of a file ends.
pub const SUFFIX: &str = ".assignment";
/// The first bytes of the file.
pub const MAGIC: [u8; 4] = *b"TWLA";
/// The version of the body that is written.
pub const VERSION: i16 = 0;

/// What is wanted of an assigned partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Desired {
    /// Fetch and store.
    Mirror = 0,
    /// Keep, and fetch nothing.
    Pause = 1,
    /// Finish the files and let go of them.
    Stop = 2,
    /// Let go of it: the topic left the mirror. Files stay.
    Remove = 3,
    /// Throw its folder away, and stop there: what comes next is a topic begun anew. Done twice it does no harm, for nothing is
    /// mirrored before another wish says so.
    Discard = 4,
}

impl Desired {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Mirror, Self::Pause, Self::Stop, Self::Remove, Self::Discard];

    /// The code that stands in the file.
    #[must_use]
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The meaning of a code; `None` for one that has none.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|desired| desired.code() == code)
    }
}

/// The file name of a mirror's assignment.
#[must_use]
pub fn file_name(mirror: &str) -> String {
    [mirror, SUFFIX].concat()
}

/// The content of an assignment file.
///
/// # Errors
/// When a text is longer than 32767 bytes.
pub fn encode(assignment: &Assignment) -> Result<Vec<u8>, EncodeError> {
    SEAL.encode(assignment)
}

const SEAL: Seal =
    Seal { what: "assignment file", magic: MAGIC, no_magic: "the file does not start with TWLA", version: VERSION };

/// Reads the content of an assignment file.
///
/// # Errors
/// When it is no assignment file, has a version that this code does not speak, or is damaged.
pub fn decode(file: &[u8]) -> Result<Assignment, DecodeError> {
    SEAL.decode(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Malformed;
    use crate::ids::Uuid;

    fn sample() -> Assignment {
        Assignment {
            mirror_name: "dc1".into(),
            assignment_version: 7,
            source_cluster_id: "cluster".into(),
            bootstrap_servers: vec!["127.0.0.1:9092".into()],
            settings: vec![AssignedSetting { name: "security.protocol".into(), value: Some("PLAINTEXT".into()) }],
            topics: vec![AssignedTopic {
                name: "orders".into(),
                topic_id: Uuid([7; 16]),
                segment_bytes: 1 << 30,
                partitions: vec![AssignedPartition { index: 3, data_directory: "/data".into(), ..Default::default() }],
                ..Default::default()
            }],
        }
    }

    #[test]
    fn a_file_is_read_back() {
        let file = encode(&sample()).unwrap();
        assert_eq!(file[..6], *b"TWLA\0\0");
        assert_eq!(decode(&file), Ok(sample()));
        assert_eq!(sample().topics[0].partitions[0].cut_to, -1);
    }

    #[test]
    fn a_damaged_file_is_refused_wherever_the_damage_is() {
        let file = encode(&sample()).unwrap();
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {at}");
            assert!(decode(&file[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_file_of_a_later_version_is_told_apart_from_a_damaged_one() {
        let mut file = encode(&sample()).unwrap();
        file[5] = 9;
        assert_eq!(decode(&file).unwrap_err().why, Malformed::Version { found: 9 });
    }

    #[test]
    fn every_wish_is_found_by_its_code() {
        for desired in Desired::ALL {
            assert_eq!(Desired::from_code(desired.code()), Some(desired));
        }
        assert_eq!(Desired::from_code(5), None);
    }
}
