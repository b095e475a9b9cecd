//! Open files: every client connection takes one, and many systems give a process only 1,024 of the many that it may have.

use crate::limits::{CONNECTIONS_MAX, OPEN_FILES_KEPT};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Raises the limit of open files as far as this process may, and tells how many client connections fit.
#[must_use]
pub fn connections_max() -> usize {
    let wanted = (CONNECTIONS_MAX + OPEN_FILES_KEPT) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return CONNECTIONS_MAX;
    }
    let raised = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let granted = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(cause) => {
            debug!(%cause, "the limit of open files stays");
            current.unwrap_or(wanted)
        }
    };
    let connections = fitting(granted);
    if connections < CONNECTIONS_MAX {
        warn!(
            open_files = granted,
            connections, "fewer client connections than usual fit; raise LimitNOFILE (ulimit -n)"
        );
    }
    connections
}

fn fitting(open_files: u64) -> usize {
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    // However few there are, somebody must be able to ask what is wrong.
    open_files.saturating_sub(OPEN_FILES_KEPT).max(open_files / 4 + 1).min(CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        assert_eq!(fitting(1 << 20), CONNECTIONS_MAX);
        assert_eq!(fitting(1_024), 1_024 - OPEN_FILES_KEPT);
        assert_eq!(fitting(64), 17);
    }
}
