//! `twinlog-bench run floor-ratio`: the floor and the mirror in turn on the same machine, and what one is of the other.

use std::fmt;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use super::place::parent;
use super::report::Report;
use super::{RunError, measure};
use crate::args::{FILES, Floor, FloorMode, PIECES, RECEIVE_BUFFER_BYTES, Run};
use crate::compare::Verdict;
use crate::floor::{self, Figures, FloorError};
use crate::units::Bytes;

const SETTLE: Duration = Duration::from_secs(2);

/// A ratio that could not be measured.
#[derive(Debug, Error)]
pub enum RatioError {
    /// The mirror's side.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The floor's side.
    #[error(transparent)]
    Floor(#[from] FloorError),
}

/// Medians of both, and their ratios.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ratio {
    /// Passes of each.
    pub runs: u32,
    /// The floor's median by rate.
    pub floor: Figures,
    /// The mirror's median by rate.
    pub mirror: Report,
    /// The mirror's median rate by the floor's.
    pub rate: f64,
    /// The mirror's median CPU time per byte by the floor's.
    pub cpu: f64,
    /// All comparisons together.
    pub verdict: Verdict,
}

/// Measures both in turn, `args.runs` times.
///
/// # Errors
/// When either side cannot be measured.
pub fn run(args: &Run) -> Result<Ratio, RatioError> {
    let floor_args = Floor {
        content: args.content(),
        mode: FloorMode::All,
        dir: parent(args.dir.as_deref()),
        source: None,
        core: None,
        source_core: None,
        pieces: PIECES,
        files: FILES,
        receive_buffer: RECEIVE_BUFFER_BYTES,
        runs: 1,
        json: false,
    };
    let args = Run { dir: Some(floor_args.dir.clone()), ..args.clone() };
    let (mut floors, mut mirrors) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        settle();
        floors.push(floor::measure_aside(&floor_args)?);
        settle();
        mirrors.push(measure(&args, false)?);
    }
    let verdict = mirrors.iter().fold(Verdict::nothing(), |verdict, mirror| verdict.and(mirror.verdict.clone()));
    floors.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    mirrors.sort_by(|one, other| one.bulk.rate.total_cmp(&other.bulk.rate));
    let cpu = median(mirrors.iter().map(|mirror| mirror.bulk.cpu_seconds_per_gb))
        / median(floors.iter().map(|floor| floor.cpu_seconds_per_gb));
    let (floor, mirror) = (floors.swap_remove(floors.len() / 2), mirrors.swap_remove(mirrors.len() / 2));
    Ok(Ratio { runs: args.runs, rate: mirror.bulk.rate / floor.rate, cpu, floor, mirror, verdict })
}

/// Lets the disk come to rest: the files of the pass before have just been removed, and their blocks may still be discarded.
fn settle() {
    rustix::fs::sync();
    thread::sleep(SETTLE);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (floor, mirror) = (&self.floor, &self.mirror.bulk);
        writeln!(f, "source    {}; medians of {}", self.mirror.source, self.runs)?;
        writeln!(f, "               floor     mirror      ratio")?;
        let (rates, ratio) = ((floor.rate / 1e9, mirror.rate / 1e9), self.rate);
        writeln!(f, "GB/s      {:>10.2} {:>10.2} {ratio:>10.2}", rates.0, rates.1)?;
        let cpu = (floor.cpu_seconds_per_gb, mirror.cpu_seconds_per_gb);
        writeln!(f, "CPU s/GB  {:>10.3} {:>10.3} {:>10.2}", cpu.0, cpu.1, self.cpu)?;
        let memory = (Bytes(floor.memory_bytes).to_string(), Bytes(mirror.memory.total_bytes()).to_string());
        writeln!(f, "memory    {:>10} {:>10}", memory.0, memory.1)?;
        let missing = floor.without.iter().map(|it| ("floor", it));
        let missing = missing.chain(self.mirror.without.iter().map(|it| ("mirror", it)));
        for (who, what) in missing {
            writeln!(f, "without ({who}): {what}")?;
        }
        write!(f, "{}", self.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < f64::EPSILON);
        assert!(median(std::iter::empty()).is_nan());
    }
}
