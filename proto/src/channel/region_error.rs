//! pure: why there is no region: what was refused, or found in it, in words.

use super::layout::{BadGeometry, LAYOUT_VERSION};
use core::fmt;
use rustix::io::Errno;

/// A file that cannot be made into, or is no, region.
#[derive(Debug)]
pub enum RegionError {
    /// The system refused a step.
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        cause: Errno,
    },
    /// The file may still change its size.
    NotSealed,
    /// The file's size is not the one that its header says.
    Size {
        /// Bytes of the file.
        found: u64,
        /// Bytes that it must have, at least.
        wanted: u64,
    },
    /// The magic word is missing: no region, or its creator died while making it.
    Magic {
        /// The word found.
        found: u64,
    },
    /// A region of another version of this program.
    Version {
        /// The version found.
        found: u64,
    },
    /// The generation is 0.
    NoGeneration,
    /// The header does not say what the data plane says of the region.
    Stranger {
        /// The generation found.
        found: u64,
    },
    /// Impossible sizes in the header.
    Geometry(BadGeometry),
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { what, cause } => write!(f, "cannot {what} the shared memory of the data plane: {cause}"),
            Self::NotSealed => {
                f.write_str("the shared memory of the data plane is not sealed in size: not made by twinlog-dataplane")
            }
            Self::Size { found, wanted } => {
                write!(
                    f,
                    "the shared memory of the data plane has {found} bytes, must have {wanted}: restart the data plane"
                )
            }
            Self::Magic { found } => {
                write!(
                    f,
                    "the shared memory does not begin as a channel does ({found:#018x}): not made by twinlog-dataplane"
                )
            }
            Self::Version { found } => write!(
                f,
                "the data plane uses version {found} of the shared memory, this program version {LAYOUT_VERSION}: \
                 run both planes from the same release"
            ),
            Self::NoGeneration => f.write_str("the shared memory has no generation: restart the data plane"),
            Self::Stranger { found } => {
                write!(f, "the shared memory is not the one that the data plane names: its generation is {found:#x}")
            }
            Self::Geometry(bad) => {
                write!(f, "the shared memory of the data plane is broken, restart the data plane: {bad}")
            }
        }
    }
}

impl core::error::Error for RegionError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System { cause, .. } => Some(cause),
            Self::Geometry(bad) => Some(bad),
            _ => None,
        }
    }
}
