//! pure: the figures of a run, as a table for people and as one JSON document.

use std::fmt;

use serde::Serialize;

use super::paced::Paced;
use crate::args::Profile;
use crate::compare::Verdict;
use crate::units::Bytes;

/// Everything that a run found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Which sizes.
    pub profile: &'static str,
    /// What was mirrored.
    pub source: String,
    /// Where to.
    pub folder: String,
    /// Whether it is still there.
    pub kept: bool,
    /// The copy as fast as it goes.
    pub bulk: Bulk,
    /// The paced phase.
    pub paced: Option<Paced>,
    /// What the data plane had to do without.
    pub without: Vec<String>,
    /// The comparison.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The copy as fast as it goes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    /// Bytes of record batches.
    pub bytes: u64,
    /// Batches.
    pub batches: u64,
    /// From the command to the last byte visible.
    pub seconds: f64,
    /// Bytes per second, from the first visible bytes to the last.
    pub rate: f64,
    /// CPU seconds of the data plane's process per 10^9 bytes, the start of the mirror included.
    pub cpu_seconds_per_gb: f64,
    /// The data plane's memory at its highest.
    pub memory: Memory,
}

impl Bulk {
    /// `timed` are the seconds and bytes from the first look with bytes on.
    #[must_use]
    pub fn new(
        bytes: u64,
        batches: u64,
        seconds: f64,
        (timed_seconds, timed_bytes): (f64, u64),
        cpu_seconds: f64,
        memory: Memory,
    ) -> Self {
        // So little that one look saw it all: the whole time is what there is.
        let is_short = timed_bytes == 0 || timed_seconds <= 0.0;
        let rate = if is_short { bytes as f64 / seconds } else { timed_bytes as f64 / timed_seconds };
        Self { bytes, batches, seconds, rate, cpu_seconds_per_gb: cpu_seconds / (bytes.max(1) as f64 / 1e9), memory }
    }
}

/// Memory of the data plane in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Resident and huge pages.
    pub process_bytes: u64,
    /// The region shared with the control plane, touched or not.
    pub region_bytes: u64,
}

impl Memory {
    /// Keeps the highest of what was seen.
    pub fn note(&mut self, process_bytes: u64, region_bytes: u64) {
        self.process_bytes = self.process_bytes.max(process_bytes);
        self.region_bytes = region_bytes;
    }

    /// Both together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.process_bytes + self.region_bytes
    }
}

/// A profile as the command line names it.
#[must_use]
pub fn name(profile: Profile) -> &'static str {
    match profile {
        Profile::Demo => "demo",
        Profile::Large => "large",
        Profile::Small => "small",
        Profile::FloorRatio => "floor-ratio",
        Profile::Control => "control",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bulk = &self.bulk;
        writeln!(f, "source    {}", self.source)?;
        writeln!(f, "mirrored  {} in {:.2} s ({} batches)", Bytes(bulk.bytes), bulk.seconds, bulk.batches)?;
        writeln!(f, "rate      {:.2} GB/s from the first visible bytes to the last", bulk.rate / 1e9)?;
        writeln!(f, "cpu       {:.3} s per GB (data plane)", bulk.cpu_seconds_per_gb)?;
        let memory = &bulk.memory;
        writeln!(
            f,
            "memory    {} (data plane: resident and huge pages {}, shared region {})",
            Bytes(memory.total_bytes()),
            Bytes(memory.process_bytes),
            Bytes(memory.region_bytes)
        )?;
        match &self.paced {
            None => writeln!(f, "paced     not run")?,
            Some(paced) => {
                writeln!(
                    f,
                    "paced     {} MB/s, {} batches, flush interval {} ms; delay from fetchable at the source, in ms:",
                    paced.rate / 1_000_000,
                    paced.batches,
                    paced.flush_interval_ms
                )?;
                writeln!(f, "            visible    flushed")?;
                let (visible, flushed) = (&paced.visible_ms, &paced.flushed_ms);
                for (name, visible, flushed) in [
                    ("p50", visible.p50, flushed.p50),
                    ("p99", visible.p99, flushed.p99),
                    ("p99.9", visible.p999, flushed.p999),
                    ("max", visible.max, flushed.max),
                ] {
                    writeln!(f, "  {name:<6} {visible:>10.2} {flushed:>10.2}")?;
                }
            }
        }
        self.without.iter().try_for_each(|missing| writeln!(f, "without: {missing}"))?;
        if self.kept {
            writeln!(f, "kept      {}", self.folder)?;
        }
        write!(f, "{}", self.verdict)
    }
}
