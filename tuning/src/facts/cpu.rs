//! Processors: how many, and who governs their clock.

use crate::root::Root;
use serde::Serialize;

/// Facts from /sys/devices/system/cpu.
#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    /// The kernel's list of online processors, such as `0-7`.
    pub online: Option<String>,
    /// The cpufreq governor of processor 0; absent in most virtual machines.
    pub governor: Option<String>,
    /// The clock that the kernel uses.
    pub clocksource: Option<String>,
}

impl Cpu {
    pub(super) fn read(root: &Root) -> Result<Self, String> {
        Ok(Self {
            online: root.text("/sys/devices/system/cpu/online")?,
            governor: root.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")?,
            clocksource: root.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")?,
        })
    }
}
