//! pure: a connection keeps its window over a pause.

use super::{About, Finding};
use crate::facts::Facts;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "slow_start",
        wanted: "0 (net.ipv4.tcp_slow_start_after_idle)".to_owned(),
        why: "a source that pauses for a moment would restart each connection at ten segments",
        risk: "bursts on shared links; it must be set on the source, which sends",
        needs_reboot: false,
    }
    .judge(facts.tcp.slow_start_after_idle, |value| *value == 0)
}
