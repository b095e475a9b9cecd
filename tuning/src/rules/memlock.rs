//! pure: enough locked memory for the registered buffers.

use super::{About, Finding};
use crate::facts::Facts;

/// 32 pieces of 1 MiB, the stages and the ring of one core.
const BYTES_PER_CORE: u64 = 64 << 20;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "memlock",
        wanted: format!("at least {BYTES_PER_CORE} bytes for each data-plane core (ulimit -l, LimitMEMLOCK=)"),
        why: "registered buffers are locked memory; without them each operation pins its pages anew",
        risk: "a process may take memory that cannot be swapped",
        needs_reboot: false,
    }
    .judge(facts.memory.memlock_bytes, |bytes| *bytes >= BYTES_PER_CORE)
}
