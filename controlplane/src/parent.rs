//! The end of the parent process: whoever started this process and is gone cannot stop it any more.

use crate::limits::PARENT_POLL;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tracing::debug;

/// Process id of the first process, which adopts orphans.
const INIT: i32 = 1;

/// Asks the kernel for SIGTERM at the parent's end, and gives a future that is done when the parent is gone all the same.
///
/// A process that was started by the first process itself, as in a container or by a service manager, has no such end.
pub fn watch() -> impl Future<Output = ()> {
    let parent = getppid();
    let adopted = parent.is_none_or(|parent| parent.as_raw_nonzero().get() == INIT);
    if !adopted && let Err(cause) = set_parent_process_death_signal(Some(Signal::TERM)) {
        debug!(%cause, "the kernel does not tell of the parent's end; it is looked for instead");
    }
    until_changed(parent, adopted)
}

async fn until_changed(parent: Option<Pid>, adopted: bool) {
    if adopted {
        return std::future::pending().await;
    }
    while getppid() == parent {
        tokio::time::sleep(PARENT_POLL).await;
    }
}
