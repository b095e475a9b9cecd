//! pure: processes may use io_uring.

use super::{About, Finding};
use crate::facts::Facts;

pub(super) fn check(facts: &Facts) -> Finding {
    About {
        name: "io_uring",
        wanted: "0 (kernel.io_uring_disabled)".to_owned(),
        why: "the data plane does all its input and output through io_uring",
        risk: "io_uring has a larger attack surface for local users",
        needs_reboot: false,
    }
    .judge(facts.kernel.io_uring_disabled, |value| *value == 0)
}
