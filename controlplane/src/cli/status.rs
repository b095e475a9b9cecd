//! `twinlog status`: what an operator looks at first.

use super::args::Status;
use super::describe::{self, Mirror};
use super::failure::Failure;
use super::{connect, output};
use serde::Serialize;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// How often `--watch` shows it again.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How many wrong partitions are named.
const NAMED_PARTITIONS_MAX: usize = 20;

/// One mirror in short.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    mirror: String,
    source_cluster_id: Option<String>,
    topics: usize,
    partitions: usize,
    /// Partitions by state.
    states: BTreeMap<String, usize>,
    /// Sum over the partitions whose lag is known; `None` when none is.
    lag_records: Option<i64>,
    /// The largest lag in time.
    lag_ms_max: Option<i64>,
    /// Whether the data plane tells offsets at all.
    data_plane: bool,
    /// What is wrong, a line each.
    wrong: Vec<String>,
}

/// Shows it once, or every second.
///
/// # Errors
/// When the control plane does not answer.
pub(super) fn run(args: &Status) -> Result<(), Failure> {
    loop {
        let mut client = connect(&args.ask)?;
        let summaries: Vec<Summary> = describe::ask(&mut client, None, &[])?.iter().map(summary).collect();
        if args.ask.json {
            output::json(&summaries)?;
        } else {
            print(&summaries)?;
        }
        if !args.watch {
            return Ok(());
        }
        sleep(WATCH_INTERVAL);
    }
}

fn summary(mirror: &Mirror) -> Summary {
    let partitions = || mirror.topics.iter().flat_map(|topic| &topic.partitions);
    let mut states = BTreeMap::new();
    for partition in partitions() {
        *states.entry(partition.state.clone()).or_insert(0) += 1;
    }
    let wrong = mirror.topics.iter().flat_map(|topic| {
        topic.partitions.iter().filter_map(|p| {
            let why = p.error_message.as_deref()?;
            Some(format!("{}-{} is {}: {why}", topic.topic, p.partition, p.state))
        })
    });
    let count = partitions().count();
    Summary {
        mirror: mirror.mirror.clone(),
        source_cluster_id: mirror.source_cluster_id.clone(),
        topics: mirror.topics.len(),
        partitions: count,
        states,
        lag_records: partitions().filter_map(|p| p.lag_records).reduce(|a, b| a + b),
        lag_ms_max: partitions().filter_map(|p| p.lag_ms).max(),
        data_plane: count == 0 || partitions().any(|p| p.destination_offset.is_some()),
        wrong: wrong.collect(),
    }
}

fn print(summaries: &[Summary]) -> Result<(), Failure> {
    output::line("control plane: serving")?;
    if summaries.iter().any(|summary| !summary.data_plane) {
        output::line("data plane: no offsets known; it is down, or has only just started")?;
    }
    if summaries.is_empty() {
        return output::line("no mirrors; `twinlog mirrors create NAME --source HOST:PORT` makes one");
    }
    let rows: Vec<Vec<String>> = summaries
        .iter()
        .map(|s| {
            let states =
                s.states.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ");
            vec![
                s.mirror.clone(),
                s.topics.to_string(),
                s.partitions.to_string(),
                states,
                output::number(s.lag_records),
                output::number(s.lag_ms_max),
            ]
        })
        .collect();
    output::table(&["MIRROR", "#TOPICS", "#PARTITIONS", "STATES", "#LAG", "#LAG MS"], &rows)?;
    for (summary, why) in
        summaries.iter().flat_map(|s| s.wrong.iter().take(NAMED_PARTITIONS_MAX).map(move |why| (s, why)))
    {
        output::line(&format!("{}: {why}", summary.mirror))?;
    }
    Ok(())
}
