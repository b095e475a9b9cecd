//! `twinlog-bench run control`: the control plane by itself: how fast its log loads, and how it bears many partitions.
//!
//! ```text
//! log       a state log of many records -> twinlog-controlplane -> its ready line
//! cluster   serve (many topics), twinlog up -> create, start -> all MIRRORING -> describe, LMO, connections, idle -> stop -> all STOPPED
//! ```

use std::io;

use serde::Serialize;

use crate::args::{ControlPart, Run};
use crate::run::RunError;

pub mod cluster;
pub mod crowd;
pub mod log;
pub mod peer;
pub mod probes;
pub mod state_log;
pub mod table;

use table::Row;

/// What a run of this profile found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlReport {
    /// Always `control`.
    pub profile: &'static str,
    /// Topics of the cluster part.
    pub topics: u32,
    /// Partitions of each topic.
    pub partitions: u32,
    /// Records of the log part.
    pub records: u64,
    /// Load of the machine (one minute) when the run began: figures are comparable when it is low.
    pub load: f64,
    /// The figures.
    pub rows: Vec<Row>,
}

impl ControlReport {
    /// Whether no goal was missed.
    #[must_use]
    pub fn is_within_goals(&self) -> bool {
        self.rows.iter().all(|row| row.is_met() != Some(false))
    }
}

/// Measures.
///
/// # Errors
/// When something else than a goal is missed.
pub fn measure(args: &Run) -> Result<ControlReport, RunError> {
    let size =
        Size { topics: args.topics.unwrap_or(5_000), partitions: args.partitions.unwrap_or(10), seed: args.seed };
    let mut report = ControlReport {
        profile: "control",
        topics: size.topics,
        partitions: size.partitions,
        records: args.records,
        load: load().unwrap_or(f64::NAN),
        rows: Vec::new(),
    };
    if args.part != ControlPart::Cluster {
        report.rows.extend(log::measure(args, size)?);
    }
    if args.part != ControlPart::Log {
        report.rows.extend(cluster::measure(args, size)?);
    }
    Ok(report)
}

/// How much there is.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Topics.
    pub topics: u32,
    /// Partitions of each.
    pub partitions: u32,
    /// Everything random is drawn from it.
    pub seed: u64,
}

impl Size {
    /// Partitions of all topics.
    #[must_use]
    pub fn all(self) -> u64 {
        u64::from(self.topics) * u64::from(self.partitions)
    }

    /// The name of a topic, as the embedded source gives it.
    #[must_use]
    pub fn topic(self, number: u32) -> String {
        if self.topics == 1 { "bench".to_owned() } else { format!("bench-{number:05}") }
    }
}

fn load() -> io::Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    text.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
