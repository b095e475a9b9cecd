//! pure: enough open files for many partitions.

use super::{About, Finding};
use crate::facts::Facts;

const WANTED: u64 = 100_000;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "open_files",
        wanted: format!("at least {WANTED} (ulimit -n, LimitNOFILE=)"),
        why: "each partition being written holds a segment and its indexes open",
        risk: "none known",
        needs_reboot: false,
    }
    .judge(facts.memory.open_files, |files| *files >= WANTED)
}
