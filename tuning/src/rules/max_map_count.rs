//! pure: mappings for the paired broker.

use super::{About, Finding};
use crate::facts::Facts;

const WANTED: u64 = 262_144;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "max_map_count",
        wanted: format!("at least {WANTED} (vm.max_map_count)"),
        why: "a stock broker maps two index files for each segment it serves",
        risk: "none known",
        needs_reboot: false,
    }
    .judge(facts.memory.max_map_count, |count| *count >= WANTED)
}
