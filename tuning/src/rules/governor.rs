//! pure: the cpufreq governor keeps the clock up.

use super::{About, Finding};
use crate::facts::Facts;

const WANTED: &str = "performance";

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "governor",
        wanted: WANTED.to_owned(),
        why: "a core that waits for its queue must not slow down between two batches",
        risk: "more power and heat",
        needs_reboot: false,
    }
    .judge(facts.cpu.governor.clone(), |governor| governor == WANTED)
}
