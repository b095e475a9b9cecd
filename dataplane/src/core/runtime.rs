//! runtime: starts a core's ring and the tasks on it.

use std::future::Future;
use std::io;

use crate::limits::{RING_COMPLETIONS, RING_SUBMISSIONS};

/// Runs `main` on a ring of this thread until it returns.
///
/// # Errors
/// The kernel refuses a ring.
pub fn run<F: Future>(main: F) -> io::Result<F::Output> {
    let mut ring = tokio_uring::uring_builder();
    // Above the most operations in flight: completions that do not fit would have to be fetched one system call each.
    ring.setup_cqsize(RING_COMPLETIONS);
    let mut builder = tokio_uring::builder();
    builder.entries(RING_SUBMISSIONS).uring_builder(&ring);
    let runtime = tokio_uring::Runtime::new(&builder)?;
    Ok(runtime.block_on(main))
}

/// Starts a task on this core.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    drop(tokio::task::spawn_local(task));
}
