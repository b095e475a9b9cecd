//! pure: what Prometheus reads, and whether the node is healthy.

use crate::mirror::catalog::Catalog;
use crate::mirror::machine::STATES;
use crate::plane::attachment::CoreNumbers;
use crate::plane::pace::Pace;
use crate::plane::view::View;
use std::collections::BTreeMap;
use std::fmt::Write;
use twinlog_proto::channel::page::{Counter, Delay, Kind};
use twinlog_proto::channel::progress::PartitionProgress;
use twinlog_proto::mirror_state::MirrorState;

/// Everything that the pages are made of, besides catalog and view.
#[derive(Debug, Default)]
pub struct Facts {
    /// Process id of the attached data plane.
    pub data_plane_pid: Option<u32>,
    /// Its cores' numbers.
    pub cores: Vec<CoreNumbers>,
    /// Open client connections.
    pub connections: usize,
    /// What is wrong, one line each.
    pub troubles: Vec<String>,
}

type Pick = fn(&PartitionProgress, i64) -> Option<i64>;

const GAUGES: [(&str, &str, Pick); 7] = [
    ("twinlog_partition_source_offset", "High watermark at the source", |seen, _| known(seen.source_high_watermark)),
    ("twinlog_partition_destination_offset", "Log end here", |seen, _| known(seen.leo)),
    ("twinlog_partition_flushed_offset", "Log end on stable storage", |seen, _| known(seen.flushed)),
    ("twinlog_partition_log_start_offset", "First offset kept here", |seen, _| known(seen.log_start)),
    ("twinlog_partition_lag_records", "Records still to come", |seen, _| seen.lag_records()),
    ("twinlog_partition_lag_bytes", "Bytes still to come, estimated", |seen, _| known(seen.lag_bytes)),
    ("twinlog_partition_lag_ms", "Time since the partition had everything", |seen, now| {
        Pace::of_board(seen, now).lag_ms
    }),
];

/// The text of `/metrics`.
#[must_use]
pub fn prometheus(catalog: &Catalog, view: &View<'_>, facts: &Facts) -> String {
    let mut out = String::new();
    head(&mut out, "twinlog_data_plane_up", "gauge", "Whether a data plane is attached");
    line(&mut out, "twinlog_data_plane_up", "", i64::from(facts.data_plane_pid.is_some()));
    head(&mut out, "twinlog_client_connections", "gauge", "Open client connections");
    line(&mut out, "twinlog_client_connections", "", facts.connections as i64);
    head(&mut out, "twinlog_mirrors", "gauge", "Mirrors");
    line(&mut out, "twinlog_mirrors", "", catalog.mirrors().count() as i64);
    states(&mut out, catalog, view);
    for (name, help, pick) in GAUGES {
        head(&mut out, name, "gauge", help);
        for (mirror, topic_name, topic, index, _) in catalog.partitions() {
            let value = view.progress(topic, index).and_then(|seen| pick(&seen, view.now_ms));
            let Some(value) = value else { continue };
            // Names are of [a-zA-Z0-9._-], so nothing needs to be escaped.
            let labels = format!("{{mirror=\"{mirror}\",topic=\"{topic_name}\",partition=\"{index}\"}}");
            line(&mut out, name, &labels, value);
        }
    }
    cores(&mut out, &facts.cores);
    out
}

fn states(out: &mut String, catalog: &Catalog, view: &View<'_>) {
    let name = "twinlog_partitions";
    head(out, name, "gauge", "Partitions by mirror and state");
    for (mirror, known) in catalog.mirrors() {
        let mut counts: BTreeMap<MirrorState, i64> = STATES.iter().map(|state| (*state, 0)).collect();
        for topic in known.topics.values() {
            for index in topic.partitions.keys() {
                *counts.entry(view.state(topic, *index)).or_default() += 1;
            }
        }
        for (state, count) in counts.into_iter().filter(|(state, _)| *state != MirrorState::Unknown) {
            line(out, name, &format!("{{mirror=\"{mirror}\",state=\"{}\"}}", state.name()), count);
        }
    }
}

fn cores(out: &mut String, cores: &[CoreNumbers]) {
    for (at, counter) in Counter::ALL.iter().enumerate() {
        let (name, kind) = match counter.kind() {
            Kind::Counter => (format!("twinlog_core_{}_total", counter.name()), "counter"),
            Kind::Gauge => (format!("twinlog_core_{}", counter.name()), "gauge"),
        };
        head(out, &name, kind, counter.help());
        for (core, numbers) in cores.iter().enumerate() {
            let _infallible = writeln!(out, "{name}{{core=\"{core}\"}} {}", numbers.counters[at]);
        }
    }
    for (at, delay) in Delay::ALL.iter().enumerate() {
        let name = format!("twinlog_core_delay_{}_seconds", delay.name());
        head(out, &name, "summary", "Delays since the data plane started");
        for (core, numbers) in cores.iter().enumerate() {
            let delays = &numbers.delays[at];
            for quantile in [0.5, 0.99, 0.999] {
                let Some(micros) = delays.quantile_micros(quantile) else { continue };
                let seconds = micros as f64 / 1e6;
                let _infallible = writeln!(out, "{name}{{core=\"{core}\",quantile=\"{quantile}\"}} {seconds}");
            }
            let sum = delays.sum_micros as f64 / 1e6;
            let _infallible = writeln!(out, "{name}_sum{{core=\"{core}\"}} {sum}");
            let _infallible = writeln!(out, "{name}_count{{core=\"{core}\"}} {}", delays.count());
        }
    }
}

/// The text of `/health`: what is wrong with the node, and failed partitions, which do not make it unhealthy.
#[must_use]
pub fn health(catalog: &Catalog, facts: &Facts) -> String {
    let mut text = if facts.troubles.is_empty() { "healthy\n".to_owned() } else { "unhealthy\n".to_owned() };
    for trouble in &facts.troubles {
        let _infallible = writeln!(text, "{trouble}");
    }
    for (mirror, topic_name, topic) in catalog.topics() {
        let failed = topic.partitions.values().filter(|p| p.standing.state == MirrorState::Failed).count();
        if failed > 0 {
            let _infallible = writeln!(text, "mirror {mirror}, topic {topic_name}: {failed} partitions FAILED");
        }
    }
    text
}

fn known(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _infallible = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: i64) {
    let _infallible = writeln!(out, "{name}{labels} {value}");
}
