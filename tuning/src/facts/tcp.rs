//! Socket buffers and congestion control.

use crate::root::Root;
use serde::Serialize;

/// Facts from /proc/sys/net.
#[derive(Debug, Clone, Serialize)]
pub struct Tcp {
    /// `net.core.rmem_max`: the most that SO_RCVBUF can ask for.
    pub rmem_max_bytes: Option<u64>,
    /// The third number of `net.ipv4.tcp_rmem`: how far autotuning may grow a receive buffer.
    pub tcp_rmem_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion_control: Option<String>,
    /// `net.ipv4.tcp_slow_start_after_idle`.
    pub slow_start_after_idle: Option<u64>,
}

impl Tcp {
    pub(super) fn read(root: &Root) -> Result<Self, String> {
        let rmem = root.text("/proc/sys/net/ipv4/tcp_rmem")?;
        Ok(Self {
            rmem_max_bytes: root.number("/proc/sys/net/core/rmem_max")?,
            tcp_rmem_max_bytes: rmem.and_then(|text| text.split_whitespace().nth(2)?.parse().ok()),
            congestion_control: root.text("/proc/sys/net/ipv4/tcp_congestion_control")?,
            slow_start_after_idle: root.number("/proc/sys/net/ipv4/tcp_slow_start_after_idle")?,
        })
    }
}
