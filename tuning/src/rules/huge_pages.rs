//! pure: free huge pages for the buffers of a core.

use super::{About, Finding};
use crate::facts::Facts;

/// 32 pieces of 1 MiB and the stages of one core, in pages of 2 MiB.
const PAGES_PER_CORE: u64 = 32;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "huge_pages",
        wanted: format!("at least {PAGES_PER_CORE} free for each data-plane core (vm.nr_hugepages)"),
        why: "O_DIRECT writes from huge pages cost half the CPU of 4 KiB pages",
        risk: "the memory is taken from everybody else",
        needs_reboot: false,
    }
    .judge(facts.memory.huge_pages_free, |pages| *pages >= PAGES_PER_CORE)
}
