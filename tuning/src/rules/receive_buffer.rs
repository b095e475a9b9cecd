//! pure: receive buffers may grow to a long path.

use super::{About, Finding};
use crate::facts::Facts;

const WANTED_BYTES: u64 = 4 << 20;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "receive_buffer",
        wanted: format!("at least {WANTED_BYTES} bytes (third number of net.ipv4.tcp_rmem)"),
        why: "a smaller window cannot fill a long path: 4 MiB is 400 Mb/s at 80 ms",
        risk: "memory of many idle connections",
        needs_reboot: false,
    }
    .judge(facts.tcp.tcp_rmem_max_bytes, |bytes| *bytes >= WANTED_BYTES)
}
